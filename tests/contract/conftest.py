"""A real Prometheus for the contract tests, and two exporters that it scrapes each second."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.lived import Lived, Stage, samples
from tests.labs.promlab.exporters import Exporter
from tests.labs.promlab.prometheus import Prometheus


@pytest.fixture
def live() -> Iterator[Exporter]:
    """What Prometheus scrapes as job ``live``."""
    with Exporter() as exporter:
        yield exporter


@pytest.fixture
def twin() -> Iterator[Exporter]:
    """What Prometheus scrapes as job ``twin``."""
    with Exporter() as exporter:
        yield exporter


@pytest.fixture
def server(
    promlab_programs: Path, live: Exporter, twin: Exporter, tmp_path: Path
) -> Iterator[Prometheus]:
    """A Prometheus that is not started yet, so that a test may backfill it."""
    jobs = {"live": live.port, "twin": twin.port}
    server = Prometheus(promlab_programs, tmp_path / "prometheus", jobs)
    yield server
    server.stop()


@pytest.fixture
def prometheus(server: Prometheus) -> Prometheus:
    """The same, started."""
    server.start()
    return server


@pytest.fixture(scope="session")
def lived(promlab_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    """All samples of exporters, lived through once; 45 s, shared by every test."""
    folder = tmp_path_factory.mktemp("lived") / "prometheus"
    with (
        Stage(samples()) as stage,
        Prometheus(promlab_programs, folder, stage.scrape()) as prometheus,
    ):
        lived = Lived(prometheus)
        lived.live(stage)
        yield lived
