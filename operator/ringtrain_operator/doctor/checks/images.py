"""Can the images of the jobs be pulled?"""

from ringtrain_operator.doctor.checks.operators import IMAGE_TROUBLE
from ringtrain_operator.doctor.facts import Facts, Unknown
from ringtrain_operator.doctor.finding import Finding, Level

_SUBJECT = "images"


def check(facts: Facts) -> tuple[Finding, ...]:
    waiting = facts.waiting
    if isinstance(waiting, Unknown):
        return (Finding(Level.UNKNOWN, _SUBJECT, waiting.why),)
    wrong = {(pod.job, pod.image): pod for pod in waiting if pod.reason in IMAGE_TROUBLE}
    return tuple(
        Finding(
            Level.FAIL,
            _SUBJECT,
            f"image {image} of job {job} cannot be pulled: {pod.name}: {pod.reason}: {pod.message}",
            "set spec.image to an image that the nodes can pull; a private registry needs "
            "spec.template.spec.imagePullSecrets",
        )
        for (job, image), pod in wrong.items()
    )
