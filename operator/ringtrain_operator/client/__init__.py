"""TrainingJobs from Python, with the verbs of the command line.

from ringtrain_operator.client import TrainingJobs

async with TrainingJobs.connect() as jobs:
    await jobs.submit(manifest)
    async for job in jobs.watch("gpt-text"):
        print(job.status.phase, job.status.progress)
"""

from ringtrain_operator.client.errors import CannotAsk, ClientError, NoSuchJob, Refused, TookTooLong
from ringtrain_operator.client.events import JobEvent
from ringtrain_operator.client.job import TrainingJob
from ringtrain_operator.client.jobs import TrainingJobs
from ringtrain_operator.client.log_line import LogLine

__all__ = [
    "CannotAsk",
    "ClientError",
    "JobEvent",
    "LogLine",
    "NoSuchJob",
    "Refused",
    "TookTooLong",
    "TrainingJob",
    "TrainingJobs",
]
