from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, sys, threading, time
from worker import forking

begun, under_way = threading.Event(), []

def slow(*arguments):
    under_way.append(1)
    begun.set()
    time.sleep(0.5)
    under_way.clear()
    return []

forking._getaddrinfo = slow
if sys.argv[1] == "guarded":
    forking.fork_between_lookups()
else:
    import socket
    socket.getaddrinfo = slow
threading.Thread(target=lambda: __import__("socket").getaddrinfo("redis", 6379)).start()
begun.wait()
child = os.fork()
if child == 0:
    os._exit(len(under_way))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def child_sees_a_lookup(how: str) -> int:
    return subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM, how], timeout=60).returncode


def test_a_fork_waits_for_a_lookup_under_way() -> None:
    assert child_sees_a_lookup("guarded") == 0


def test_without_it_the_child_would_inherit_the_lookup() -> None:
    assert child_sees_a_lookup("plain") == 1
