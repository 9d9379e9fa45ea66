"""A breach's GPUs in words: where they are, what they are, what they cost together. Pure."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Protocol

from fleetwatch.notify.message import one_line

NAMED_NODES = 4
MIN_RUN = 3  # two numbers are as short as their range


class Card(Protocol):
    """A GPU, as far as it matters here; its names come from hosts."""

    @property
    def uuid(self) -> str: ...
    @property
    def node(self) -> str: ...
    @property
    def index(self) -> int | None: ...
    @property
    def model(self) -> str: ...
    @property
    def mig_profile(self) -> str: ...


def places(gpus: Sequence[Card]) -> str:
    """The GPUs by node, e.g. "node-014 GPU 0–3, 6"; beyond four nodes only how many."""
    by_node = groupby(sorted(gpus, key=place_of), key=lambda gpu: gpu.node)
    named = [f"{one_line(node, 60)} GPU {_numbers(list(several))}" for node, several in by_node]
    rest = len(named) - NAMED_NODES
    return "; ".join(named[:NAMED_NODES]) + (f"; {rest} more nodes" if rest > 0 else "")


def place_of(gpu: Card) -> tuple[str, int, str]:
    """What GPUs are sorted by."""
    return (gpu.node, -1 if gpu.index is None else gpu.index, gpu.uuid)


def _numbers(gpus: Sequence[Card]) -> str:
    """Of GPUs in order their numbers, of three and more in a row the first and the last."""
    runs = groupby(enumerate(gpus), key=lambda numbered: _run_of(*numbered))
    parts = [[_number(gpu) for _, gpu in run] for _, run in runs]
    return ", ".join(
        f"{each[0]}–{each[-1]}" if len(each) >= MIN_RUN else ", ".join(each) for each in parts
    )


def _run_of(place: int, gpu: Card) -> int | str:
    """The same for GPUs whose numbers follow each other; instances stand for themselves."""
    return gpu.uuid if gpu.index is None or gpu.mig_profile else gpu.index - place


def _number(gpu: Card) -> str:
    number = one_line(gpu.uuid, 20) if gpu.index is None else str(gpu.index)
    return f"{number} ({one_line(gpu.mig_profile, 20)})" if gpu.mig_profile else number


def models(gpus: Iterable[Card]) -> str:
    """The models, in brackets after a space; "" where none is known."""
    names = sorted({one_line(gpu.model, 40) for gpu in gpus if gpu.model})
    return f" ({', '.join(names)})" if names else ""


def amounts_sum(amounts: Iterable[str | None]) -> Decimal | None:
    """Decimal strings in sum; None where one is not known."""
    return usd_sum([None if amount is None else Decimal(amount) for amount in amounts])


def usd_sum(amounts: Sequence[Decimal | None]) -> Decimal | None:
    """Dollars in sum; None where one is not known."""
    if None in amounts:
        return None
    return sum((amount for amount in amounts if amount is not None), Decimal(0))
