"""Why training code leaves a generation, or the process."""


class Interrupted(Exception):
    """The generation is over: leave its collectives. `ringtrain.run` catches this and enters the training again."""

    def __init__(self, generation: str, reason: str) -> None:
        super().__init__(f"generation {generation} was left: {reason}")
        self.generation = generation
        self.reason = reason


class Preempted(Exception):
    """The replica was asked to stop."""


class JobFinished(Exception):
    """All ranks of the job are done: there is nothing left to enter."""


class BadConfiguration(Exception):
    """The configuration can never work; the message says which field and what to do. The job is not retried."""


class Unfit(Exception):
    """The pre-flight check found something wrong with this rank's machine; the message says what."""


class NoSession(RuntimeError):
    """This process was not started by an agent."""


class InjectedFault(RuntimeError):
    """The exception of the fault `raise:`."""


class PeersUnreachable(Exception):
    """Groups broke again and again, and training got no further."""


class EndedWithPeer(Exception):
    """A peer was lost, and this process can never communicate again: its replacement can."""
