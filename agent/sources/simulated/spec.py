"""What a simulated node is, from its specification on the command line."""

from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Optional, Tuple

from agent.errors import BadArgumentError
from agent.sources.simulated.hardware import HARDWARE
from agent.sources.simulated.recurring import GPUS as RECURRING_GPUS
from agent.sources.simulated.teams import MIXES


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
    texts = dict(map(_option, options))
    others = sorted(texts.keys() - OPTIONS.keys())
    if others:
        raise _unknown("option", ", ".join(others), OPTIONS)
    values = {name: OPTIONS[name](name, texts[name]) for name in OPTIONS if name in texts}
    spec = Spec(count, model, **values)
    if spec.faulty is not None and spec.faulty >= count:
        raise ValueError("there is no GPU %d to be faulty" % spec.faulty)
    if spec.recurring and count <= RECURRING_GPUS:
        raise ValueError("recurring=yes needs more than %d GPUs" % RECURRING_GPUS)
    return spec


def _gpus(head: str) -> Tuple[int, str]:
    count, times, model = head.partition("x")
    if not times or not count.isdigit() or not 1 <= int(count) <= 16:
        raise ValueError("expected COUNTxMODEL with 1 to 16 GPUs, such as 8xH100")
    if model.upper() not in HARDWARE:
        raise _unknown("model", model, HARDWARE)
    return int(count), model.upper()


def _option(option: str) -> Tuple[str, str]:
    name, equals, text = option.strip().partition("=")
    if not equals or not text:
        raise ValueError("expected key=value, not %r" % option)
    return name, text


def _unknown(what: str, name: str, names: Iterable[str]) -> ValueError:
    return ValueError("unknown %s %s; known: %s" % (what, name, ", ".join(names)))


def _whole(name: str, text: str) -> int:
    if not text.isdigit():
        raise ValueError("%s must be a whole number, not %r" % (name, text))
    return int(text)


def _mix(name: str, text: str) -> str:
    if text not in MIXES:
        raise _unknown(name, text, MIXES)
    return text


def _text(name: str, text: str) -> str:
    return text


def _switch(name: str, text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError("%s must be yes or no, not %r" % (name, text))
    return text == "yes"


# What may follow the GPUs: the fields of Spec, and how each is read.
OPTIONS: Dict[str, Callable[[str, str], Any]] = {
    "seed": _whole,
    "mix": _mix,
    "cluster": _text,
    "faulty": _whole,
    "outages": _switch,
    "queue": _switch,
    "recurring": _switch,
}
