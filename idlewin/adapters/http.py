"""The HTTP endpoint: health, metrics, wake calls and Alertmanager's webhook.

It only translates: claims are written by what the wiring gives, and are on record before a call
is answered. The only importer of starlette and uvicorn. No page for people lives here.
"""

from __future__ import annotations

import hmac
import json
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from threading import Thread
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from idlewin.adapters.alertmanager import wanted_claims
from idlewin.adapters.claims import Answer, Claim, claim_length
from idlewin.core.text import format_instant
from idlewin.errors import UsageError

#: Alertmanager sends what fits; what is larger is not from it.
LARGEST_BODY = 1 << 20
#: Calls at a time; more get 503, so a flood cannot take the controller's memory.
MOST_CALLS = 64
#: What is still being answered may take so long when the endpoint ends.
LONGEST_END = timedelta(seconds=5)
STATUS = {
    Answer.CLAIMED: 200,
    Answer.COVERED: 200,
    Answer.UNKNOWN_RULE: 404,
    Answer.REFUSED: 403,
    Answer.AWAY: 503,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Backing:
    """What the endpoint speaks for."""

    trouble: Callable[[], tuple[str, ...]]
    """Why the process is to be restarted, in sentences; empty: it is alive."""
    missing: Callable[[], tuple[str, ...]]
    """What is missing before it can do its work, in sentences; empty: it is ready."""
    metrics: Callable[[], tuple[bytes, str]]
    """The metrics in text form, and their content type."""
    claim: Callable[[str, timedelta], Claim]
    """Writes a claim; when it returns the claim is on record, or the answer says why not."""
    token: str = ""
    """What a caller of a POST must bring as a bearer; empty: anybody may."""


def application(backing: Backing) -> Starlette:
    """The endpoint as an ASGI application."""

    def healthz(_: Request) -> Response:
        return _told(backing.trouble(), bad=500)

    def readyz(_: Request) -> Response:
        return _told(backing.missing(), bad=503)

    def metrics(_: Request) -> Response:
        body, kind = backing.metrics()
        return Response(body, headers={"content-type": kind})

    async def wake(request: Request) -> Response:
        length = _asked_length(request, await _body(request))
        claim = await run_in_threadpool(backing.claim, request.path_params["rule"], length)
        return _answer([claim], ())

    async def alertmanager(request: Request) -> Response:
        try:
            wanted, passed = wanted_claims(_json(await _body(request)))
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        claims = [await run_in_threadpool(backing.claim, *one) for one in wanted.items()]
        return _answer(claims, passed)

    def guarded(endpoint: Callable[[Request], Awaitable[Response]]) -> Any:
        async def allowed(request: Request) -> Response:
            given = request.headers.get("authorization", "").encode()
            if backing.token and not hmac.compare_digest(
                given, b"Bearer " + backing.token.encode()
            ):
                message = "bring the token of --token-file as 'Authorization: Bearer ...'"
                raise HTTPException(401, message, headers={"www-authenticate": "Bearer"})
            return await endpoint(request)

        return allowed

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics),
            Route("/wake/{rule}", guarded(wake), methods=["POST"]),
            Route("/alertmanager", guarded(alertmanager), methods=["POST"]),
        ],
        exception_handlers={HTTPException: _error},
    )


class Endpoint:
    """Serves an application on an address, in a thread of its own."""

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        """Take the address. Raises UsageError where it cannot be had."""
        self._socket = _bound(host, port)
        self.host, self.port = self._socket.getsockname()[:2]
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                access_log=False,
                lifespan="off",
                limit_concurrency=MOST_CALLS,
                log_config=None,
                server_header=False,
                timeout_graceful_shutdown=2,
                timeout_keep_alive=5,
                ws="none",
            )
        )
        self._thread = Thread(
            target=self._server.run, args=([self._socket],), name="http", daemon=True
        )

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Answer what has begun, then no more."""
        self._server.should_exit = True
        self._thread.join(LONGEST_END.total_seconds())
        self._socket.close()


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=MOST_CALLS * 2)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; "
            "give another address with --listen"
        ) from error


def _told(sentences: tuple[str, ...], bad: int) -> Response:
    lines = sentences or ("ok",)
    return PlainTextResponse("\n".join(lines) + "\n", bad if sentences else 200)


def _answer(claims: list[Claim], passed: tuple[str, ...]) -> Response:
    """The worst that became of several claims; only what can succeed later is worth a retry.

    One that names no rule of ours must not have Alertmanager send the others for ever.
    """
    answers = {claim.answer for claim in claims}
    if any(claim.holds for claim in claims):
        answers.discard(Answer.UNKNOWN_RULE)
    told = {
        "claims": [
            {
                "rule": claim.rule,
                "answer": claim.answer.value,
                "until": format_instant(claim.until) if claim.until else None,
                "message": claim.message,
            }
            for claim in claims
        ],
        "passed": list(passed),
    }
    return JSONResponse(told, max((STATUS[answer] for answer in answers), default=200))


def _asked_length(request: Request, body: bytes) -> timedelta:
    text: Any = request.query_params.get("for")
    if body.strip():
        told = _json(body)
        if not isinstance(told, dict) or set(told) - {"for"}:
            raise HTTPException(400, 'the body is not understood; send {"for": "30m"} or nothing')
        text = told.get("for", text)
    try:
        return claim_length(text)
    except ValueError as error:
        raise HTTPException(400, str(error)) from None


async def _body(request: Request) -> bytes:
    read = bytearray()
    async for chunk in request.stream():
        read += chunk
        if len(read) > LARGEST_BODY:
            raise HTTPException(413, f"the body is larger than {LARGEST_BODY} bytes")
    return bytes(read)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from None


async def _error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it alone
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)
