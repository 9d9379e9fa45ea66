"""Which share of which GPU Slurm, or a prolog's file, gave a job. Pure."""

from typing import Dict, Mapping, Optional, Sequence

from agent.readings import GPUs
from agent.workloads.slurm.hpc_files import Claim
from agent.workloads.slurm.lists import SHARED, Grant, grants
from agent.workloads.slurm.queue import RecordError
from agent.workloads.slurm.scontrol import NodeRecord, Record

Share = Optional[float]
Order = Sequence[Optional[str]]  # UUIDs by Slurm's index


def granted(record: Record, node: NodeRecord, order: Order) -> Dict[str, Share]:
    """GPU -> what the job has of it here.

    Raises RecordError where Slurm says how many, but not which.
    """
    shares: Dict[int, Share] = {}
    for grant in grants(record.gres or ""):
        if grant.name == "gpu" or grant.name in SHARED:
            shares.update(_shares_of(grant, node, len(order)))
    if not shares and record.is_exclusive and record.gres is not None:
        shares = dict.fromkeys(range(len(order)), 1.0)  # nobody else can have them
    placed = ((uuid_at(order, index), share) for index, share in shares.items())
    return {uuid: share for uuid, share in placed if uuid is not None}


def _shares_of(grant: Grant, node: NodeRecord, gpus: int) -> Mapping[int, Share]:
    """By Slurm's index. Raises RecordError."""
    if not grant.shares and grant.count:
        if grant.name != "gpu" or grant.count < gpus:
            raise RecordError("Slurm does not say which %d %s it holds" % (grant.count, grant.name))
        return dict.fromkeys(range(gpus), 1.0)
    part = node.part(grant.name, gpus)
    if part is None or len(grant.shares) != 1:
        return grant.shares
    # of parts that one device holds, the share follows from their number
    (index, share), *_ = grant.shares.items()
    return {index: min(1.0, grant.count * part) if share is None else share}


def uuid_of(claim: Claim, order: Order, gpus: GPUs) -> Optional[str]:
    """The GPU that a prolog's file names; None where this node has none such."""
    if claim.uuid:
        return claim.uuid
    if claim.slurm_index is not None:
        return uuid_at(order, claim.slurm_index)
    parts = [gpu for gpu in gpus if gpu.parent_uuid is None and gpu.index == claim.driver_index]
    if parts and claim.instance is not None:
        parent = parts[0].uuid
        parts = [
            gpu for gpu in gpus if (gpu.parent_uuid, gpu.gpu_instance) == (parent, claim.instance)
        ]
    return parts[0].uuid if parts else None


def uuid_at(order: Order, index: int) -> Optional[str]:
    """The GPU of that index of Slurm's; None where it has none."""
    return order[index] if 0 <= index < len(order) else None
