from __future__ import annotations

from collections.abc import Mapping

import pytest
import redis

from shared.errors import QueueUnavailable
from shared.meters import Meter, Meters
from shared.server import connect_worker
from shared.settings import Settings
from worker.tally import Tally


@pytest.fixture
def meters(redis_url: str) -> Meters:
    client: redis.Redis = connect_worker(Settings(redis_url=redis_url))
    return Meters(client)


def test_differences_of_several_workers_add_up(meters: Meters) -> None:
    one, other = Tally(), Tally()

    def send(tally: Tally, converted: int = 0) -> None:
        tally.send(lambda amounts: meters.add("tiny", amounts), {"convert_count": converted})

    one.add("hits_slot")
    one.took("swap", 0.0025)
    send(one, converted=3)
    send(one, converted=3)
    other.add("hits_slot", 2)
    send(other)
    one.took("swap", 0.001)
    send(one, converted=4)
    assert meters.read("tiny") == {"hits_slot": 3, "swap_count": 2, "swap_us": 3500, "convert_count": 4}
    assert meters.read("another") == {}


def test_what_did_not_arrive_is_sent_again() -> None:
    tally, arrived = Tally(), list[Mapping[Meter, int]]()

    def away(amounts: Mapping[Meter, int]) -> None:
        raise QueueUnavailable("away")

    tally.add("hits_disk")
    with pytest.raises(QueueUnavailable):
        tally.send(away, {})
    tally.add("hits_disk")
    tally.send(lambda amounts: arrived.append(dict(amounts)), {})
    tally.send(lambda amounts: arrived.append(dict(amounts)), {})
    assert arrived == [{"hits_disk": 2}]
