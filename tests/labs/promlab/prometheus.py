"""A real Prometheus on loopback, with history made beforehand and exporters that a test plays."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import subprocess
import tempfile
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import yaml

from tests.labs.kubelab.api import HOST
from tests.labs.kubelab.processes import Processes, free_ports

PART = "prometheus"
START_TIMEOUT_S = 60


class Prometheus:
    """One server with its folder.

    ``scrape`` maps a job to the loopback port of its exporter, or to a scrape configuration.
    """

    def __init__(
        self,
        programs: Path,
        folder: Path,
        scrape: Mapping[str, int | Mapping[str, Any]],
        *,
        scrape_interval: str = "1s",
        lookback: str = "5m",
    ) -> None:
        self._programs = programs.resolve()
        self.folder = folder.resolve()
        self._port = free_ports(1)[0]
        self.url = f"http://{HOST}:{self._port}"
        self._lookback = lookback
        self._data = self.folder / "data"
        self._data.mkdir(parents=True)
        self._processes = Processes(self.folder)
        config = {
            "global": {"scrape_interval": scrape_interval, "scrape_timeout": scrape_interval},
            "scrape_configs": [
                {
                    "job_name": job,
                    **(
                        {"static_configs": [{"targets": [f"{HOST}:{how}"]}]}
                        if isinstance(how, int)
                        else how
                    ),
                }
                for job, how in scrape.items()
            ],
        }
        (self.folder / "prometheus.yml").write_text(yaml.safe_dump(config))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def backfill(self, openmetrics: str) -> None:
        """History from OpenMetrics text with a timestamp (s) on each line; before the start.

        Raises RuntimeError with what promtool says.
        """
        with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".om") as file:
            file.write(openmetrics)
            file.flush()
            command = ["tsdb", "create-blocks-from", "openmetrics", "--quiet"]
            done = subprocess.run(
                [self._programs / "promtool", *command, file.name, str(self._data)],
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            raise RuntimeError(f"promtool refuses the history: {done.stderr or done.stdout}")

    def start(self) -> None:
        """Start it, or start it again, on the same port and data; returns when it is ready."""
        self._processes.run(
            PART,
            [
                str(self._programs / "prometheus"),
                f"--config.file={self.folder}/prometheus.yml",
                f"--storage.tsdb.path={self._data}",
                "--storage.tsdb.retention.time=1y",
                f"--web.listen-address={HOST}:{self._port}",
                f"--query.lookback-delta={self._lookback}",
                # Or the first scrape comes five seconds after the start.
                "--scrape.discovery-reload-interval=100ms",
                "--log.level=warn",
            ],
        )
        self._processes.wait(PART, lambda: self._get("/-/ready")[0] == 200, START_TIMEOUT_S)

    def stop(self) -> None:
        self._processes.end()

    def kill(self, sig: signal.Signals = signal.SIGKILL) -> None:
        self._processes.kill(PART, sig)

    def restart(self) -> None:
        self.kill(signal.SIGTERM)
        self.start()

    def log(self) -> str:
        return self._processes.log(PART)

    def query(self, expression: str, *, at: float | None = None) -> list[dict[str, Any]]:
        """An instant query's result, for the test's own eyes, now or as of then.

        Raises RuntimeError.
        """
        asked = {"query": expression} | ({} if at is None else {"time": str(at)})
        path = f"/api/v1/query?{urllib.parse.urlencode(asked)}"
        answer = json.loads(self._get(path)[1])
        if answer["status"] != "success":
            raise RuntimeError(f"Prometheus says: {answer['error']}")
        return answer["data"]["result"]

    def value(self, expression: str) -> float | None:
        """The one value of a query; None: it has none, or several."""
        result = self.query(expression)
        return float(result[0]["value"][1]) if len(result) == 1 else None

    def _get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
