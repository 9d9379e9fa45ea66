"""Nodes whose batches repeat, word for word, what they said of jobs: the node speaks for its holds.

Of such a batch nothing is written here: how far the node came stands in its row
(Node.repeated_until_ms, inventory/steady.py), and the views jobs_hold and jobs_answer add that time
to what the node's newest words assert. It is written into the rows themselves before anything else
is said: by the node, whose repeating ends with that, or by others of the same jobs. So whatever is
worked out of records, allocations and ends sees all that was said until then.

A node repeats only what is believed. Of whom it is not any more the next batch is read whole: it is
recalled.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from fleetwatch.jobs.batch_report import JobKey, Report, StoredJob
from fleetwatch.jobs.services import answers, by_position, holds
from fleetwatch.lib.batched import integers, numbers, run
from fleetwatch.lib.sql import read_statement

LOCK_JOBS_OF = read_statement("jobs/sql/lock_jobs_of.sql")
SETTLE_WORDS = read_statement("jobs/sql/settle_words.sql")
END_REPEATS = read_statement("jobs/sql/end_repeats.sql")
WORDS_OF_NODE = read_statement("jobs/sql/words_of_node.sql")
BEGIN_REPEATS = read_statement("jobs/sql/begin_repeats.sql")


class NotRepeatableError(Exception):
    """What a batch says of jobs does not simply go on in the next ones."""


class Repetition(NamedTuple):
    """What a node repeats: the digest of its words and of whose they are, and these jobs by their
    places in its batches.
    """

    digest: bytes
    jobs: dict[JobKey, StoredJob]


class Speaker(NamedTuple):
    """A node, and (boot start, sequence) of its newest batch until now; () = it had none."""

    node_id: int
    order: Sequence[int]


def settle(speakers: Collection[Speaker], keys: Collection[str], *, now_ms: int) -> None:
    """What nodes repeated so far is written: of these nodes, which repeat nothing from now on, and
    of others what they repeat of jobs of these keys.

    Needs a transaction in which the nodes are locked; until it ends the jobs are, too.
    """
    orders = [speaker.order or (0, 0) for speaker in speakers]
    given = {
        "node_ids": integers(speaker.node_id for speaker in speakers),
        "keys": sorted(set(keys)),
    }
    run(LOCK_JOBS_OF, given)
    run(
        SETTLE_WORDS,
        {
            **given,
            "boot_starts": integers(boot_start_ms for boot_start_ms, _ in orders),
            "sequences": integers(sequence for _, sequence in orders),
            "now_ms": now_ms,
        },
    )
    run(END_REPEATS, {"node_ids": given["node_ids"]})


def begin(report: Report, digest: bytes) -> Repetition:
    """What the node is said to repeat from now on; `digest` is of what the batch says.

    The batch is the newest of its node and stored; its times are right as they are. Needs a
    transaction in which the node is locked. Raises NotRepeatableError where one of its words can't
    go on as it is: it tells an end or what is to come, is not believed, or is of a job that the
    node does not hold.
    """
    from_ms = _end_of_words(report)
    keys = [job["key"] for job in report.batch.jobs]
    words = _believed_words(report.node_id, keys, from_ms)
    job_ids = {key: job_id for _, key, job_id in words}
    # in the order of the batch: processes name jobs by their places
    jobs = {(report.node_id, key): StoredJob(job_ids[key]) for key in keys}
    # another process of the hub may know the same words as those of other jobs
    whole = hashlib.blake2b(b"%b %r" % (digest, sorted(job_ids.items())), digest_size=16).digest()
    begun = {"node_id": report.node_id, "digest": whole, "from_ms": from_ms}
    _begin(report, [word_id for word_id, *_ in words], jobs, begun)
    return Repetition(whole, jobs)


def _believed_words(
    node_id: int, keys: Sequence[str], from_ms: int | None
) -> list[tuple[int, str, int]]:
    """(id of the record, key, job id) of each key. Raises NotRepeatableError where one is not
    believed.
    """
    if not keys:
        return []
    rows = run(WORDS_OF_NODE, {"node_id": node_id, "keys": list(keys), "from_ms": from_ms})
    words = [(word_id, key, job_id) for word_id, key, job_id, differs in rows if not differs]
    if len(rows) != len(keys) or {key for _, key, _ in words} != set(keys):
        raise NotRepeatableError
    return words


def _end_of_words(report: Report) -> int | None:
    """Until when the batch speaks; None where it says nothing of jobs. Raises NotRepeatableError
    where something of it ends, is of no hold, or begins only after: that is something else later.
    """
    batch = report.batch
    if not (batch.jobs or batch.sources or batch.allocations):
        return None
    held = {item["job"] for item in batch.allocations}
    ends = [item.get("end_ms") for item in (*batch.jobs, *batch.allocations)]
    if batch.end_ms is None or len(held) < len(batch.jobs) or any(end is not None for end in ends):
        raise NotRepeatableError
    begins = [item.get("start_ms") for item in (*batch.jobs, *batch.allocations)]
    begins += [job.get("submit_ms") for job in batch.jobs]
    if any(begin_ms is not None and begin_ms >= batch.end_ms for begin_ms in begins):
        raise NotRepeatableError
    return batch.end_ms


def _begin(
    report: Report,
    words: Sequence[int],
    jobs: Mapping[JobKey, StoredJob],
    begun: Mapping[str, Any],
) -> None:
    held = {key for key, _, _ in holds(report, by_position(report, jobs))}
    given = answers(report)
    gpu_ids, job_ids, sources, shares = _columns(held, 4)
    _, kinds, oks, whys, _ = _columns(given, 5)
    parameters = {
        **begun,
        "records": integers(words),
        "gpu_ids": integers(gpu_ids),
        "job_ids": integers(job_ids),
        "sources": sources,
        "shares": numbers(shares),
        "kinds": kinds,
        "oks": oks,
        "whys": whys,
    }
    if run(BEGIN_REPEATS, parameters) != [(len(words), len(held), len(given))]:
        raise NotRepeatableError


def _columns(rows: Collection[Sequence[Any]], count: int) -> list[list[Any]]:
    """So many, also of no rows."""
    return [[row[at] for row in rows] for at in range(count)]
