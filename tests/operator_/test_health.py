from ringtrain_operator.health import DELIVERY_SECONDS, LIST_SECONDS, WatchHealth

LATER = DELIVERY_SECONDS + 1


def watched() -> WatchHealth:
    health = WatchHealth(["pods"], now=0)
    health.listed("pods", {}, asked=0, now=0)
    return health


def test_a_watch_that_delivers_what_lists_show_is_alive() -> None:
    health = watched()
    for now in range(0, 1000, 100):
        health.event("pods", "a", str(now), now)
        health.listed("pods", {"a": str(now)}, asked=now, now=now)
        assert health.problems(now) == ()


def test_a_quiet_watch_is_alive_while_nothing_changes() -> None:
    health = watched()
    health.event("pods", "a", "1", 0)
    for now in range(0, 3000, 100):
        health.listed("pods", {"a": "1"}, asked=now, now=now)
    assert health.problems(2900 + LATER) == ()


def test_a_watch_that_died_silently_is_found() -> None:
    health = watched()
    health.event("pods", "a", "1", 0)
    health.listed("pods", {"a": "2"}, asked=10, now=11)
    assert health.problems(11 + DELIVERY_SECONDS) == ()
    health.listed("pods", {"a": "3"}, asked=100, now=100)
    (problem,) = health.problems(11 + LATER)
    assert "watch of pods" in problem


def test_a_new_object_that_no_event_brings_is_found() -> None:
    health = watched()
    health.listed("pods", {"a": "1"}, asked=0, now=0)
    assert health.problems(LATER) != ()
    health.event("pods", "a", "1", LATER)
    assert health.problems(LATER) == ()


def test_an_event_newer_than_the_list_counts() -> None:
    health = watched()
    health.event("pods", "a", "3", 10.5)
    health.listed("pods", {"a": "2"}, asked=10, now=11)
    assert health.problems(11 + LATER) == ()


def test_objects_that_went_away_unseen_are_forgotten() -> None:
    health = watched()
    health.listed("pods", {"a": "1"}, asked=0, now=0)
    health.listed("pods", {}, asked=10, now=10)
    assert health.problems(LATER) == ()


def test_a_deletion_settles_what_was_missing() -> None:
    health = watched()
    health.listed("pods", {"a": "1"}, asked=0, now=0)
    health.deleted("pods", "a")
    assert health.problems(LATER) == ()


def test_lists_that_fail_for_long_are_found() -> None:
    health = watched()
    assert health.problems(LIST_SECONDS) == ()
    (problem,) = health.problems(LIST_SECONDS + 1)
    assert "could not be listed" in problem


def test_readiness_needs_every_kind() -> None:
    health = WatchHealth(["jobs", "pods"], now=0)
    health.listed("jobs", {}, asked=0, now=0)
    assert not health.is_ready()
    health.listed("pods", {}, asked=0, now=0)
    assert health.is_ready()
