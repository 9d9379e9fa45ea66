"""What a simulated node is, from its specification on the command line."""

from dataclasses import dataclass
from typing import Dict, Iterable, Optional, Sequence, Tuple

from agent.errors import BadArgumentError
from agent.sources.simulated.hardware import HARDWARE
from agent.sources.simulated.recurring import GPUS as RECURRING_GPUS
from agent.sources.simulated.teams import MIXES

SWITCHES = ("outages", "queue", "recurring")
OPTIONS = ("seed", "mix", "cluster", "faulty", *SWITCHES)


@dataclass(frozen=True)
class Spec:
    """`8xH100,seed=7,mix=train,cluster=sim,faulty=5`: what a simulated node is."""

    count: int
    model: str
    seed: int = 0
    mix: str = "mixed"
    cluster: str = "sim"
    outages: bool = False  # on some days the agent reads nothing for a while
    queue: bool = False  # on some days jobs wait while GPUs are free
    faulty: Optional[int] = None  # this GPU falls off the bus for 40 h of each 9 days
    recurring: bool = False  # the last GPUs are kept for jobs that run again and again


def parse_spec(text: str) -> Spec:
    """The specification in `COUNTxMODEL[,key=value...]`.

    Raises BadArgumentError with what is wrong and what is known.
    """
    try:
        return _spec(text)
    except ValueError as error:
        raise BadArgumentError("simulated:%s: %s" % (text, error)) from error


def _spec(text: str) -> Spec:
    head, *options = text.strip().split(",")
    count, model = _gpus(head.strip())
    values = _options(options)
    mix = values.get("mix", "mixed")
    if mix not in MIXES:
        raise _unknown("mix", mix, MIXES)
    faulty = _number(values, "faulty")
    if faulty is not None and faulty >= count:
        raise ValueError("there is no GPU %d to be faulty" % faulty)
    switches = {name: _switch(values, name) for name in SWITCHES}
    if switches["recurring"] and count <= RECURRING_GPUS:
        raise ValueError("recurring=yes needs more than %d GPUs" % RECURRING_GPUS)
    return Spec(
        count,
        model,
        seed=_number(values, "seed") or 0,
        mix=mix,
        cluster=values.get("cluster", "sim"),
        faulty=faulty,
        **switches,
    )


def _gpus(head: str) -> Tuple[int, str]:
    count, times, model = head.partition("x")
    if not times or not count.isdigit() or not 1 <= int(count) <= 16:
        raise ValueError("expected COUNTxMODEL with 1 to 16 GPUs, such as 8xH100")
    if model.upper() not in HARDWARE:
        raise _unknown("model", model, HARDWARE)
    return int(count), model.upper()


def _unknown(what: str, name: str, names: Iterable[str]) -> ValueError:
    return ValueError("unknown %s %s; known: %s" % (what, name, ", ".join(names)))


def _options(options: Sequence[str]) -> Dict[str, str]:
    values = dict(map(_option, options))
    others = sorted(set(values) - set(OPTIONS))
    if others:
        raise _unknown("option", ", ".join(others), OPTIONS)
    return values


def _option(option: str) -> Tuple[str, str]:
    key, equals, value = option.strip().partition("=")
    if not equals or not value:
        raise ValueError("expected key=value, not %r" % option)
    return key, value


def _switch(values: Dict[str, str], name: str) -> bool:
    value = values.get(name, "no")
    if value not in ("yes", "no"):
        raise ValueError("%s must be yes or no, not %r" % (name, value))
    return value == "yes"


def _number(values: Dict[str, str], key: str) -> Optional[int]:
    value = values.get(key)
    if value is not None and not value.isdigit():
        raise ValueError("%s must be a whole number, not %r" % (key, value))
    return None if value is None else int(value)
