"""After how long an idle session should end, by the pauses of a job. Pure."""

from fleetwatch.diagnosis.cause import Facts, Pauses, Step
from fleetwatch.diagnosis.session_kinds import JUPYTER

HOUR_S = 3600
ROUND_S = (900, 1200, 1800, 2700, 3600)  # an hour at most: longer frees little
LEAST_MIN = ROUND_S[0] // 60
MOST_MIN = ROUND_S[-1] // 60
CHECK_S = 300  # the server looks for idle kernels so often


def culling(facts: Facts) -> Step | None:
    """What would have ended the job's longest pauses, and how much of them; None where nothing
    would have, or they are not known. The setting is Jupyter's, for a job that is run by it.
    """
    timeout_s = timeout(facts.pauses) if facts.pauses else None
    if facts.pauses is None or timeout_s is None:
        return None
    lengths_s = facts.pauses.lengths_s
    saved_s = sum(max(length_s - timeout_s - CHECK_S, 0) for length_s in lengths_s) * facts.gpus
    idle_s = sum(lengths_s) * facts.gpus
    is_jupyter = facts.session == JUPYTER
    what = (
        f"Let idle notebooks end by themselves after {timeout_s // 60} minutes"
        if is_jupyter
        else f"End sessions that are idle for {timeout_s // 60} minutes, or give them a time limit"
    )
    return Step(
        f"{what}: of the {idle_s / HOUR_S:.1f} GPU-hours in which this job was idle without a break"
        f" that would have saved {saved_s / HOUR_S:.1f} GPU-hours, had it been started again"
        " after each pause; more where nobody came back.",
        _setting(timeout_s) if is_jupyter else "",
        saved_gpu_ms=int(saved_s * 1000),
        idle_gpu_ms=int(idle_s * 1000),
    )


def _setting(timeout_s: int) -> str:
    return (
        f"c.MappingKernelManager.cull_idle_timeout = {timeout_s}\n"
        f"c.MappingKernelManager.cull_interval = {CHECK_S}\n"
        "c.MappingKernelManager.cull_connected = True  # in an open tab too"
    )


def timeout(pauses: Pauses) -> int | None:
    """Half the longest pause, as a round number of seconds, but no less than a session may rest;
    None where no pause would have ended by it.
    """
    longest_s = max(pauses.lengths_s, default=0)
    shortest_s = pauses.idle_after_s
    may_be = [length for length in ROUND_S if shortest_s <= length < longest_s - CHECK_S]
    halves = [length for length in may_be if 2 * length <= longest_s]
    return max(halves or may_be[:1], default=None)
