"""Users of the sandbox's language model, and what its router, its server and its card tell of them.

The users are invented. In their past they come for ten hours a day, and the hour at which the
sandbox starts is in the quiet of their night, whatever the clock says. From then on there are as
many as ``/users/N`` was told.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Iterator

from tests.labs.promlab.exporters import Served

MINUTE_S = 60
DAY_MIN = 24 * 60
#: Users come from so many minutes after the start's time of day on, and so long.
COME_AFTER_MIN, STAY_MIN = 8 * 60, 10 * 60
REQUESTS_PER_USER_AND_MINUTE = 4
ROUTER = "websecure-ai-qwen3-8b-qwen-example-com@kubernetes"
_ROUTED = (
    f'traefik_router_requests_total{{code="%d",method="POST",protocol="http",router="{ROUTER}",'
    'service="ai-qwen3-8b-80@kubernetes"%s}'
)
_RUNNING = 'vllm:num_requests_running{model_name="qwen3-8b",engine="0"%s}'
_WAITING = 'vllm:num_requests_waiting{model_name="qwen3-8b",engine="0"%s}'
_CARD = 'hw_gpu_info{pci_bdf="0000:03:00.0",name="Intel Arc B580"%s}'
_BUSY = 'hw_gpu_utilization_ratio{pci_bdf="0000:03:00.0",task="compute"%s}'
#: The target labels of each job, which its live samples get from Prometheus.
JOBS = {
    "traefik": "",
    "vllm": ',namespace="ai"',
    "xpumd": ',node="node-b580"',
}


class Users(Served):
    """Exporters at ``/traefik``, ``/vllm`` and ``/xpumd``; ``/users/N`` says how many there are."""

    def __init__(self, serving: Callable[[], bool], batch: Callable[[], bool], routed: int) -> None:
        self._serving, self._batch = serving, batch
        self._lock = threading.Lock()
        self._users, self._asked_at = 0, time.monotonic()
        self._routed: dict[int, float] = {200: routed}
        super().__init__()

    def respond(self, path: str, body: str) -> tuple[int, str, str]:  # noqa: ARG002
        if said := re.fullmatch(r"/users/(\d{1,4})", path):
            with self._lock:
                self._count(up=self._serving())
                self._users = int(said[1])
            return 200, "text/plain", f"{said[1]} users\n"
        pages = {"/traefik": self._traefik, "/vllm": self._vllm, "/xpumd": self._xpumd}
        if path not in pages:
            return 404, "text/plain", "no such page: /users/N, " + ", ".join(pages) + "\n"
        up = self._serving()
        with self._lock:
            self._count(up=up)
            lines = [f"{series} {value:g}\n" for series, value in pages[path](up=up)]
        # A server that is not there answers no scrape.
        return (200 if lines else 503), "text/plain; version=0.0.4", "".join(lines)

    def _count(self, *, up: bool) -> None:
        """Requests since the last look; those of users who find no server end with 503."""
        now = time.monotonic()
        asked = self._users * (now - self._asked_at) / MINUTE_S * REQUESTS_PER_USER_AND_MINUTE
        self._asked_at = now
        if asked:
            code = 200 if up else 503
            self._routed[code] = self._routed.get(code, 0) + asked

    def _traefik(self, *, up: bool) -> Iterator[tuple[str, float]]:  # noqa: ARG002
        yield "traefik_config_last_reload_success", 1
        for code, count in self._routed.items():
            yield _ROUTED % (code, ""), int(count)

    def _vllm(self, *, up: bool) -> Iterator[tuple[str, float]]:
        if up:
            yield _RUNNING % "", self._users
            yield _WAITING % "", 0

    def _xpumd(self, *, up: bool) -> Iterator[tuple[str, float]]:
        yield _CARD % "", 1
        yield _BUSY % "", 0.9 if (up and self._users) or self._batch() else 0


def past(now_s: int, days: int) -> tuple[str, int]:
    """So many days as OpenMetrics text, up to a minute ago, and the requests that were routed."""
    draw = random.Random(0)
    end = now_s // MINUTE_S - 1
    begin = end - days * DAY_MIN + 1
    users: list[int] = []
    for _ in range(days):
        # Nobody comes to the minute: each day begins and ends a little early or late.
        come = COME_AFTER_MIN + round(draw.gauss(0, 25))
        go = COME_AFTER_MIN + STAY_MIN + round(draw.gauss(0, 40))
        users += [draw.choice((0, 0, 1, 1, 2, 3)) * (come <= m < go) for m in range(DAY_MIN)]
    routed, counts = 0, []
    for count in users:
        routed += count * REQUESTS_PER_USER_AND_MINUTE
        counts.append(routed)
    inside = {job: f',job="{job}",instance="{job}"{labels}' for job, labels in JOBS.items()}
    ones = [1.0] * len(users)
    columns = {
        "traefik_config_last_reload_success": (
            f"traefik_config_last_reload_success{{{inside['traefik'][1:]}}}",
            ones,
        ),
        "traefik_router_requests": (_ROUTED % (200, inside["traefik"]), counts),
        "vllm:num_requests_running": (_RUNNING % inside["vllm"], users),
        "vllm:num_requests_waiting": (_WAITING % inside["vllm"], [0] * len(users)),
        "hw_gpu_info": (_CARD % inside["xpumd"], ones),
        "hw_gpu_utilization_ratio": (_BUSY % inside["xpumd"], [0.9 * bool(n) for n in users]),
    }
    lines = []
    for name, (series, values) in columns.items():
        lines.append(f"# TYPE {name} {'counter' if name.endswith('requests') else 'gauge'}\n")
        lines += [
            f"{series} {value:g} {(begin + place) * MINUTE_S}\n"
            for place, value in enumerate(values)
        ]
    lines.append("# TYPE up gauge\n")
    for labels in inside.values():
        lines += [f"up{{{labels[1:]}}} 1 {minute * MINUTE_S}\n" for minute in range(begin, end + 1)]
    return "".join([*lines, "# EOF\n"]), routed
