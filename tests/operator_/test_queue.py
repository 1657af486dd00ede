import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtrain_operator.queue import FIRST_BACKOFF, LEAST_REST, LONGEST_BACKOFF, LONGEST_REST, KeyQueue, Workers


def test_a_key_is_queued_once() -> None:
    queue = KeyQueue[str]()
    queue.add("a", 0)
    queue.add("b", 0)
    queue.add("a", 0)
    assert len(queue) == 2
    assert [queue.take(0), queue.take(0), queue.take(0)] == ["a", "b", None]


def test_a_key_that_runs_is_not_given_twice_and_is_queued_again() -> None:
    queue = KeyQueue[str]()
    queue.add("a", 0)
    queue.take(0)
    queue.add("a", 0)
    queue.add("a", 0)
    assert queue.take(0) is None
    queue.finish("a", 0, None)
    assert queue.take(0) == "a"
    queue.finish("a", 0, None)
    assert queue.take(0) is None


def test_requeue_after() -> None:
    queue = KeyQueue[str]()
    queue.add("a", 0)
    queue.take(10)
    queue.finish("a", 10, 5)
    assert queue.next_due() == 15
    assert queue.take(14.9) is None
    assert queue.take(15) == "a"
    assert queue.next_due() is None


def test_a_pass_in_between_replaces_the_delayed_one() -> None:
    queue = KeyQueue[str]()
    queue.add("a", 0)
    queue.take(0)
    queue.finish("a", 0, 5)
    queue.add("a", 1)
    assert queue.take(1) == "a"
    queue.finish("a", 1, 9)
    assert queue.next_due() == 10
    assert queue.take(5) is None
    assert queue.take(10) == "a"


def test_errors_back_off_by_key_and_success_resets() -> None:
    queue = KeyQueue[str]()
    now, waits = 0.0, []
    queue.add("bad", now)
    for _ in range(12):
        assert queue.take(now) == "bad"
        waits.append(queue.fail("bad", now))
        now = queue.next_due() or 0.0
    assert waits[:3] == [FIRST_BACKOFF, 2 * FIRST_BACKOFF, 4 * FIRST_BACKOFF]
    assert waits[-1] == LONGEST_BACKOFF
    queue.add("good", 0)
    assert queue.take(0) == "good"
    queue.finish("good", 0, None)
    assert queue.take(now) == "bad"
    queue.finish("bad", now, None)
    queue.add("bad", now)
    queue.take(now)
    assert queue.fail("bad", now) == FIRST_BACKOFF


def test_a_key_rests_between_passes_and_is_looked_at_once_after_it() -> None:
    queue = KeyQueue[str]()
    queue.add("a", 0)
    queue.take(0)
    queue.finish("a", 0, 5)
    queue.add("a", LEAST_REST / 4)
    queue.add("a", LEAST_REST / 2)
    assert queue.take(LEAST_REST / 2) is None
    assert queue.next_due() == LEAST_REST
    assert queue.take(LEAST_REST) == "a"
    queue.add("a", LEAST_REST)
    queue.finish("a", LEAST_REST, 5)
    assert queue.next_due() == 2 * LEAST_REST
    assert queue.take(9) == "a"


def test_a_key_whose_passes_take_long_rests_as_long() -> None:
    queue = KeyQueue[str]()
    for now, took, rest in ((0.0, 1.0, 1.0), (100.0, 30.0, LONGEST_REST)):
        queue.add("a", now)
        queue.take(now)
        queue.finish("a", now + took, 50)
        queue.add("a", now + took)
        assert queue.next_due() == now + took + rest


def test_a_key_with_nothing_to_come_does_not_rest() -> None:
    queue = KeyQueue[str]()
    queue.add("a", 0)
    queue.take(0)
    queue.finish("a", 0, None)
    queue.add("a", 0)
    assert queue.take(0) == "a"


@given(st.lists(st.tuples(st.sampled_from(["add", "take", "finish", "fail"]), st.integers(0, 3)), max_size=80))
def test_no_key_is_lost_and_none_runs_twice(steps: list[tuple[str, int]]) -> None:
    queue = KeyQueue[int]()
    now, running, owed = 0.0, set[int](), set[int]()
    for step, key in steps:
        now += 1
        if step == "add":
            queue.add(key, now)
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


def run_workers(workers: Workers[str], until: asyncio.Event, *keys: str) -> None:
    async def run() -> None:
        for key in keys:
            workers.add(key)
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
    run_workers(workers, done, "stuck", "bad", "good")
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
    run_workers(workers, done, *map(str, range(10)))
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
    run_workers(workers, done, "a")
    assert passes == 3
