"""Demand as Prometheus shows it: the Metrics port, three-valued (promise P5).

Here an answer becomes a reading: a number that is fresh, whole and possible, or unknown with the
reason in words. How to ask is prometheus_api.py's, the past is prometheus_history.py's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from idlewin.adapters.once import Once
from idlewin.adapters.prometheus_api import Answer, Api, Auth, Request, UnansweredError
from idlewin.adapters.prometheus_history import Past
from idlewin.adapters.prometheus_source import (
    Keys,
    Look,
    UnknownError,
    key_text,
    possible,
    whole,
)
from idlewin.catalogue import SHIPPED, Catalogue, described, nearest
from idlewin.core.load import History, Reading
from idlewin.core.rule import Activity, Rule
from idlewin.core.target import Demand
from idlewin.errors import UsageError
from idlewin.options import Options, read_token
from idlewin.ports import Clock
from idlewin.source import Source, SourceKind

#: The least age at which samples are refused: a few scrapes of the busiest scraper.
_FLOOR = timedelta(seconds=15)
#: No sample older is believed, however long a rule's staleAfter is.
STALE = timedelta(minutes=2)
#: How far back a front door is asked which keys it ever had, and how often.
EVER, _EVER_TTL = timedelta(days=30), timedelta(minutes=5)
_TICK = timedelta(seconds=1)


class PrometheusMetrics:
    """Readings and history of every rule, from one Prometheus or what answers like it.

    ``window``: the stretch over which counters are compared, at least four scrape intervals.
    """

    def __init__(
        self,
        url: str,
        clock: Clock,
        *,
        timeout: timedelta = timedelta(seconds=10),
        token_file: Path | None = None,
        window: timedelta = timedelta(minutes=2),
        catalogue: Catalogue = SHIPPED,
    ) -> None:
        self._api = Api(url, timeout=timeout, auth=_bearer(token_file) if token_file else None)
        self._clock, self._window = clock, window
        self._catalogue = catalogue
        self._ticks = Once(clock, ttl=_TICK)
        self._looks: dict[str, Look] = {}
        self._evers: dict[str, tuple[Answer, Keys]] = {}
        self._ever = Once(clock, ttl=_EVER_TTL)
        self._past = Past(self._api, clock, self._instant, window, catalogue)

    def close(self) -> None:
        """Close the connections."""
        self._api.close()

    def read(self, rule: Rule) -> tuple[Reading, ...]:
        """A reading for each demand of the rule, and for its cards' activity, as of now."""
        limit = min(max(rule.stale_after, _FLOOR), STALE)
        found = [
            self._reading(str(serving.ref), demand, limit)
            for serving in rule.serving
            if not isinstance(serving.demand, str)
            for demand in serving.demand
            if demand.llama_swap is None
        ]
        if rule.cards.activity is not None:
            found.append(self._reading("cards", rule.cards.activity, limit))
        return tuple(found)

    def answers(self) -> str:
        """Why this Prometheus answers no question at all; empty: it does."""
        return self._instant("vector(1)").why

    def look(self, source: Source) -> Look:
        """What a source shows now. Raises UnknownError."""
        answer = _known(self._instant(whole(source, self._window)))
        look = self._looks.get(source.name)
        if look is None or look.answer is not answer:
            look = self._looks[source.name] = Look(source, answer)
        return look

    def ever(self, source: Source) -> Keys:
        """The keys that a source had at any time lately. Raises UnknownError."""
        answer = _known(self._ever(source.series, lambda: self._series_ever(source)))
        known = self._evers.get(source.name)
        if known is None or known[0] is not answer:
            told = (source.key_of(one.labels) for one in answer.series)
            known = self._evers[source.name] = (answer, Keys(source, set(told)))
        return known[1]

    def lately(self, source: Source) -> list[Mapping[str, str]]:
        """The labels of every series that a source had lately. Raises UnknownError."""
        answer = _known(self._ever(source.series, lambda: self._series_ever(source)))
        return [one.labels for one in answer.series]

    def history(self, rule: Rule, past: timedelta, step: timedelta) -> History:
        """When any demand of the rule was there, to the step; the cards' activity is left out."""
        return self._past.history(rule, past, step)

    def _reading(self, target: str, of: Demand | Activity, limit: timedelta) -> Reading:
        value, why = None, ""
        try:
            if isinstance(of, Demand) and of.query is not None:
                value = self._free(of.query, of.up, limit)
            else:
                value = self._sourced(of, limit)
        except UnknownError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - the port never raises: one demand is unknown
            why = f"could not be read ({type(error).__name__}: {error})"
        return Reading(
            target=target,
            name=described(of),
            value=value,
            busy_above=of.busy_above,
            visible_at_zero=isinstance(of, Demand) and self._catalogue.visible_at_zero(of),
            why=why,
        )

    # -- a source of the catalogue

    def _sourced(self, of: Demand | Activity, limit: timedelta) -> float:
        known = self._catalogue.sources
        source = known.get(of.source or "")
        if source is None:
            raise UnknownError(f"no such source; {nearest(of.source or '', known)}")
        if foreign := sorted(set(of.match) - set(source.keys)):
            raise UnknownError(
                f"{source.name} cannot be picked by {', '.join(foreign)}; "
                f"its keys are {', '.join(source.keys)}"
            )
        look = self.look(source)
        keys = look.keys.matching(of.match)
        if not keys:
            return self._absent(look, of.match, limit)
        values, doubts = [], []
        for key in keys:
            try:
                values.append(look.value(key, limit))
            except UnknownError as error:
                doubts.append(error)
        total = max(values, default=0.0)
        if source.kind is not SourceKind.ACTIVITY:
            total = math.fsum(values)
        # What is missing could only add to it: a sum that is demand already stays demand.
        if doubts and total <= of.busy_above:
            raise doubts[0]
        return total

    def _absent(self, look: Look, match: Mapping[str, str], limit: timedelta) -> float:
        """No series of these keys: nobody asked, if the front door is alive and knows them."""
        source, keys = look.source, look.keys
        if source.silence_is_zero:
            look.witnessed(limit)
            keys = self.ever(source)
            if keys.matching(match):
                return 0.0
        wanted = ", ".join(f"{label}={value}" for label, value in match.items()) or "any key"
        never = "there never was a series" if source.silence_is_zero else "there is no series"
        there = nearest(key_text(match.values()), keys.names)
        bare = f", without the label {', '.join(keys.unlabelled)}" if keys.unlabelled else ""
        raise UnknownError(f"{never} with {wanted}; {there}{bare}; {source.remedy}")

    def _series_ever(self, source: Source) -> Answer:
        now = self._clock.now()
        return self._api.known(source.series, now - EVER, now)

    # -- a free-form demand

    def _free(self, query: str, up: str | None, limit: timedelta) -> float:
        answer = _known(self._instant(query, limit))
        if up is not None:
            alive = _one(_known(self._instant(up, limit)), "up")
            if alive is None or not alive >= 1:
                said = "empty" if alive is None else f"{alive:g}"
                raise UnknownError(f"up is {said}, so its exporter is not known to be alive")
        value = _one(answer, "the query")
        if value is not None:
            return possible(value, math.inf)
        if up is None:
            raise UnknownError(
                "the query is empty, which is not 0; give an up that is 1 while its exporter lives"
            )
        return 0.0

    def _instant(self, query: str, lookback: timedelta | None = None) -> Answer:
        return self._ticks(
            f"{lookback} {query}", lambda: self._api.instant(query, lookback=lookback)
        )


def prometheus_of(options: Options, clock: Clock) -> PrometheusMetrics:
    """The Prometheus that was named. Raises UsageError where none was."""
    if not options.prometheus:
        raise UsageError(
            "name the Prometheus that knows the demand: --prometheus http://HOST:9090, or "
            "$IDLEWIN_PROMETHEUS"
        )
    return PrometheusMetrics(
        options.prometheus,
        clock,
        token_file=options.prometheus_token_file,
        catalogue=options.catalogue,
    )


def _bearer(path: Path) -> Auth:
    """What puts the token of a file on a request, as it is by then: they expire."""

    def put(request: Request) -> Request:
        try:
            request.headers["Authorization"] = f"Bearer {read_token(path)}"
        except UsageError as error:
            raise UnansweredError(str(error)) from None
        return request

    return put


def _known(answer: Answer) -> Answer:
    if answer.why:
        raise UnknownError(answer.why)
    return answer


def _one(answer: Answer, what: str) -> float | None:
    """The one value of an answer, None where it is empty. Raises UnknownError."""
    if len(answer.series) > 1:
        raise UnknownError(
            f"{what} gives {len(answer.series)} series, not one number; "
            "write sum(...) or max(...) around it"
        )
    return answer.series[0].value if answer.series else None
