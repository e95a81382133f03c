"""Samples of the exporters that people run, lived through once by one real Prometheus.

Each file of ``sources/`` is one exporter's text, scene after scene; all go through their scenes
together, and each scene has two instants: at once, when every target has been scraped in it, and
later, when no counter shows a rise any more. Tests ask about those instants as often as they like.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from idlewin.adapters.clock import SystemClock
from idlewin.adapters.prometheus import PrometheusMetrics
from idlewin.catalogue import SHIPPED
from idlewin.core.load import History, Reading
from idlewin.core.rule import Activity
from idlewin.core.target import Demand
from idlewin.source import SourceKind, filled
from tests.contract.demand_rules import rule
from tests.labs.kubelab.api import HOST, wait_for
from tests.labs.promlab.exporters import Served
from tests.labs.promlab.prometheus import Prometheus

FOLDER = Path(__file__).with_name("sources")
WINDOW = timedelta(seconds=8)
#: A scene's second instant: its changes are older than the window by more than a scrape.
LATER_S = WINDOW.total_seconds() + 2
#: The body of a scene in which the exporter does not answer.
SILENT = "(silent)"
_KNOWN = {"project", "version", "origin", "target", "honor_labels"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One file: where it is from, how it is scraped, and its scenes in order."""

    name: str
    head: Mapping[str, str]
    scenes: Mapping[str, str]

    @property
    def target(self) -> dict[str, str]:
        """Labels that the scrape configuration adds."""
        pairs = (pair.split("=", 1) for pair in self.head.get("target", "").split())
        return dict(pairs)  # type: ignore[arg-type]

    @property
    def job(self) -> str:
        """Replicas of one exporter are NAME.1.prom and so on, and one job."""
        return self.name.split(".")[0]


def read(path: Path) -> Sample:
    """A sample file; the scenes begin at ``# scene: NAME`` lines, what comes before is the head."""
    head_text, *parts = path.read_text().split("# scene: ")
    head: dict[str, str] = {}
    for line in head_text.splitlines():
        key, _, value = line.removeprefix("# ").partition(": ")
        if key in _KNOWN:
            head[key] = value
            last = key
        else:
            head[last] += " " + line.removeprefix("#").strip()
    scenes = {part.split("\n", 1)[0]: part.split("\n", 1)[1] for part in parts}
    return Sample(name=path.name.removesuffix(".prom"), head=head, scenes=scenes)


def samples() -> list[Sample]:
    """Every sample that there is."""
    return [read(path) for path in sorted(FOLDER.glob("*.prom"))]


class Stage(Served):
    """Exposes every sample under a path of its own, all in their n-th scene."""

    def __init__(self, shown: list[Sample]) -> None:
        self._shown = {sample.name: sample for sample in shown}
        self._scraped: dict[str, int] = {}
        self._scene = 0
        super().__init__()

    def enter(self, scene: int) -> None:
        """From now on the n-th scene; who has fewer stays in the last one."""
        self._scene = scene
        self._scraped = {}

    def seen(self, times: int) -> bool:
        """Whether every sample was scraped so often in this scene."""
        return all(self._scraped.get(name, 0) >= times for name in self._shown)

    def respond(self, path: str, body: str) -> tuple[int, str, str]:  # noqa: ARG002
        name = path.strip("/")
        bodies = list(self._shown[name].scenes.values())
        text = bodies[min(self._scene, len(bodies) - 1)]
        self._scraped[name] = self._scraped.get(name, 0) + 1
        if text.strip() == SILENT:
            return 503, "text/plain", ""
        return 200, "text/plain; version=0.0.4", text

    def scrape(self) -> dict[str, dict[str, Any]]:
        """The scrape configuration: a job for each sample, replicas in one."""
        jobs: dict[str, dict[str, Any]] = {}
        for sample in self._shown.values():
            jobs[sample.name] = {
                "metrics_path": f"/{sample.name}",
                "honor_labels": sample.head.get("honor_labels") == "true",
                "static_configs": [
                    {
                        "targets": [f"{HOST}:{self.port}"],
                        "labels": {"instance": sample.name, "job": sample.job, **sample.target},
                    }
                ],
            }
        return jobs


class Then(Served):
    """A Prometheus that answers each instant query as of one moment."""

    def __init__(self, prometheus: Prometheus, at: float) -> None:
        self._url, self._at = prometheus.url, at
        super().__init__()

    def respond(self, path: str, body: str) -> tuple[int, str, str]:
        form = f"{body}&{urlencode({'time': self._at})}".encode() if body else None
        try:
            with urllib.request.urlopen(f"{self._url}{path}", data=form) as answer:
                return answer.status, "application/json", answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, "application/json", error.read().decode()


class Lived:
    """What Prometheus has seen of all samples, and when."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus
        self._moments: dict[tuple[int, bool], float] = {}
        self._samples = {sample.name: sample for sample in samples()}

    def live(self, stage: Stage) -> None:
        """Go through all scenes."""
        for scene in range(max(len(sample.scenes) for sample in self._samples.values())):
            begun = time.time()
            stage.enter(scene)
            wait_for(f"scene {scene} scraped", lambda: stage.seen(2))
            self._moments[scene, False] = time.time()
            time.sleep(max(0.0, begun + LATER_S - time.time()))
            self._moments[scene, True] = time.time()
            # A scrape that began before that moment has to end in this scene.
            time.sleep(0.3)

    def at(self, sample: str, scene: str, *, later: bool = False) -> float:
        """When a sample was in a scene: just then, or a window later."""
        number = list(self._samples[sample].scenes).index(scene)
        return self._moments[number, later]

    def values(self, query: str, keys: tuple[str, ...], at: float) -> dict[str, float]:
        """What a query gave at a moment, by key."""
        found = self._prometheus.query(query, at=at)
        told = [
            ("/".join(one["metric"].get(key, "") for key in keys), float(one["value"][1]))
            for one in found
        ]
        assert len(dict(told)) == len(told), f"several series for one key: {told}"
        assert all(set(one["metric"]) <= set(keys) for one in found), "more labels than keys"
        return dict(told)

    def of_source(
        self, source: str, at: float, *, without: tuple[str, str] | None = None
    ) -> dict[str, float]:
        """What a source of the catalogue gave, or would give with a part of its query replaced."""
        found = SHIPPED.sources[source]
        query = filled(found.query, WINDOW)
        if without is not None:
            old, new = (filled(text, WINDOW) for text in without)
            assert old in query, f"{source} has no {old!r} any more"
            query = query.replace(old, new)
        return self.values(query, found.keys, at)

    def past(self, source: str) -> History:
        """The past of all that a demand source shows, as forecasts see it, by steps of 20 s."""
        metrics = PrometheusMetrics(self._prometheus.url, SystemClock(), window=WINDOW)
        try:
            asked = rule(Demand(source=source))
            return metrics.history(asked, timedelta(minutes=30), timedelta(seconds=20))
        finally:
            metrics.close()

    def reading(self, source: str, match: Mapping[str, str], at: float) -> Reading:
        """What the shipped adapter made of it."""
        with Then(self._prometheus, at) as then:
            metrics = PrometheusMetrics(then.url, SystemClock(), window=WINDOW)
            try:
                if SHIPPED.sources[source].kind is SourceKind.ACTIVITY:
                    asked = rule(activity=Activity(source=source, match=dict(match)))
                else:
                    asked = rule(Demand(source=source, match=dict(match)))
                return metrics.read(asked)[-1]
            finally:
                metrics.close()
