"""What a test plays towards Prometheus and its clients: an exporter, and a Prometheus that lies."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.labs.kubelab.api import HOST


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves is nobody's error."""


class Served:
    """An HTTP server in a thread; ``silence`` closes its port, ``speak`` opens the same again."""

    def __init__(self) -> None:
        self._server: _Server | None = None
        self.port = 0
        self.authorization: str | None = None
        self.speak()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.silence()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def speak(self) -> None:
        """Be there, at the port it had."""
        if self._server is None:
            self._server = _Server((HOST, self.port), self._handler())
            self.port = self._server.server_port
            threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def silence(self) -> None:
        """Be gone: connections are refused."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def respond(self, path: str, body: str) -> tuple[int, str, str]:
        """Status, content type and text for one request."""
        raise NotImplementedError

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.authorization = self.headers.get("Authorization")
                length = int(self.headers.get("Content-Length") or 0)
                status, kind, text = served.respond(self.path, self.rfile.read(length).decode())
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        return Handler


class Exporter(Served):
    """Gauges that a test sets."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, float] = {}
        super().__init__()

    def set(self, name: str, value: float, **labels: str) -> None:
        """From now on a series has this value."""
        with self._lock:
            self._values[_series(name, labels)] = value

    def drop(self, name: str, **labels: str) -> None:
        """From now on a series is not exposed."""
        with self._lock:
            self._values.pop(_series(name, labels), None)

    def respond(self, path: str, body: str) -> tuple[int, str, str]:  # noqa: ARG002
        with self._lock:
            lines = [f"{series} {value}\n" for series, value in self._values.items()]
        return 200, "text/plain; version=0.0.4", "".join(lines)


def _series(name: str, labels: dict[str, str]) -> str:
    inside = ",".join(f"{key}={json.dumps(value)}" for key, value in sorted(labels.items()))
    return f"{name}{{{inside}}}" if inside else name


class FakePrometheus(Served):
    """Answers every query of the HTTP API with what the test says: error, warning, NaN, rubbish."""

    def __init__(self) -> None:
        self.queries: list[str] = []
        self._answer = (200, "application/json", vector())
        self._delay_s = 0.0
        super().__init__()

    def answer(self, body: str, *, status: int = 200, delay_s: float = 0) -> None:
        """From now on: this status and text, that late."""
        self._answer = (status, "application/json", body)
        self._delay_s = delay_s

    def respond(self, path: str, body: str) -> tuple[int, str, str]:
        asked = parse_qs(urlsplit(path).query) or parse_qs(body)
        self.queries += asked.get("query", [])
        time.sleep(self._delay_s)
        return self._answer


def vector(*values: float | str, warnings: tuple[str, ...] = (), **labels: str) -> str:
    """A good answer of an instant query, as JSON: a series a value, as of now."""
    result: list[dict[str, Any]] = [
        {"metric": {**labels, "series": str(place)}, "value": [time.time(), str(value)]}
        for place, value in enumerate(values)
    ]
    answer = {"status": "success", "data": {"resultType": "vector", "result": result}}
    return json.dumps({**answer, "warnings": list(warnings)} if warnings else answer)


def failure(kind: str, message: str) -> str:
    """A refusal as the API tells it, as JSON."""
    return json.dumps({"status": "error", "errorType": kind, "error": message})
