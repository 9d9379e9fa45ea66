"""What a printed step alone would have saved, where that was measured: so much, low and high alike,
its finding could save wherever it is told, ranked and summed.
"""

from dataclasses import replace

import numpy as np

from fleetwatch.diagnosis.cause_columns import Lines
from fleetwatch.diagnosis.cause_totals import HIGH, LOW
from fleetwatch.diagnosis.models import Finding
from fleetwatch.figures.packed_spans import Ints
from fleetwatch.lib.written_once import IDS, written_once

_MEASURED = written_once(
    lambda: Finding.objects.filter(job__in=IDS, step_saved_ms__isnull=False).values_list(
        "job_id", "cause", "step_saved_ms", "step_of_ms"
    )
)


def of_findings(lines: Lines) -> Lines:
    """The same lines (of a job and cause), by the steps of the findings that they are of."""
    rows = _MEASURED(ids=np.unique(lines.job)) if len(lines) else []
    steps = {(job_id, cause): step for job_id, cause, *step in rows}
    if not steps:
        return lines
    causes = [lines.spans.labels[cause] for cause in lines.cause.tolist()]
    own = [steps.get(key, (0, 0)) for key in zip(lines.job.tolist(), causes, strict=True)]
    return by_steps(lines, *np.array(own, dtype=np.int64).reshape(-1, 2).T)


def of_finding(lines: Lines, finding: Finding) -> Lines:
    """The same lines, all of this finding."""
    step = np.array([finding.step_saved_ms or 0, finding.step_of_ms or 0], dtype=np.int64)
    saved_ms, of_ms = np.repeat(step[:, None], len(lines), axis=1)
    return by_steps(lines, saved_ms, of_ms)


def by_steps(lines: Lines, saved_ms: Ints, of_ms: Ints) -> Lines:
    """The same lines, each with what its step alone could save; saved_ms of a line 0 = no step of
    it was measured: its range stands.

    A step was measured over all of the job's idle time (of_ms): of a period that has a part of it,
    it saves as large a part.
    """
    is_measured = saved_ms > 0
    if not is_measured.any():
        return lines
    whole_ms = np.maximum(np.maximum(of_ms, lines.sums(HIGH)), 1)
    share = np.minimum(saved_ms / whole_ms, 1)
    ms = lines.spans.figures["ms"].copy()
    chosen = is_measured[lines.line]
    part_ms = np.rint(ms[chosen, HIGH] * share[lines.line][chosen])
    ms[chosen, LOW] = ms[chosen, HIGH] = part_ms
    figures = {**lines.spans.figures, "ms": ms}
    return replace(lines, spans=replace(lines.spans, figures=figures))
