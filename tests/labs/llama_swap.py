"""A stand-in for llama-swap: its event stream, its models and their unload, and its faults.

No registry has llama-swap, so the lines below are what v250 sent when it was watched by hand: first
its logs and its models, then a snapshot, which leaves an empty list out. ``/running`` and the
unloads are as its sources have them: a stopped model is left out, an unload stops all models and
cuts off what they have in flight.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Json = dict[str, Any]
_LOG = json.dumps({"source": "proxy", "data": '[INFO] "inflight" of nobody\n' * 2000})
_MODELS = (
    '[{"id":"qwen","name":"","description":"","state":"stopped","unlisted":false,"peerID":""}]'
)


def line(kind: str, data: str) -> bytes:
    """A message as it stands in the stream, in its order of keys."""
    told = json.dumps({"type": kind, "data": data}, separators=(",", ":"))
    return f"event:message\ndata:{told}\n\n".encode()


def in_flight(told: Json) -> bytes:
    return line("inflight", json.dumps(told, separators=(",", ":")))


def entry(number: int, model: str = "qwen", agent: str = "curl/7.88.1") -> Json:
    """A request, in the fields that are read and some of the others."""
    return {
        "id": str(number),
        "timestamp": "2026-11-30T20:10:10.562420443Z",
        "model": model,
        "req_path": "/v1/completions",
        "method": "POST",
        "req_headers": {"Authorization": "[REDACTED]", "User-Agent": agent},
        "remote_ip": "127.0.0.1",
        "resp_headers": {},
        "resp_bytes": 0,
        "elapsed_ms": 0,
    }


class LlamaSwap(ThreadingHTTPServer):
    """Answers its API as long as it is told to; everything else is noted and 404."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.status, self.mute = 200, False
        self.asked: list[str] = []
        self.models: dict[str, str] = {}
        """The state of each model that is not stopped."""
        self.answers: dict[str, tuple[int, bytes]] = {}
        """What is answered to a path instead of what is so."""
        self.first: dict[str, Callable[[], object]] = {}
        """What happens before a path is answered."""
        self.cut_off: list[str] = []
        """The requests that an unload met: they got 502."""
        self._lock = threading.Lock()
        self._requests: dict[str, Json] = {}
        self._streams: list[queue.Queue[bytes | None]] = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self.shutdown()
        self.server_close()

    # -- what users do

    def begin(self, number: int, model: str = "qwen", agent: str = "curl/7.88.1") -> None:
        """A request begins; it is told again when its answer does."""
        one = entry(number, model, agent)
        with self._lock:
            self._requests[one["id"]] = one
            for _ in range(2):
                self._tell(in_flight({"operation": "upsert", "request": one}))

    def end(self, number: int, *, told: bool = True) -> None:
        """It has ended; ``told=False``: the message was dropped, as they are under load."""
        with self._lock:
            del self._requests[str(number)]
            if told:
                self._tell(in_flight({"operation": "remove", "id": str(number)}))

    # -- its models

    def running(self) -> bytes:
        """``GET /running``, with some of its other fields."""
        told = [
            {"model": model, "state": state, "cmd": "llama-server", "ttl": 0}
            for model, state in sorted(self.models.items())
        ]
        return json.dumps({"running": told}).encode() + b"\n"

    def unload(self) -> None:
        """All models stop, whatever they have in flight."""
        self.models.clear()
        with self._lock:
            met = list(self._requests)
        self.cut_off += met
        for number in met:
            self.end(int(number))

    # -- what goes wrong

    def say(self, message: bytes) -> None:
        """Whatever it says in its streams."""
        with self._lock:
            self._tell(message)

    def cut(self) -> None:
        """All its streams end, as they do when it does."""
        with self._lock:
            for stream in self._streams:
                stream.put(None)
            self._streams.clear()

    # -- the stream

    def stream(self) -> queue.Queue[bytes | None]:
        """What one reader is sent."""
        sent: queue.Queue[bytes | None] = queue.Queue()
        with self._lock:
            sent.put(line("logData", _LOG))
            sent.put(line("modelStatus", _MODELS))
            sent.put(line("profileChanged", '{"active":null}'))
            if not self.mute:
                told = list(self._requests.values())
                snapshot = {"operation": "snapshot", **({"requests": told} if told else {})}
                sent.put(in_flight(snapshot))
            self._streams.append(sent)
        return sent

    def _tell(self, message: bytes) -> None:
        for stream in self._streams:
            stream.put(message)


class _Handler(BaseHTTPRequestHandler):
    server: LlamaSwap
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._note(self.path)
        if self.path == "/api/events" and self.path not in self.server.answers:
            self._stream(self.server.status)
        elif self.path == "/running":
            self._answer(200, self.server.running())
        elif self.path == "/unload":
            self.server.unload()
            self._answer(200, b"OK")
        else:
            self._answer(404, b"")

    def do_POST(self) -> None:
        self._note(f"POST {self.path}")
        if self.path == "/api/models/unload" and self.path not in self.server.answers:
            self.server.unload()
            self._answer(200, b'{"msg":"ok"}\n')
        else:
            self._answer(404, b"")

    def _note(self, asked: str) -> None:
        self.server.asked.append(asked)
        self.server.first.get(self.path, lambda: None)()

    def _answer(self, status: int, body: bytes) -> None:
        status, body = self.server.answers.get(self.path, (status, body))
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("location", "/elsewhere")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def _stream(self, status: int) -> None:
        self.send_response(status)
        if status != 200:
            self.send_header("content-length", "0")
            self.end_headers()
            return
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        sent = self.server.stream()
        with contextlib.suppress(OSError):
            while (message := sent.get()) is not None:
                # In two pieces: a line may come in several.
                for piece in (message[:7], message[7:]):
                    self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""
