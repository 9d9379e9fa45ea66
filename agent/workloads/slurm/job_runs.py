"""The runs of jobs on this node: what each holds, and when it ended.

From the moment when a job ends Slurm's records of it name no GPU any more (seen with 22.05), so
what it held is remembered. A run ends where Slurm says; one of which Slurm tells no end (the job
was requeued, or is forgotten) when that was seen, or before, when Slurm gave its GPU to the next.
"""

from dataclasses import dataclass, replace
from typing import Iterable, List, Mapping, Optional

from agent.clock import is_recent
from agent.workloads.slurm.scontrol import HOLDING_FLAGS, Record, is_over

# an end is told so long: to every window that may overlap the run, also where it was learned late
TOLD_MS = 60_000
# of a run that was seen this lately, and is gone, it is known well enough when it ended
WATCHED_MS = 60_000

Shares = Mapping[str, Optional[float]]  # GPU uuid -> granted share of it, None: not known


@dataclass(frozen=True)
class Run:
    """One run of a job; `end_ms` is None while it goes on, and where nobody can say when it
    ended.
    """

    record: Record
    shares: Shares
    end_ms: Optional[int] = None
    ended_ms: Optional[int] = None  # when it was learned that it has ended


class Runs:
    """The runs that go on, and those of which the end was learned during the last minute."""

    def __init__(self) -> None:
        # by the job's number what was last seen to hold its part of the node, or to complete
        self.current: Mapping[int, Run] = {}
        self._ended: List[Run] = []
        self._seen_ms: Optional[int] = None

    def ended(self, now_ms: int) -> List[Run]:
        """The runs whose end was learned lately, in that order."""
        self._ended = [run for run in self._ended if is_recent(run.ended_ms, now_ms, TOLD_MS)]
        return list(self._ended)

    def knows(self, number: int) -> bool:
        """Whether a run of the job was seen here during the last minute."""
        return number in self.current or any(run.record.id == number for run in self._ended)

    def holds(self, record: Record) -> Shares:
        """What the job held when it was last seen in this run; nothing where it was not."""
        run = self.current.get(record.id)
        return run.shares if run is not None and run.record.restarts == record.restarts else {}

    def see(self, holding: Mapping[int, Run], records: Mapping[int, Record], now_ms: int) -> None:
        """Takes in what goes on now, and the records of all jobs that Slurm told of, ended ones
        too.
        """
        self._ended = [
            _with_outcome(run, records.get(run.record.id), now_ms) for run in self._ended
        ]
        for number, run in self.current.items():
            later = holding.get(number)
            if later is None or later.record.restarts != run.record.restarts:
                seen_ms = min([now_ms, *_starts_after(run, holding.values())])
                self._ended.append(self._over(run, records.get(number), seen_ms, now_ms))
        self.current = holding
        self._seen_ms = now_ms

    def add_ended(self, run: Run, now_ms: int) -> None:
        """A run that was over before the books were seen to name it."""
        self._ended.append(replace(run, ended_ms=now_ms))

    def _over(self, run: Run, record: Optional[Record], seen_ms: int, now_ms: int) -> Run:
        """The run as it ended, at `seen_ms` where Slurm tells no end; `record` is the job's, of a
        later run where it was requeued, None where Slurm forgot it.
        """
        # of a job that Slurm forgot neither a state is told nor an end
        later = record or replace(run.record, states=(), end_ms=None)
        is_same = later.restarts == run.record.restarts
        if is_same and later.end_ms is not None:
            return Run(later, run.shares, later.end_ms, now_ms)
        end_ms = run.end_ms
        if end_ms is None and is_recent(self._seen_ms, now_ms, WATCHED_MS):
            end_ms = seen_ms
        states = later.states if is_same else ("REQUEUED",)  # sacct's word for such a run
        over = replace(
            run.record,
            states=states,
            restarts=later.restarts,
            # of one that is over, and can't be read
            end_ms=end_ms if is_over(states) else None,
        )
        return Run(over, run.shares, end_ms, now_ms)


def _starts_after(run: Run, others: Iterable[Run]) -> List[int]:
    """When runs began that hold a whole GPU which the run held whole: it had ended by then."""
    whole = {uuid for uuid, share in run.shares.items() if share == 1.0}
    starts = [
        other.record.start_ms
        for other in others
        if any(other.shares[uuid] == 1.0 for uuid in whole.intersection(other.shares))
    ]
    return [at for at in starts if at is not None and at > (run.record.start_ms or 0)]


def _with_outcome(run: Run, record: Optional[Record], now_ms: int) -> Run:
    """The ended run with the state that Slurm told of it later, told for a minute from then on.

    Not one of which Slurm told what became of it: that of a requeued job stands beside the next.
    """
    if record is None or not is_over(record.states):
        return run
    if any(state not in HOLDING_FLAGS for state in run.record.states):
        return run
    end_ms = run.end_ms if record.end_ms is None else record.end_ms
    over = replace(run.record, states=record.states, end_ms=end_ms)
    return replace(run, record=over, end_ms=end_ms, ended_ms=now_ms)
