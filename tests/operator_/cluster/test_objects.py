from ringtrain_operator.cluster.objects import GONE_SECONDS, Objects
from ringtrain_operator.plan.observed import JobKey

JOB, OTHER = JobKey("n", "job"), JobKey("n", "other")


def test_the_newest_version_is_known_and_only_changes_are_news() -> None:
    objects = Objects[str]()
    assert objects.put(JOB, "uid", "9", "old", 0)
    assert objects.put(JOB, "uid", "10", "new", 0)
    assert not objects.put(JOB, "uid", "9", "old", 0)
    assert not objects.put(JOB, "uid", "11", "new", 0)
    assert list(objects.of(JOB)) == ["new"]
    assert list(objects.of(OTHER)) == []


def test_what_is_gone_does_not_come_back_by_a_late_answer() -> None:
    objects = Objects[str]()
    objects.put(JOB, "uid", "1", "a", 0)
    assert objects.drop("uid", 1) == JOB
    assert objects.drop("uid", 1) is None
    assert not objects.put(JOB, "uid", "2", "b", 2)
    assert list(objects.of(JOB)) == []


def test_the_dead_are_forgotten_in_the_end() -> None:
    objects = Objects[str]()
    objects.drop("uid", 0)
    objects.keep((), GONE_SECONDS - 1)
    assert not objects.put(JOB, "uid", "1", "a", 0)
    objects.keep((), GONE_SECONDS)
    assert objects.put(JOB, "uid", "1", "a", 0)


def test_a_list_drops_what_it_does_not_show_unless_that_came_after_the_question() -> None:
    objects = Objects[str]()
    for uid, at in (("stays", 0), ("missed", 0), ("newer", 5)):
        objects.put(JOB, uid, "1", uid, at)
    objects.put(OTHER, "elsewhere", "1", "elsewhere", 0)
    assert objects.keep({"stays"}, 3, JOB) == {JOB}
    assert sorted(objects.of(JOB)) == ["newer", "stays"]
    assert objects.keep({"stays"}, 3) == {OTHER}
    assert list(objects.of(OTHER)) == []


def test_a_slow_list_does_not_drop_what_was_made_while_it_was_read() -> None:
    objects = Objects[str]()
    asked = 6
    objects.put(JOB, "made", "1", "a", 8)
    assert objects.keep((), asked) == set()
    assert list(objects.of(JOB)) == ["a"]
