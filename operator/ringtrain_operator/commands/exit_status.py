"""Exit statuses of the commands (docs/cli.md)."""

FAILED = 1
"""The job failed, or something that was looked for is not as it should be."""
REFUSED = 2
"""It cannot be done as it was asked for: options, a file, a job that does not exist, a right that is missing."""
UNREACHABLE = 3
"""The cluster cannot be asked. Another try may succeed."""
INTERRUPTED = 130
"""By Ctrl-C."""
