"""The agent's connection to the coordinator, made again for ever: waiting for it never fails."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from ringtrain.connection import SILENCE_LIMIT, Connection, notice_vanished_peers
from ringtrain.contract.messages import MAXIMUM_LINE, Alive, Down, Message

_CONNECT_SECONDS = 5.0
_FIRST_DELAY = 0.1
_LONGEST_DELAY = 2.0
_ALIVE_INTERVAL = 1.0
_logger = logging.getLogger(__name__)


class Link:
    """Calls `opening` for the first messages of each connection, `received` for each message of the coordinator, and
    `lost` with the reason when a connection has ended."""

    def __init__(
        self,
        host: str,
        port: int,
        local_host: str | None,
        *,
        opening: Callable[[], Sequence[Message]],
        received: Callable[[Down], None],
        lost: Callable[[str], None],
    ) -> None:
        self._host = host
        self._port = port
        self._local_host = local_host
        self._opening = opening
        self._received = received
        self._lost = lost
        self._connection: Connection | None = None
        self._answered = False

    @property
    def connected(self) -> bool:
        return self._connection is not None

    @property
    def answered(self) -> bool:
        """Whether the coordinator has spoken on this connection: the kernel makes one with a hung process, too."""
        return self._connection is not None and self._answered

    def send(self, message: Message) -> bool:
        """False when there is no connection; the message is then dropped."""
        if self._connection is None:
            return False
        self._connection.send(message)
        return True

    async def run(self) -> None:
        """Until it is cancelled; what is queued is then still sent."""
        delay, told = _FIRST_DELAY, ""
        while True:
            reason, heard = await self._connect()
            if heard:
                delay = _FIRST_DELAY
                _logger.warning("the connection to the coordinator is lost: %s", reason)
            elif reason != told:
                _logger.info("waiting for the coordinator at %s:%d: %s", self._host, self._port, reason)
                told = reason
            await asyncio.sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)

    async def _connect(self) -> tuple[str, bool]:
        """One connection, from its beginning to its end; why it ended, and whether the coordinator ever spoke."""
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(
                    self._host,
                    self._port,
                    limit=MAXIMUM_LINE,
                    local_addr=(self._local_host, 0) if self._local_host else None,
                )
        except TimeoutError:
            return f"no answer within {_CONNECT_SECONDS:g} s", False
        except OSError as error:
            return error.strerror or str(error), False
        connection = Connection(reader, writer)
        heard, reason = False, ""
        self._answered = False
        try:
            notice_vanished_peers(writer)
            for message in self._opening():
                connection.send(message)
            self._connection = connection
            alive = asyncio.get_running_loop().create_task(_keep_alive(connection))
            try:
                while True:
                    message = await connection.receive(SILENCE_LIMIT)
                    if not isinstance(message, Down):
                        raise ValueError(f"the coordinator sent {message.type}")
                    heard = self._answered = True
                    self._received(message)
            finally:
                alive.cancel()
        except TimeoutError:
            reason = f"nothing was heard for {SILENCE_LIMIT:g} s"
        except (OSError, ValueError) as error:
            reason = str(error)
        finally:
            self._connection = None
            # When cancelled, the last words (why this replica ends) must still get out.
            await connection.close() if not reason else connection.abort()
        self._lost(reason)
        return reason, heard


async def _keep_alive(connection: Connection) -> None:
    while True:
        connection.send(Alive())
        await asyncio.sleep(_ALIVE_INTERVAL)
