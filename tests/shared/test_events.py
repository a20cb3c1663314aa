"""Reading a job's events: the newest, those after one, and what happens when the server is away."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest
import redis

from shared import keys
from shared.errors import QueueUnavailable
from shared.events import FROM_START, Event, Events
from shared.ids import new_job_id
from shared.job import Job
from shared.queue import Queue
from shared.server import connect_async, connect_worker
from shared.settings import Settings
from tests.shared.jobs import spec

T = TypeVar("T")


@pytest.fixture
def config(redis_url: str) -> Settings:
    return Settings.model_validate({"redis_url": redis_url})


@pytest.fixture
def client(config: Settings) -> Iterator[redis.Redis]:
    with connect_worker(config) as client:
        yield client


@pytest.fixture
def queue(client: redis.Redis, config: Settings) -> Queue:
    return Queue(client, config)


def _read(config: Settings, ask: Callable[[Events], Awaitable[T]]) -> T:
    async def run() -> T:
        events = Events(connect_async(config))
        try:
            return await ask(events)
        finally:
            await events.close()

    return asyncio.run(run())


def _submitted(queue: Queue) -> str:
    return queue.submit(new_job_id(), spec())


def test_a_job_begins_with_one_event(queue: Queue, config: Settings) -> None:
    job_id = _submitted(queue)
    newest = _read(config, lambda events: events.newest(job_id))
    assert newest is not None
    assert (newest.type, json.loads(newest.data), newest.terminal) == ("queued", {"reason": "submitted"}, False)
    assert _read(config, lambda events: events.after(job_id, FROM_START, 1000)) == [newest]


def test_nothing_of_a_job_never_seen(config: Settings, redis_url: str) -> None:
    assert _read(config, lambda events: events.newest("x")) is None
    assert _read(config, lambda events: events.after("x", FROM_START, 1)) == []


def test_a_read_waits_for_the_next_event(queue: Queue, config: Settings, client: redis.Redis) -> None:
    job_id = _submitted(queue)

    async def claimed_meanwhile(events: Events) -> list[Event]:
        newest = await events.newest(job_id)
        assert newest is not None
        reading = asyncio.create_task(events.after(job_id, newest.id, 60_000))
        while not any("b" in each["flags"] for each in await asyncio.to_thread(client.client_list)):
            await asyncio.sleep(0.01)
        assert isinstance(await asyncio.to_thread(queue.claim, "tiny-flux", "none", "w1"), Job)
        return await reading

    assert [event.type for event in _read(config, claimed_meanwhile)] == ["running"]


def test_a_cancelled_read_leaves_no_reader_behind(queue: Queue, config: Settings, client: redis.Redis) -> None:
    job_id = _submitted(queue)

    async def cancel(events: Events) -> None:
        newest = await events.newest(job_id)
        assert newest is not None
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(events.after(job_id, newest.id, 600_000), 0.1)
        while any("b" in each["flags"] for each in await asyncio.to_thread(client.client_list)):
            await asyncio.sleep(0.01)
        # The pool goes on with a fresh connection.
        assert await events.newest(job_id) == newest

    _read(config, cancel)


def test_the_end_is_the_last_event(queue: Queue, config: Settings, client: redis.Redis) -> None:
    job_id = _submitted(queue)
    queue.cancel(job_id)
    newest = _read(config, lambda events: events.newest(job_id))
    assert newest is not None
    assert newest.terminal
    assert client.pttl(keys.EVENTS(job_id)) > 0


@pytest.mark.parametrize("listening", [False, True])
def test_a_server_that_is_away(listening: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.events.ANSWER_S", 0.2)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if listening:
            listener.listen(10)
        config = Settings.model_validate({"redis_url": f"redis://127.0.0.1:{listener.getsockname()[1]}/0"})
        with pytest.raises(QueueUnavailable):
            _read(config, lambda events: events.newest("x"))
        with pytest.raises(QueueUnavailable):
            _read(config, lambda events: events.after("x", FROM_START, 1))
