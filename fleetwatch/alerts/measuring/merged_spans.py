"""Spans of what is known as it began and ended, for conditions whose source has no clear times.
Pure.
"""

from collections.abc import Iterable

from fleetwatch.alerts.episodes import Level, Span, extend


def clear_between(breaches: Iterable[Span], start_ms: int, end_ms: int) -> list[Span]:
    """The breaches as one line of time without overlaps, and clear in what is left of
    [start_ms, end_ms).
    """
    spans: list[Span] = []
    reached_ms = start_ms
    for breach in sorted(breaches, key=lambda span: span.start_ms):
        if breach.start_ms > reached_ms:
            extend(spans, Span(reached_ms, breach.start_ms, Level.CLEAR))
        begin_ms = max(breach.start_ms, spans[-1].end_ms) if spans else breach.start_ms
        if breach.end_ms > begin_ms:
            extend(spans, Span(begin_ms, breach.end_ms, Level.BREACH))
            reached_ms = max(reached_ms, breach.end_ms)
    if reached_ms < end_ms:
        extend(spans, Span(reached_ms, end_ms, Level.CLEAR))
    return spans
