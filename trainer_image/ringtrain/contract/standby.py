"""What an agent asks of its standby process: a fork of it that is a rank. Messages of one packet each."""

from ringtrain.contract.model import ContractModel

VARIABLE = "RINGTRAIN_STANDBY_FD"
"""The descriptor of the standby's end of a SOCK_SEQPACKET pair."""
MAXIMUM_PACKET = 64 << 10
MAXIMUM_DESCRIPTORS = 64
GO = b"go"
"""From the agent: it watches the fork, which may begin."""


class Order(ContractModel):
    """From the agent, with the descriptors that the rank inherits."""

    agent: int
    """Process ID, whose child the fork becomes."""
    environment: dict[str, str]
    """What differs from the standby's own."""
    descriptors: dict[str, tuple[int, ...]]
    """By variable: which of the descriptors, in the order of arrival, it names, with commas."""
    output: int | None = None
    """Which of the descriptors becomes its standard output and error; None: those of the standby."""


class Forked(ContractModel):
    """The answer."""

    pid: int
