import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain_operator.queue import FIRST_BACKOFF, LONGEST_BACKOFF, KeyQueue, Workers


def test_a_key_is_queued_once() -> None:
    queue = KeyQueue[str]()
    queue.add("a")
    queue.add("b")
    queue.add("a")
    assert len(queue) == 2
    assert [queue.take(0), queue.take(0), queue.take(0)] == ["a", "b", None]


def test_a_key_that_runs_is_not_given_twice_and_is_queued_again() -> None:
    queue = KeyQueue[str]()
    queue.add("a")
    queue.take(0)
    queue.add("a")
    queue.add("a")
    assert queue.take(0) is None
    queue.finish("a", 0, None)
    assert queue.take(0) == "a"
    queue.finish("a", 0, None)
    assert queue.take(0) is None


def test_requeue_after() -> None:
    queue = KeyQueue[str]()
    queue.add("a")
    queue.take(10)
    queue.finish("a", 10, 5)
    assert queue.next_due() == 15
    assert queue.take(14.9) is None
    assert queue.take(15) == "a"
    assert queue.next_due() is None


def test_a_pass_in_between_replaces_the_delayed_one() -> None:
    queue = KeyQueue[str]()
    queue.add("a")
    queue.take(0)
    queue.finish("a", 0, 5)
    queue.add("a")
    assert queue.take(1) == "a"
    queue.finish("a", 1, 9)
    assert queue.next_due() == 10
    assert queue.take(5) is None
    assert queue.take(10) == "a"


def test_errors_back_off_by_key_and_success_resets() -> None:
    queue = KeyQueue[str]()
    now, waits = 0.0, []
    for _ in range(12):
        queue.add("bad")
        assert queue.take(now) == "bad"
        waits.append(queue.fail("bad", now))
        now = queue.next_due() or 0.0
    assert waits[:3] == [FIRST_BACKOFF, 2 * FIRST_BACKOFF, 4 * FIRST_BACKOFF]
    assert waits[-1] == LONGEST_BACKOFF
    queue.add("good")
    assert queue.take(0) == "good"
    queue.finish("good", 0, None)
    assert queue.take(now) == "bad"
    queue.finish("bad", now, None)
    queue.add("bad")
    queue.take(now)
    assert queue.fail("bad", now) == FIRST_BACKOFF


@given(st.lists(st.tuples(st.sampled_from(["add", "take", "finish", "fail"]), st.integers(0, 3)), max_size=80))
def test_no_key_is_lost_and_none_runs_twice(steps: list[tuple[str, int]]) -> None:
    queue = KeyQueue[int]()
    now, running, owed = 0.0, set[int](), set[int]()
    for step, key in steps:
        now += 1
        if step == "add":
            queue.add(key)
            owed.add(key)
        elif step == "take":
            taken = queue.take(now)
            if taken is not None:
                assert taken not in running
                running.add(taken)
                owed.discard(taken)
        elif key in running:
            running.remove(key)
            if step == "finish":
                queue.finish(key, now, None)
            else:
                queue.fail(key, now)
                owed.add(key)
    for key in list(running):
        queue.finish(key, now, None)
    now += LONGEST_BACKOFF
    left = set()
    while (taken := queue.take(now)) is not None:
        left.add(taken)
    assert left == owed


def run_workers(workers: Workers[str], until: asyncio.Event) -> None:
    async def run() -> None:
        task = asyncio.create_task(workers.run())
        async with asyncio.timeout(30):
            await until.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def test_one_keys_trouble_never_delays_another() -> None:
    done = asyncio.Event()
    passes = Counter[str]()

    async def work(key: str) -> float | None:
        passes[key] += 1
        if key == "stuck":
            await asyncio.Event().wait()
        if key == "bad":
            raise RuntimeError("no")
        if passes["good"] == 20:
            done.set()
        return 0

    workers = Workers(work, concurrency=2)
    for key in ("stuck", "bad", "good"):
        workers.add(key)
    run_workers(workers, done)
    assert passes["stuck"] == 1
    assert passes["bad"] < 20
    assert passes["good"] == 20


def test_concurrency_is_bounded_and_a_key_never_runs_twice_at_once() -> None:
    done = asyncio.Event()
    running, highest, total = set[str](), 0, 0

    async def work(key: str) -> float | None:
        nonlocal highest, total
        assert key not in running
        running.add(key)
        highest, total = max(highest, len(running)), total + 1
        workers.add(key)
        await asyncio.sleep(0)
        running.remove(key)
        if total >= 100:
            done.set()
        return None

    workers = Workers(work, concurrency=3)
    for number in range(10):
        workers.add(str(number))
    run_workers(workers, done)
    assert highest == 3


def test_a_pass_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ringtrain_operator.queue.PASS_SECONDS", 0.01)
    monkeypatch.setattr("ringtrain_operator.queue.FIRST_BACKOFF", 0.01)
    done = asyncio.Event()
    passes = 0

    async def work(_: str) -> float | None:
        nonlocal passes
        passes += 1
        if passes == 3:
            done.set()
        await asyncio.Event().wait()
        return None

    workers = Workers(work, concurrency=1)
    workers.add("a")
    run_workers(workers, done)
    assert passes == 3
