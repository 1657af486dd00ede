from ringtrain_operator.cluster.refusals import Refusals
from ringtrain_operator.queue import LONGEST_BACKOFF


def test_a_refusal_is_told_until_it_is_taken_or_old() -> None:
    now = 0.0
    refusals = Refusals(lambda: now)
    assert refusals.words("job") == ""
    refusals.refused("job", "Pod a", "quota")
    refusals.refused("other", "Pod a", "name")
    assert refusals.words("job") == "quota"
    now = LONGEST_BACKOFF
    refusals.refused("job", "Pod b", "memory")
    now = 2 * LONGEST_BACKOFF
    assert refusals.words("job") == "memory"
    refusals.taken("job", "Pod b")
    assert refusals.words("job") == ""
    refusals.taken("job", "Pod never refused")


def test_jobs_that_are_gone_are_forgotten() -> None:
    refusals = Refusals(lambda: 0.0)
    refusals.refused("gone", "Pod a", "quota")
    refusals.refused("there", "Pod a", "quota")
    refusals.forget_all_but({"there"})
    assert (refusals.words("gone"), refusals.words("there")) == ("", "quota")
