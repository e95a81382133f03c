"""A loopback proxy in front of the API server, through which a test sees and breaks requests.

TLS ends here, under a certificate of the lab's CA, and begins anew towards the API server. Watches
are streamed. A test can act at the n-th write, before it is forwarded or after the API server has
answered and before the client hears of it; the client's connection is then dropped.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, urlsplit

import yaml

from tests.labs.kubelab import pki
from tests.labs.kubelab.api import HOST
from tests.labs.kubelab.controlplane import ControlPlane

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
#: Renewals of leases, and questions that the API server answers by POST and keeps nothing of.
NOT_COUNTED = r"/leases(/|$)|/(subjectaccess|selfsubject\w*|token)reviews$|/token$"
HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})
CHUNK = 1 << 16


class Moment(StrEnum):
    """Where in a request a test acts."""

    BEFORE = "before it is forwarded"
    AFTER = "after the API server has answered, before the client hears it"


class Drop(Exception):  # noqa: N818 - not an error: what a hook raises to cut the connection
    """Raised by a hook: the client's connection is closed without a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request, and what the API server said."""

    method: str
    uri: str
    agent: str
    number: int  # its place among the counted writes, from 1; 0: not counted
    status: int = 0  # 0: not answered yet

    @property
    def path(self) -> str:
        return urlsplit(self.uri).path


Hook = Callable[[Exchange, Moment], None]


def _nothing(_exchange: Exchange, _moment: Moment) -> None:
    return


@dataclass(slots=True, kw_only=True)
class Counting:
    """Which writes count: of clients whose user agent matches, on paths that are not left out."""

    agent: str = ""
    leave_out: str = NOT_COUNTED
    _lock: threading.Lock = field(default_factory=threading.Lock)
    writes: list[Exchange] = field(default_factory=list)  # as they came, unanswered

    def take(self, method: str, uri: str, agent: str) -> Exchange:
        parts = urlsplit(uri)
        counts = (
            method in WRITES
            and "All" not in parse_qs(parts.query).get("dryRun", ())
            and re.search(self.leave_out, parts.path) is None
            and re.search(self.agent, agent) is not None
        )
        with self._lock:
            number = len(self.writes) + 1 if counts else 0
            exchange = Exchange(method=method, uri=uri, agent=agent, number=number)
            if counts:
                self.writes.append(exchange)
        return exchange


class Proxy:
    """The running proxy; ``hook`` is called twice for each request and may raise Drop."""

    def __init__(self, plane: ControlPlane, *, agent: str = "", leave_out: str = "") -> None:
        """Count writes of clients whose user agent has ``agent`` (a pattern) in it."""
        pattern = f"{NOT_COUNTED}|{leave_out}" if leave_out else NOT_COUNTED
        self.counting = Counting(agent=agent, leave_out=pattern)
        self.hook: Hook = _nothing
        self.upstream = plane.ports["api"]
        self.tls = ssl.create_default_context(cafile=str(plane.folder / "pki/ca.crt"))
        self._folder = plane.folder
        self._server = _Server(self, _certificate(plane))
        self.url = f"https://{HOST}:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._server.drop_all()

    @property
    def writes(self) -> list[Exchange]:
        """The counted writes so far."""
        return list(self.counting.writes)

    def kubeconfig(self, of: Path) -> Path:
        """A copy of a kubeconfig that leads through here."""
        config = yaml.safe_load(of.read_text())
        config["clusters"][0]["cluster"]["server"] = self.url
        path = self._folder / f"{of.name}-by-{self._server.server_port}"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config))
        return path

    def at(self, number: int, moment: Moment, act: Callable[[], object]) -> threading.Event:
        """At the n-th counted write from now on: act, and drop the connection.

        The event that is returned is set when it has happened. Counting begins anew.
        """
        done = threading.Event()
        self.counting.writes.clear()

        def hook(exchange: Exchange, now: Moment) -> None:
            if exchange.number == number and now is moment and not done.is_set():
                act()
                done.set()
                raise Drop

        self.hook = hook
        return done


def _certificate(plane: ControlPlane) -> ssl.SSLContext:
    pair = pki.issue(plane.ca, "kubelab-proxy", dns=["localhost"], ips=[HOST])
    path = plane.folder / "pki" / "proxy.pem"
    path.touch(mode=0o600)
    path.write_bytes(pair.key_pem + pair.cert_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, proxy: Proxy, tls: ssl.SSLContext) -> None:
        super().__init__((HOST, 0), _Handler)
        self.proxy = proxy
        self._open: set[socket.socket] = set()
        # The handshake is the handler thread's: here one slow client would hold up all.
        self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        self._open.add(request)
        super().process_request(request, client_address)  # type: ignore[arg-type]

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that breaks is what this proxy is for."""

    def drop_all(self) -> None:
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """One client's connection, with one of its own to the API server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        proxy = self.server.proxy
        self._api = http.client.HTTPSConnection(HOST, proxy.upstream, context=proxy.tls)

    def finish(self) -> None:
        self._api.close()
        with contextlib.suppress(OSError, ValueError):
            super().finish()

    def log_message(self, *_: object) -> None:
        """The audit log has it all."""

    def _pass(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        agent = self.headers.get("User-Agent", "")
        exchange = proxy.counting.take(self.command, self.path, agent)
        try:
            proxy.hook(exchange, Moment.BEFORE)
            response = self._forward(body)
            answered = Exchange(
                method=exchange.method,
                uri=exchange.uri,
                agent=agent,
                number=exchange.number,
                status=response.status,
            )
            proxy.hook(answered, Moment.AFTER)
            self._answer(response)
        except (Drop, OSError, http.client.HTTPException):
            # What broke on one side breaks on the other.
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _pass  # noqa: N815

    def _forward(self, body: bytes) -> http.client.HTTPResponse:
        kept = {key: value for key, value in self.headers.items() if key.lower() not in HOP_BY_HOP}
        if body:
            kept["Content-Length"] = str(len(body))
        self._api.request(self.command, self.path, body=body or None, headers=kept)
        return self._api.getresponse()

    def _answer(self, response: http.client.HTTPResponse) -> None:
        self.send_response_only(response.status, response.reason)
        for key, value in response.getheaders():
            if key.lower() not in HOP_BY_HOP:
                self.send_header(key, value)
        if response.length is not None:
            self.send_header("Content-Length", str(response.length))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(response.read())
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while piece := response.read1(CHUNK):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")
