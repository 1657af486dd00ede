from datetime import timedelta

from operator_.plan.builders import NOW
from ringtrain_operator.api.status import Failure
from ringtrain_operator.plan.backoff import FIRST_SECONDS, FREE, LONGEST_SECONDS, WINDOW, seconds_to_wait


def losses(
    count: int, *, counted: bool = False, replica: int = 0, age: float = 0, in_place: bool = False
) -> list[Failure]:
    """A second apart, the last `age` seconds ago."""
    return [
        Failure(
            time=NOW - timedelta(seconds=age + before),
            replica=replica,
            pod="p",
            reason="Evicted",
            counted=counted,
            in_place=in_place,
        )
        for before in reversed(range(count))
    ]


def test_the_first_losses_are_repaired_at_once() -> None:
    assert seconds_to_wait(0, losses(FREE), NOW) == 0


def test_further_losses_wait_ever_longer() -> None:
    waits = [seconds_to_wait(0, losses(FREE + more), NOW) for more in range(1, 7)]
    assert waits == [FIRST_SECONDS, 2 * FIRST_SECONDS, 4 * FIRST_SECONDS, 8 * FIRST_SECONDS, 60, 60]
    assert waits[-1] == LONGEST_SECONDS


def test_time_since_the_last_loss_is_taken_off() -> None:
    assert seconds_to_wait(0, losses(FREE + 1, age=2), NOW) == FIRST_SECONDS - 2
    assert seconds_to_wait(0, losses(FREE + 1, age=60), NOW) == 0


def test_what_is_long_past_or_hit_another_replica_or_stayed_in_its_pod_makes_nobody_wait() -> None:
    assert seconds_to_wait(0, losses(9, age=WINDOW.total_seconds()), NOW) == 0
    assert seconds_to_wait(0, losses(9, replica=1), NOW) == 0
    assert seconds_to_wait(0, losses(9, counted=True, in_place=True), NOW) == 0


def test_the_jobs_own_faults_make_all_wait() -> None:
    assert seconds_to_wait(0, losses(FREE + 1, counted=True, replica=1), NOW) == FIRST_SECONDS


def test_one_cause_is_one_fault_however_many_pods_it_ends() -> None:
    together = [each for replica in range(9) for each in losses(1, counted=True, replica=replica, age=9 - replica)]
    assert seconds_to_wait(0, together, NOW) == 0
    again = [each for _ in range(FREE + 1) for each in together]
    assert seconds_to_wait(0, again, NOW) == FIRST_SECONDS - 1
