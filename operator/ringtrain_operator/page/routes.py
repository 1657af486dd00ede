"""The page and its one source of data."""

from importlib.resources import files

from aiohttp import web

from ringtrain_operator.page.board import Board

LOOPBACK = "127.0.0.1"
"""The page asks nobody who they are: only this machine, or whoever may forward ports into the pod, can reach it."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
}


def page_routes(board: Board) -> list[web.RouteDef]:
    """/, which is HTML, and /jobs.json."""
    html = files("ringtrain_operator.page").joinpath("page.html").read_text(encoding="utf-8")

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=html, content_type="text/html", headers=_HEADERS)

    async def jobs(_: web.Request) -> web.Response:
        return web.json_response(board.document(), headers=_HEADERS)

    return [web.get("/", page), web.get("/jobs.json", jobs)]
