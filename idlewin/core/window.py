"""Spans of time and their algebra."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """From start up to, and without, end. Both are aware; an empty span is an error."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if not self.start < self.end:
            raise ValueError(f"a span from {self.start} to {self.end} is empty")

    @property
    def length(self) -> timedelta:
        """How long it is."""
        return self.end - self.start

    def __contains__(self, at: datetime) -> bool:
        return self.start <= at < self.end


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same time in order, without overlaps; spans that touch are joined."""
    done: list[Span] = []
    for span in sorted(spans):
        if done and span.start <= done[-1].end:
            done[-1] = Span(done[-1].start, max(done[-1].end, span.end))
        else:
            done.append(span)
    return tuple(done)


def without(spans: Iterable[Span], holes: Iterable[Span]) -> tuple[Span, ...]:
    """The time of spans that lies in no hole."""
    left = list(merged(spans))
    for hole in merged(holes):
        parts: list[Span] = []
        for span in left:
            if hole.end <= span.start or span.end <= hole.start:
                parts.append(span)
                continue
            if span.start < hole.start:
                parts.append(Span(span.start, hole.start))
            if hole.end < span.end:
                parts.append(Span(hole.end, span.end))
        left = parts
    return tuple(left)


def clipped(spans: Iterable[Span], to: Span) -> tuple[Span, ...]:
    """The parts of spans that lie in another span."""
    parts = ((max(s.start, to.start), min(s.end, to.end)) for s in spans)
    return tuple(Span(start, end) for start, end in parts if start < end)


def total(spans: Iterable[Span]) -> timedelta:
    """How long spans are together; they must not overlap."""
    return sum((span.length for span in spans), timedelta())
