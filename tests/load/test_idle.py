"""Work that can wait does wait for what has arrived, and is done all the same where something always arrives."""

from __future__ import annotations

import socket
import time

import gevent
from gevent.hub import get_hub

from load.http.reader import WhenIdle


def test_work_is_done_in_its_order_and_not_at_once() -> None:
    when_idle, done = WhenIdle(), list[int]()
    for number in range(3):
        when_idle(done.append, number)
    assert done == []
    gevent.sleep(0.02)
    assert done == [0, 1, 2]


def test_work_may_bring_more_work() -> None:
    when_idle, done = WhenIdle(), list[str]()

    def first() -> None:
        done.append("first")
        when_idle(done.append, "second")

    when_idle(first)
    gevent.sleep(0.02)
    assert done == ["first", "second"]


def test_what_has_arrived_is_read_before_the_work_is_done() -> None:
    when_idle, done = WhenIdle(), list[str]()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"x")
        watcher = get_hub().loop.io(ours.fileno(), 1)
        watcher.start(lambda: done.append(ours.recv(1).decode()))
        # Timers count from the loop's own clock, which stands still while no test runs the loop.
        get_hub().loop.update_now()
        when_idle(done.append, "work")
        gevent.sleep(0.02)
        watcher.stop()
        watcher.close()
    assert done == ["x", "work"]


def test_a_loop_that_always_has_something_to_read_still_comes_to_the_work() -> None:
    when_idle, done = WhenIdle(), list[int]()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"never read")
        watcher = get_hub().loop.io(ours.fileno(), 1)
        watcher.start(lambda: None)
        for number in range(3):
            when_idle(done.append, number)
        deadline = time.monotonic() + 10
        while len(done) < 3 and time.monotonic() < deadline:
            gevent.sleep(0.01)
        watcher.stop()
        watcher.close()
    assert done == [0, 1, 2]
