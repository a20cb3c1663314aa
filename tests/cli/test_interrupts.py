from __future__ import annotations

import os
import signal

import pytest

from cli.interrupts import Interrupts


def test_signals_are_counted_and_raise_nothing() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interrupts() as interrupts:
        assert not interrupts.asked
        os.kill(os.getpid(), signal.SIGTERM)
        assert (interrupts.asked, interrupts.asked_twice) == (True, False)
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.asked_twice
        assert interrupts.exit_status == 130
    assert signal.getsignal(signal.SIGTERM) is before


def hang_up_and_clean_up() -> None:
    try:
        os.kill(os.getpid(), signal.SIGHUP)
    finally:
        os.kill(os.getpid(), signal.SIGINT)


def test_within_a_raising_block_the_first_one_raises_and_the_next_only_counts() -> None:
    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt), interrupts.raising():
            hang_up_and_clean_up()
        assert interrupts.count == 2


def test_a_raising_block_is_not_entered_any_more() -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt), interrupts.raising():
            raise AssertionError("entered")
