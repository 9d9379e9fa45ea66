"""How a GPU is called in messages, and what scopes, silences and routes match of it. Pure."""

from collections.abc import Iterable

from fleetwatch.inventory.models import GPU
from fleetwatch.ledger.judgement.rule_words import OUTAGES
from fleetwatch.notify.message import one_line

XID_PREFIX = "xid_"
OFF_THE_BUS = "xid_79"
LOST = ("gpu_lost", OFF_THE_BUS)  # its driver has it no more; of other reasons it can't work


def model_of(gpu: GPU) -> str:
    """As prices call it, else as the driver does; "" where nobody said."""
    return gpu.model.name if gpu.model else gpu.model_name


def place_of(gpu: GPU) -> str:
    """Its node and its number there: "node-014 GPU 3"."""
    number = one_line(gpu.uuid, 20) if gpu.index is None else str(gpu.index)
    return f"{one_line(gpu.node.name, 60)} GPU {number}"


def with_model(gpu: GPU) -> str:
    """The same with its model, where that is known."""
    model = one_line(model_of(gpu), 40)
    return f"{place_of(gpu)} ({model})" if model else place_of(gpu)


def fault_in_words(reason: str) -> str:
    """What is wrong with a GPU that can't work for that reason."""
    code = reason.removeprefix(XID_PREFIX)
    if reason == OFF_THE_BUS:
        return "XID 79: it has fallen off the bus"
    if code != reason:
        return f"the driver reported XID {one_line(code, 12)}"
    words = one_line(reason.replace("_", " "), 60)
    return OUTAGES.get(reason, words or OUTAGES["gpu_lost"])


def gpu_labels(gpus: Iterable[GPU], clusters: Iterable[str] = ()) -> dict[str, tuple[str, ...]]:
    """Their nodes and models, and the clusters that these belong to; what is not known is not
    there.
    """
    several = list(gpus)
    values = {
        "node": {gpu.node.name for gpu in several},
        "model": {model_of(gpu) for gpu in several},
        "cluster": set(clusters),
    }
    return {name: tuple(sorted(each - {""})) for name, each in values.items() if each - {""}}
