"""A rule file and recorded demand, as a command names them: one case a card."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, timedelta
from pathlib import Path

from idlewin import traces
from idlewin.adapters.clock import ServerClock
from idlewin.catalogue import SHIPPED, Catalogue
from idlewin.core.rule import Rule
from idlewin.core.score import Delays
from idlewin.core.text import format_duration
from idlewin.core.window import Span, total
from idlewin.errors import UnreachableError, UsageError
from idlewin.observe import PAST, STEP
from idlewin.options import Options
from idlewin.replay import LEAST, Case, remembered
from idlewin.rulecheck import checked
from idlewin.rulefile import Document, read_files
from idlewin.wiring import metrics_of

#: What a handover costs in the simulated cluster; the rules beside ours are charged the same.
DELAYS = Delays(open=timedelta(minutes=1), back=timedelta(minutes=5))
MINUTE = timedelta(minutes=1)


def demo_rule() -> Path:
    """The rule that comes with the package."""
    return Path(traces.__file__).parent / "demo.yaml"


def one_rule(path: Path, catalogue: Catalogue = SHIPPED) -> tuple[Document, Rule]:
    """The one rule of a file. Raises UsageError, with the errors that ``check`` tells."""
    if path.is_dir():
        raise UsageError(f"{path} is a directory; name a file with one rule")
    rules = all_rules(path, catalogue)
    if len(rules) != 1:
        raise UsageError(f"{path} has {len(rules)} rules; name a file with one")
    return rules[0]


def all_rules(path: Path, catalogue: Catalogue = SHIPPED) -> list[tuple[Document, Rule]]:
    """The rules of a file or a directory. Raises UsageError with all that ``check`` tells."""
    found = checked(read_files([path]), catalogue)
    errors = [str(finding) for finding in found.findings if not finding.warning]
    if errors:
        raise UsageError("\n".join(errors))
    return [(document, document.rule) for document in found.documents if document.rule]


def recorded(rule: Rule, trace: Path, names: Sequence[str] | None) -> list[Case]:
    """Cards of a trace, each as the demand of a rule; all, where none is named.

    Raises UsageError.
    """
    try:
        cards, about = traces.load(trace), traces.about(trace)
        chosen = {name: traces.card_of(cards, name, trace) for name in names or sorted(cards)}
    except traces.TraceError as error:
        raise UsageError(str(error)) from None
    minutes = about.minutes or max(run.end for runs in cards.values() for run in runs)
    if about.test_from >= minutes:
        raise UsageError(
            f"{trace}: test_from {about.test_from} leaves nothing of {minutes} minutes"
        )
    origin = about.origin.astimezone(UTC)
    covers = Span(origin, origin + minutes * MINUTE)
    if covers.length < LEAST:
        raise UsageError(
            f"{trace}: {format_duration(covers.length)} of demand; {format_duration(LEAST)} is "
            "the least"
        )
    return [
        Case(
            card=name,
            rule=rule,
            busy=traces.busy_spans(runs, origin),
            covers=covers,
            judged_from=origin + about.test_from * MINUTE,
            delays=DELAYS,
        )
        for name, runs in chosen.items()
    ]


def asked(rule: Rule, name: str, options: Options, past: timedelta = PAST) -> Case:
    """What a Prometheus knows of a rule's demand. Raises UsageError and UnreachableError."""
    if rule.calendar_only:
        raise UsageError(
            f"{name} goes by the calendar only: no demand can be asked for; name a --trace"
        )
    if not options.prometheus:
        raise UsageError(
            "name the history: --trace FILE.csv.gz --card NAME, or the Prometheus that knows the "
            "demand, --prometheus http://HOST:9090"
        )
    metrics = metrics_of(options, ServerClock())
    history = metrics.history(rule, past, STEP)
    try:
        return remembered(name, rule, history, DELAYS)
    except ValueError as error:
        unknown = [reading for reading in metrics.read(rule) if reading.why]
        whys = [f"{one.name}: {one.why}" for one in unknown if one.target != "clock"]
        message = "; ".join([f"{options.prometheus}: {name}: {error}", *whys])
        kind = UsageError if total(history.unknown) < history.covers.length else UnreachableError
        raise kind(message) from None
