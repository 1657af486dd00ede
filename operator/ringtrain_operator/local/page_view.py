"""`ringtrain run --web`: a view that keeps a page beside another view."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

from ringtrain_operator.local.snapshot import Snapshot
from ringtrain_operator.local.view import View
from ringtrain_operator.page.board import Board
from ringtrain_operator.page.routes import LOOPBACK, page_routes
from ringtrain_operator.plan.observed import JobKey
from ringtrain_operator.plan.result import Event
from ringtrain_operator.server import serve


class PortTaken(Exception):
    """The page cannot be served; the message says why and what to do."""


class PageView:
    """Shows everything on `view`, and the job on `board`."""

    def __init__(self, view: View, board: Board, key: JobKey) -> None:
        self._view = view
        self._board = board
        self._key = key

    def note(self, text: str) -> None:
        self._view.note(text)

    def event(self, event: Event) -> None:
        self._view.event(event)

    def update(self, snapshot: Snapshot) -> None:
        self._board.seen(self._key, snapshot.status, datetime.now(UTC))
        self._view.update(snapshot)

    def close(self) -> None:
        self._view.close()


@asynccontextmanager
async def with_page(view: View, key: JobKey, port: int | None) -> AsyncIterator[View]:
    """`view`, with a page on loopback until the block ends, unless `port` is None; 0 takes a free one. Raises
    PortTaken."""
    if port is None:
        yield view
        return
    board = Board("this machine", lambda: datetime.now(UTC))
    async with AsyncExitStack() as stack:
        try:
            port = await stack.enter_async_context(serve(port, page_routes(board), LOOPBACK))
        except OSError as error:
            raise PortTaken(
                f"port {port} cannot be used for the page: {error.strerror}: name another --web-port"
            ) from error
        view.note(f"page: http://{LOOPBACK}:{port}/")
        yield PageView(view, board, key)
