"""The questions to Slurm's controller, each as small as Slurm allows.

Never `squeue --json`: before 23.11 it ignores every filter and prints the whole queue, megabytes of
it. The list is text of fields that no user writes; of a job that matters one record is asked for,
in JSON where this Slurm speaks it.
"""

import json
import logging
import re
from dataclasses import dataclass
from typing import List, Optional, Sequence

from agent.clock import is_recent
from agent.json_parts import parts
from agent.readings import SchedulerError
from agent.workloads.slurm.command import CommandError, Commands
from agent.workloads.slurm.lists import gpu_count
from agent.workloads.slurm.scontrol import (
    HOLDING,
    HOLDING_FLAGS,
    Record,
    from_json,
    from_text,
    whole,
)

log = logging.getLogger("agent.workloads")

# between two counts of what the queue waits for: it is the same for every node
PENDING_MS = 300_000
LIST_FORMAT = "%A|%i|%T|%S"
# Jobs that wait for these wait for no GPU.
NO_DEMAND = (
    "Dependency", "DependencyNeverSatisfied", "BeginTime", "JobHeldUser", "JobHeldAdmin",
    "JobArrayTaskLimit", "Licenses",
)  # fmt: skip
_LISTED = re.compile(r"(\d{1,10})\|([0-9_+]{1,40})\|([A-Z_]{1,32})\|(\S{1,32})")
_CLUSTER = re.compile(r"^\s*ClusterName\s*=\s*(\S{1,128})", re.MULTILINE | re.IGNORECASE)


class RecordError(SchedulerError):
    """Slurm's answer about one job can't be read; of the other jobs that says nothing."""


@dataclass(frozen=True)
class Listed:
    """A job as the list names it: `ask` is what scontrol calls it (500_7, 21+1); start tells one
    run from the next.
    """

    id: int
    ask: str
    state: str
    start: str

    @property
    def is_holding(self) -> bool:
        return self.state in HOLDING or self.is_passing

    @property
    def is_passing(self) -> bool:
        """Whether it is in a state that ends by itself, as COMPLETING."""
        return self.state in HOLDING_FLAGS


class Queue:
    """Slurm's answers; remembers only which language this Slurm speaks, and the last count of the
    queue.
    """

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._speaks_json = True
        self._pending: Optional[int] = None
        self._pending_ms: Optional[int] = None

    @property
    def is_installed(self) -> bool:
        """Whether this host has Slurm's commands at all."""
        return self._commands.path("scontrol") is not None

    def node(self, name: str) -> str:
        """The node's record in one line. Raises CommandError."""
        return self._commands.run("scontrol", "-d", "-o", "show", "node", name)

    def cluster(self, slurm_conf: Optional[str]) -> Optional[str]:
        """ClusterName, from the text of slurm.conf where that names it; None where nobody tells.

        Raises CommandError.
        """
        match = _CLUSTER.search(slurm_conf or "") or _CLUSTER.search(
            self._commands.run("scontrol", "show", "config")
        )
        return None if match is None else match.group(1).strip('"')

    def on_node(self, name: str) -> List[Listed]:
        """Every job of the node that the controller still remembers, ended ones too.

        Raises SchedulerError.
        """
        output = self._commands.run(
            "squeue", "-h", "-a", "-t", "all", "-w", name, "-o", LIST_FORMAT
        )
        jobs: List[Listed] = []
        for line in output.splitlines():
            match = _LISTED.fullmatch(line.strip())
            if match is None:
                raise SchedulerError("squeue's answer was not understood: %.80r" % line)
            identity, *facts = match.groups()
            jobs.append(Listed(int(identity), *facts))
        return jobs

    def record(self, listed: Listed, nodes: Sequence[str]) -> Optional[Record]:
        """The job's record; None when the controller has just forgotten it.

        Raises RecordError where Slurm answered, but not so that this job can be read, CommandError
        where it did not.
        """
        try:
            if self._speaks_json:
                record = self._json_record(listed, nodes)
                if record is not None:
                    return record
            return self._text_record(listed, nodes)
        except CommandError as error:
            if "Invalid job id" in error.output:
                return None
            raise

    def pending_gpus(self, now_ms: int) -> Optional[int]:
        """GPUs that jobs wait for in the whole queue, at most PENDING_MS old; None when that can't
        be told.
        """
        if not is_recent(self._pending_ms, now_ms, PENDING_MS):
            self._pending_ms = now_ms
            try:
                self._pending = _demand(
                    self._commands.run(
                        "squeue", "-h", "-a", "-r", "-t", "PD", "-O", "reason:40,tres-alloc:200"
                    )
                )
            except SchedulerError as error:
                log.info("the queue's demand is not known: %s", error)
                self._pending = None
        return self._pending

    def _json_record(self, listed: Listed, nodes: Sequence[str]) -> Optional[Record]:
        """The record in JSON; None where this Slurm does not speak it.

        Raises CommandError when Slurm does not answer.
        """
        try:
            answer = json.loads(
                self._commands.run("scontrol", "-d", "--json", "show", "job", listed.ask)
            )
            # among others, where it is part of a heterogeneous job
            for job in parts(answer, "jobs"):
                if whole(job.get("job_id")) == listed.id:
                    return from_json(job, nodes)
        except CommandError as error:
            if not any(
                word in error.output for word in ("option", "plugin", "JSON", "json", "serializer")
            ):
                raise
        except (ValueError, RecursionError):
            pass
        self._speaks_json = False
        log.info("this Slurm's scontrol speaks no JSON: its text is read")
        return None

    def _text_record(self, listed: Listed, nodes: Sequence[str]) -> Record:
        # first the name alone: in the record it may look like any other field; of a heterogeneous
        # job there is a line for each component, whichever was asked for
        answer = self._commands.run(
            "squeue", "-h", "-a", "-t", "all", "-j", listed.ask, "-o", "%i|%j"
        )
        head = listed.ask + "|"
        names = [line[len(head) :] for line in answer.split("\n") if line.startswith(head)]
        if not names:
            raise RecordError("squeue's answer does not name it")
        try:
            return from_text(
                self._commands.run("scontrol", "-d", "-o", "show", "job", listed.ask),
                name=names[0],
                nodes=nodes,
            )
        except ValueError as error:
            raise RecordError(str(error)) from error


def _demand(output: str) -> int:
    lines = (line.split() for line in output.splitlines())
    return sum(
        gpu_count(words[-1]) or 0
        for words in lines
        if len(words) > 1 and words[0].strip("()") not in NO_DEMAND
    )
