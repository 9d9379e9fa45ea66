"""Half-open spans of whole numbers, as ascending disjoint lists of (lower, upper). Pure."""

from collections.abc import Iterable

Span = tuple[int, int]


def union(spans: Iterable[Span]) -> list[Span]:
    """The spans merged where they overlap or touch; empty ones are dropped."""
    filled = [span for span in spans if span[0] < span[1]]
    if len(filled) < 2:
        return filled
    merged: list[Span] = []
    for lower, upper in sorted(filled):
        if merged and lower <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], upper))
        else:
            merged.append((lower, upper))
    return merged


def difference(spans: Iterable[Span], removed: Iterable[Span]) -> list[Span]:
    """What of `spans` is not in `removed`."""
    rest = union(spans)
    for low, high in union(removed):
        rest = [
            part
            for lower, upper in rest
            for part in ((lower, min(upper, low)), (max(lower, high), upper))
            if part[0] < part[1]
        ]
    return rest


def clip(spans: Iterable[Span], lower: int, upper: int) -> list[Span]:
    """What of `spans` lies in [lower, upper)."""
    return [
        (max(low, lower), min(high, upper))
        for low, high in union(spans)
        if low < upper and high > lower
    ]


def length_ms(spans: Iterable[Span]) -> int:
    """How much the spans cover."""
    return sum(upper - lower for lower, upper in union(spans))
