"""The wiring: what is refused before anything is reached, and what stands in for a mistake."""

from datetime import UTC, datetime, timedelta

import pytest

from idlewin.core.load import History
from idlewin.core.rule import Budget, ForecastPolicy
from idlewin.core.window import Span
from idlewin.errors import UsageError
from idlewin.options import Options
from idlewin.wiring import dry_run, explaining, forecaster_of, forecaster_or_none, live
from tests.builders import a_rule

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)


def with_method(name):
    return a_rule(forecast=ForecastPolicy(method=name, budget=Budget(per_week=1.0)))


@pytest.mark.parametrize("mode", [live, dry_run, explaining])
def test_a_missing_prometheus_is_told_before_the_cluster_is_looked_for(mode):
    with pytest.raises(UsageError, match=r"--prometheus http://HOST:9090"):
        mode(Options())


def test_an_unknown_method_lends_nothing_and_does_not_keep_serving_away():
    rule = with_method("clairvoyant")
    with pytest.raises(ValueError, match="clairvoyant"):
        forecaster_of(rule)

    covers = Span(NOW - DAY, NOW)
    made = forecaster_or_none(rule).forecast(History(covers=covers), NOW, NOW - DAY)

    assert (made.ready, made.chance(timedelta(minutes=1))) == (False, 0.0)
    assert "clairvoyant" in made.rests_on


def test_a_known_method_is_the_one_that_is_named():
    rule = with_method("persistence")

    assert forecaster_or_none(rule).name == "persistence"
