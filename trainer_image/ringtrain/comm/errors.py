"""How communication fails."""


class PeerLost(RuntimeError):
    """A collective, or the forming of a group, failed: some member is gone. The group is of no more use."""


class Disagreement(RuntimeError):
    """The ranks are not in the same round, or not in the same state; the message names both rounds."""


class Abandoned(Exception):
    """Nobody waits for this any more."""
