"""What a simulated node is, from its specification on the command line."""

from dataclasses import dataclass
from typing import Dict, Optional, Tuple

from agent.errors import BadArgumentError
from agent.sources.simulated.hardware import HARDWARE
from agent.sources.simulated.recurring import GPUS as RECURRING_GPUS
from agent.sources.simulated.teams import MIXES

OPTIONS = ("seed", "mix", "cluster", "faulty", "outages", "queue", "recurring")
SWITCHES = ("outages", "queue", "recurring")


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
    head, *options = text.strip().split(",")
    count, times, model = head.strip().partition("x")
    if not times or not count.isdigit() or not 1 <= int(count) <= 16:
        raise BadArgumentError(
            "simulated:%s: expected COUNTxMODEL with 1 to 16 GPUs, such as 8xH100" % text
        )
    if model.upper() not in HARDWARE:
        raise BadArgumentError(
            "simulated:%s: unknown model %s; known: %s" % (text, model, ", ".join(HARDWARE))
        )
    values = dict(_option(text, option) for option in options)
    unknown = set(values) - set(OPTIONS)
    if unknown:
        raise BadArgumentError(
            "simulated:%s: unknown option %s; known: %s"
            % (text, ", ".join(sorted(unknown)), ", ".join(OPTIONS))
        )
    mix = values.get("mix", "mixed")
    if mix not in MIXES:
        raise BadArgumentError(
            "simulated:%s: unknown mix %s; known: %s" % (text, mix, ", ".join(MIXES))
        )
    faulty = _number(text, values, "faulty")
    if faulty is not None and faulty >= int(count):
        raise BadArgumentError("simulated:%s: there is no GPU %d to be faulty" % (text, faulty))
    for name in SWITCHES:
        if values.get(name, "no") not in ("yes", "no"):
            raise BadArgumentError(
                "simulated:%s: %s must be yes or no, not %r" % (text, name, values[name])
            )
    is_recurring = values.get("recurring") == "yes"
    if is_recurring and int(count) <= RECURRING_GPUS:
        raise BadArgumentError(
            "simulated:%s: recurring=yes needs more than %d GPUs" % (text, RECURRING_GPUS)
        )
    return Spec(
        int(count),
        model.upper(),
        _number(text, values, "seed") or 0,
        mix,
        values.get("cluster", "sim"),
        values.get("outages") == "yes",
        values.get("queue") == "yes",
        faulty,
        is_recurring,
    )


def _option(text: str, option: str) -> Tuple[str, str]:
    key, equals, value = option.strip().partition("=")
    if not equals or not value:
        raise BadArgumentError("simulated:%s: expected key=value, not %r" % (text, option))
    return key, value


def _number(text: str, values: Dict[str, str], key: str) -> Optional[int]:
    value = values.get(key)
    if value is None:
        return None
    if not value.isdigit():
        raise BadArgumentError(
            "simulated:%s: %s must be a whole number, not %r" % (text, key, value)
        )
    return int(value)
