from __future__ import annotations

import os
from pathlib import Path

from cli.environment import for_python, with_decided, without_settings


def test_what_the_user_set_is_kept_and_the_rest_decided() -> None:
    inherited = {"HOME": "/h", "HOTSLOT_REDIS_URL": "redis://mine", "HOTSLOT_LEASE_MS": "700"}
    decided = {"redis_url": "redis://embedded", "public_url": "http://here"}
    found = with_decided(inherited, decided, frozenset({"redis_url", "lease_ms"}))
    assert found == inherited | {"HOTSLOT_PUBLIC_URL": "http://here"}


def test_another_spelling_does_not_contradict_what_was_decided() -> None:
    found = with_decided({"hotslot_data_folder": "/old"}, {"data_folder": "/new"})
    assert found == {"HOTSLOT_DATA_FOLDER": "/new"}


def test_settings_of_the_user_can_be_left_behind() -> None:
    assert without_settings({"PATH": "/bin", "HOTSLOT_STORE": "s3", "hotslot_lease_ms": "1"}) == {"PATH": "/bin"}


def test_a_source_tree_comes_first_on_the_path_and_nothing_is_lost() -> None:
    root = str(Path(__file__).resolve().parents[2])
    found = for_python({"PYTHONPATH": "/mine", "HOME": os.sep})
    assert found["PYTHONPATH"].split(":") == [root, "/mine"]
    assert found["PYTHONUNBUFFERED"] == "1"
