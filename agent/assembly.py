"""Parts that several commands are built of."""

import time
import uuid
import zlib
from dataclasses import replace
from functools import lru_cache
from typing import Callable

from agent.config import Config
from agent.host import boot_start_ms, kernel_boot_id
from agent.readings import HolderSource, Source, Workloads
from agent.sending.spool import Identity
from agent.sources.factory import open_source
from agent.workloads import Resolver
from agent.workloads.finder import Finder
from agent.workloads.scheduler_door import Place

DAY_MS = 86_400_000


def workloads(chosen: Config) -> Callable[[Source], Workloads]:
    """Who is asked for the jobs: a source that knows who holds its GPUs, else the host."""
    # one for the process's life: it has threads, and remembers since when who holds what
    resolver = lru_cache(maxsize=None)(lambda: _resolver(chosen))

    def choose(source: Source) -> Workloads:
        def of_host() -> Workloads:
            host = resolver()
            host.look(source.gpus())
            return host

        return source.workloads(of_host) if isinstance(source, HolderSource) else of_host()

    return choose


def source_of(chosen: Config, start_ms: int) -> Source:
    """The source of readings. Raises SourceError, and BadArgumentError for one that can't be."""
    return open_source(
        chosen.source,
        node=chosen.node,
        start_ms=start_ms,
        cluster=chosen.cluster or "default",
        gpm=chosen.gpm,
    )


def identity_of(chosen: Config) -> Callable[[str], Identity]:
    """What names a spool's life within one boot of the machine that is read: of a simulated one
    within its own, which began long ago, whenever this host was started.
    """
    if not chosen.source.startswith("simulated:"):
        return _of_kernel
    return lambda spool_id: Identity(
        "simulated-%s" % spool_id[:12], _simulated_boot_ms(chosen.node)
    )


def _of_kernel(spool_id: str) -> Identity:
    """Without a kernel that says, this start's."""
    boot = kernel_boot_id() or uuid.uuid4().hex
    return Identity("%s-%s" % (boot, spool_id[:12]), boot_start_ms() or int(time.time() * 1000))


def _simulated_boot_ms(node: str) -> int:
    """100 to 199 days ago, each node's own: before all history that a demo has."""
    days = 100 + zlib.crc32(node.encode()) % 100
    return int(time.time() * 1000) - days * DAY_MS


def _resolver(chosen: Config) -> Resolver:
    """A declared job holds everything, so nobody else's books are read."""
    job = chosen.job
    place = Place(chosen.node, chosen.cluster, chosen.proc_root, chosen.docker_all_counts)
    return Resolver(
        node=chosen.node,
        schedulers=list if job is not None else Finder(chosen.jobs, place).schedulers,
        cluster=chosen.cluster,
        # the job that the operator names, from now on
        declared=None
        if job is None
        else replace(job, scheduler="declared", id=job.key, start_ms=int(time.time() * 1000)),
        proc_root=chosen.proc_root,
    )
