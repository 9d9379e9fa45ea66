"""The Prometheus text format, as far as a scrape of one exporter needs it. Pure.

https://prometheus.io/docs/instrumenting/exposition_formats/ : `name{label="value",…} number
[milliseconds]`. A line that is none of that is skipped and counted: one torn line must not cost the
others.
"""

import re
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, NamedTuple, Optional

MAX_LINE = 16_384
MAX_KEPT = 200  # characters of the first line that could not be understood, for the operator
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|\})')
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?[iI][nN][fF]|[nN][aA][nN]"
_TAIL = re.compile(r"\s*(" + _NUMBER + r")(?:\s+-?\d+)?\s*")
_ESCAPE = re.compile(r"\\(.)")
LabelSet = Mapping[str, str]


class Sample(NamedTuple):
    """One line: `text` is the number as it was printed, because 1 and 1.000000 may mean different
    things.
    """

    name: str
    labels: LabelSet
    text: str

    @property
    def value(self) -> float:
        """The number, NaN and the infinities included."""
        return float(self.text)


@dataclass
class Parsed:
    """What a text held; `first_unparsed` is the beginning of the first line that could not be
    understood.
    """

    samples: List[Sample] = field(default_factory=list)
    unparsed: int = 0
    first_unparsed: str = ""


def parse(text: str) -> Parsed:
    """Every sample of the text, in its order; time stamps are left out: an exporter's own clock is
    nobody's.
    """
    parsed = Parsed()
    # an exporter says the same labels again for every metric of a GPU
    labels_of: Dict[str, LabelSet] = {}
    for line in text.split("\n"):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        sample = _sample(line, labels_of) if len(line) <= MAX_LINE else None
        if sample is not None:
            parsed.samples.append(sample)
        else:
            parsed.unparsed += 1
            parsed.first_unparsed = parsed.first_unparsed or line[:MAX_KEPT]
    return parsed


def _sample(line: str, labels_of: Dict[str, LabelSet]) -> Optional[Sample]:
    name = _NAME.match(line)
    if name is None:
        return None
    rest = line[name.end() :].lstrip()
    # a label may hold braces; behind the last one are only numbers
    end = rest.rfind("}") + 1 if rest.startswith("{") else 0
    tail = _TAIL.fullmatch(rest[end:])
    block = rest[:end]
    labels = labels_of.get(block)
    if labels is None:
        labels = _labels(block)
    if tail is None or labels is None:
        return None
    labels_of[block] = labels
    return Sample(name.group(), labels, tail.group(1))


def _labels(block: str) -> Optional[LabelSet]:
    """The labels of `{a="b",…}`, none of an empty text; None when it is no such block."""
    labels: Dict[str, str] = {}
    if not block:
        return labels
    place = 1
    while block[place:].strip() != "}":  # also after a last comma
        label = _LABEL.match(block, place)
        if label is None:
            return None
        labels[label.group(1)] = _ESCAPE.sub(_unescaped, label.group(2))
        place = label.end()
        if label.group(3) == "}":
            return labels if place == len(block) else None
    return labels


def _unescaped(match: "re.Match[str]") -> str:
    return "\n" if match.group(1) == "n" else match.group(1)
