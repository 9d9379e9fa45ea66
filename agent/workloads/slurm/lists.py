"""Slurm's lists of hosts and of generic resources, as every version of it prints them. Pure."""

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import Dict, Iterator, List, Mapping, Optional, Tuple

MAX_HOSTS = 100_000
MAX_INDEX = 1023  # no node has more devices; a longer range is no list of devices
SHARED = ("shard", "mps")  # parts of a GPU

# what is in a bracket, or after one that does not end, is of its part
_PART = re.compile(r"(?:[^,\[(]|\[[^\]]*\]|\([^)]*\)|[\[(].*)+", re.DOTALL)
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_GRES = re.compile(
    r"(?:gres[:/])?(?P<name>[a-z_]\w*)(?::(?!\d+(?:\(|$))[^:()=]*?)?(?:[:=](?P<count>\d+))?(?:\((?P<inner>[^()]*)\))?",
    re.IGNORECASE,
)
_TRES_GPU = re.compile(r"(?:^|,)gres/gpu(?::([^=,]+))?=(\d+)")


@dataclass(frozen=True)
class Grant:
    """What a job has of one resource on one node.

    `shares`: index of the resource on the node -> granted share of that device, None where only the
    number of parts is known. Empty where Slurm gives a number but says not which.
    """

    name: str
    count: int = 0
    shares: Mapping[int, Optional[float]] = field(default_factory=dict)


def hosts(text: str) -> List[str]:
    """The hosts of a list such as `n[01-03,07],r[1-2]n[1-2]`, in its order.

    Raises ValueError beyond MAX_HOSTS.
    """
    named = (host for part in split(text) for host in _expanded(part))
    names = list(islice(named, MAX_HOSTS + 1))
    if len(names) > MAX_HOSTS:
        raise ValueError("more than %d hosts" % MAX_HOSTS)
    return names


def grants(text: str) -> List[Grant]:
    """The resources in a text such as `gpu:a100:2(IDX:0-1),shard:t4:3(0/8,3/8)`; what is no
    resource is left out.
    """
    return [grant for part in split(text) for grant in [_grant(part.strip())] if grant is not None]


def gpu_count(tres: str) -> Optional[int]:
    """GPUs in trackable resources such as `cpu=16,gres/gpu=2,gres/gpu:a100=2`; None where they name
    none.

    The number without a type counts; where there are typed ones only, their sum.
    """
    counts = {kind: int(number) for kind, number in _TRES_GPU.findall(tres or "")}
    return counts.get("", sum(counts.values())) if counts else None


def split(text: str) -> List[str]:
    """The parts between the commas that stand in no bracket."""
    return _PART.findall(text)


def indices(text: str) -> List[int]:
    """The numbers of `0-1,3`; none for `N/A`.

    Raises ValueError for what is no short list of numbers.
    """
    if text.strip().upper() in ("", "N/A", "(NULL)"):
        return []
    numbers: List[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low = int(first)
        high = int(last if dash else first)
        if not 0 <= low <= high <= MAX_INDEX:
            raise ValueError("%r is no list of devices" % text)
        numbers += range(low, high + 1)
    return numbers


def _expanded(part: str) -> Iterator[str]:
    bracket = _BRACKETS.search(part)
    if bracket is None:
        yield part
        return
    for number in _numbers(bracket.group(1)):
        for rest in _expanded(part[bracket.end() :]):
            yield part[: bracket.start()] + number + rest


def _numbers(text: str) -> Iterator[str]:
    """The numbers of `01-03,07` as they are written: leading zeros are part of a host's name."""
    for item in text.split(","):
        first, dash, last = item.partition("-")
        if not dash:
            yield item
            continue
        for number in range(int(first), min(int(last), int(first) + MAX_HOSTS) + 1):
            yield str(number).zfill(len(first))


def _grant(text: str) -> Optional[Grant]:
    match = _GRES.fullmatch(text)
    if match is None:
        return None
    name = match.group("name").lower()
    try:
        placed, shares = _placed(match.group("inner") or "", is_shared=name in SHARED)
    except ValueError:
        return None
    if match.group("count") is not None:
        placed = int(match.group("count"))
    return Grant(name, len(shares) or 1 if placed is None else placed, shares)


def _placed(inner: str, *, is_shared: bool) -> Tuple[Optional[int], Dict[int, Optional[float]]]:
    """The count where the bracket gives one, and the share of each device that it names.

    Since 23.11 a shared resource names, for every device, what the job has of how many:
    `(0/8,3/8)`.
    """
    word, _, rest = inner.upper().partition(":")
    if word == "CNT" and rest:
        return int(rest), {}
    if word == "IDX" and rest:
        return None, dict.fromkeys(indices(rest), None if is_shared else 1.0)
    if "/" not in inner:
        return None, {}
    parts = [tuple(map(int, part.split("/"))) for part in inner.split(",")]
    return sum(has for has, _ in parts), {
        index: min(1.0, has / of) for index, (has, of) in enumerate(parts) if has > 0 and of > 0
    }
