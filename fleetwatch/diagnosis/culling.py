"""After how long an idle session should end, by the pauses of a job. Pure."""

from fleetwatch.diagnosis.cause import Facts, Pauses, Step
from fleetwatch.diagnosis.session_kinds import JUPYTER
from fleetwatch.lib.rounding import gpu_hours

ROUND_S = (900, 1200, 1800, 2700, 3600)  # an hour at most: longer frees little
LEAST_MIN = ROUND_S[0] // 60
MOST_MIN = ROUND_S[-1] // 60
CHECK_S = 300  # the server looks for idle kernels so often
GOES_ON = (
    "A moment of work that is too little for the ledger to call it use ends no pause here; a timer"
    " of the session's own may begin anew at it."
)


def culling(facts: Facts) -> Step | None:
    """What would have ended the job's longest pauses, and how much of them; None where nothing
    would have, or they are not known. The setting is Jupyter's, for a job that is run by it.
    """
    timeout_s = timeout(facts.pauses) if facts.pauses else None
    if facts.pauses is None or timeout_s is None:
        return None
    is_jupyter = facts.session == JUPYTER
    ended_s = timeout_s + (CHECK_S if is_jupyter else 0)
    saved_gpu_ms = int(_beyond(ended_s, facts.pauses) * 1000 * facts.gpus)
    idle_gpu_ms = facts.pauses.idle_gpu_ms
    what = (
        f"Let idle notebooks end by themselves after {timeout_s // 60} minutes"
        if is_jupyter
        else f"End sessions that are idle for {timeout_s // 60} minutes, or give them a time limit"
    )
    return Step(
        f"{what}: of the {gpu_hours(idle_gpu_ms)} GPU-hours in which this job was idle that"
        f" would have saved {gpu_hours(saved_gpu_ms)} GPU-hours,"
        f" {_counted(ended_s, is_jupyter)}, had it been started again after each;"
        " more where nobody came back.",
        _setting(timeout_s) if is_jupyter else "",
        detail=GOES_ON if facts.pauses.has_moments else "",
        saved_gpu_ms=saved_gpu_ms,
        idle_gpu_ms=idle_gpu_ms,
    )


def _beyond(ended_s: int, pauses: Pauses) -> float:
    """Seconds of pauses after that length, as far as the ledger counts them as the job's."""
    beyond_s = sum(max(length_s - ended_s, 0) for length_s in pauses.lengths_s)
    return beyond_s * pauses.counted


def _counted(ended_s: int, is_jupyter: bool) -> str:
    """Which part of each pause is counted."""
    of_server = f" (the server looks each {CHECK_S // 60})" if is_jupyter else ""
    return f"what is beyond {ended_s // 60} minutes of each pause{of_server}"


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
