"""A finished script, a forgotten notebook: all the job's GPUs are idle while a process or memory
holds them.
"""

from dataclasses import replace

from fleetwatch.diagnosis.cause import FREED, HELD, MINUTES, PY_SPY, WITH_MEMORY, Cause, Facts, Step
from fleetwatch.diagnosis.culling import LEAST_MIN, MOST_MIN, culling
from fleetwatch.diagnosis.judgement.features import Features
from fleetwatch.diagnosis.judgement.rules import (
    HIGH,
    LOW,
    OF_IDLE,
    OF_SESSIONS,
    Detector,
    Judged,
    all_idle,
    all_met,
    at_least,
    below,
    judged,
)
from fleetwatch.diagnosis.session_kinds import VS_CODE
from fleetwatch.diagnosis.session_uses import LEFT, NEVER, ON_AND_OFF, use_of
from fleetwatch.diagnosis.shell import ending, nothing

PAUSE_S = 600.0  # of a session: longer than between two cells of work
QUIET = 0.05  # mean utilisation
ASK = Step(
    "Ask its owner; a notebook server says of each kernel when it was last active.",
    'curl -s "$JUPYTER_URL/api/kernels?token=$JUPYTER_TOKEN"',
)


def find(f: Features) -> Judged:
    """Asked after the rule that no process is there: what is left is held by something."""
    signs = all_idle(f)
    return judged(signs, confidence=HIGH, recoverable=(0.9, 1.0))


def find_thinking(f: Features) -> Judged:
    """A session whose pauses are too short for the ledger to call it idle: a person who thinks, or
    one who left.
    """
    is_interactive = f.lanes.of_kind("interactive")
    signs = (below(f, "util", QUIET), at_least(f, "quiet_s", PAUSE_S))
    return judged(
        signs, confidence=LOW, hits=all_met(signs) & is_interactive, recoverable=(0.0, 0.9)
    )


def session(facts: Facts) -> tuple[Step, ...]:
    """How one closes it that is not used any more: of one that people use there is nothing to
    close.
    """
    if facts.kind != "interactive" or is_used(facts):
        return ()
    if facts.session == VS_CODE:
        return (Step("If nobody uses this editor any more: save what is open, then close it."),)
    return (
        Step(
            "If nobody uses this notebook or shell any more: save what is open, then shut its"
            " kernel down."
        ),
    )


def is_used(facts: Facts) -> bool:
    """Whether somebody comes back to it again and again, as far as is known."""
    return use_of(facts) == ON_AND_OFF


def told_by(facts: Facts) -> str:
    """How the session is used; "" where that is not known."""
    return {
        NEVER: "A session keeps GPUs that it never used.",
        LEFT: "A session that nobody uses any more keeps its GPUs.",
        ON_AND_OFF: "A session is used on and off, and keeps its GPUs idle between uses.",
    }.get(use_of(facts), "")


def last_active(facts: Facts) -> Step | None:
    """How to learn when it was used last: an editor has no server of notebooks to ask."""
    return Step("Ask its owner.") if facts.session == VS_CODE else ASK


OF_JOBS = Cause(
    code="idle_held",
    title="Idle: still held",
    sentence="A script that ended, or a session at rest, keeps its GPUs.",
    looks=(
        "All the job's GPUs are idle for longer than its kind may be, while a process or memory"
        " holds them."
    ),
    sensors="utilisation; processes tell which one",
    fixes=(
        Step(
            "Stop the job or shut the kernel down: variables, and whatever was not saved, are lost."
        ),
        Step("Let idle sessions end by themselves.", fitted=culling),
        Step(
            "Work that only needs a GPU now and then fits a MIG slice or a CPU; emptying the"
            " cache frees memory, not the GPU."
        ),
    ),
    effort=MINUTES,
    range_words=FREED,
    saved_words=(
        "Of a session whose pauses were measured it is only the time after a step would have ended"
        f" it: {LEAST_MIN} to {MOST_MIN} idle minutes, by its longest pause."
    ),
    alike=(
        "A person who thinks between two cells looks like one who left: the longer it lasts, the"
        " less likely somebody still thinks."
    ),
    tell=(replace(ASK, fitted=last_active),),
    detectors=(
        Detector(find, (1,), holds_of_shared=True, turn=OF_IDLE),
        Detector(find_thinking, holds_of_shared=True, turn=OF_SESSIONS),
    ),
    idle=HELD,
    steps=session,
    told_by=told_by,
    is_used=is_used,
    needs_numbers=True,
    command=ending,
    is_ended=True,
    curves=WITH_MEMORY,
)

# A service rests until somebody asks it: that is neither a script that ended nor a notebook.
OF_SERVICES = replace(
    OF_JOBS,
    sentence="A service that nobody asks anything for an hour and more keeps its GPUs.",
    fixes=(
        Step("See whether somebody still uses it; if not, take it down."),
        Step(
            "Scale it to none while nobody asks, as at night (KEDA, Knative): loading the model"
            " again is what the first request pays."
        ),
        Step("Put it beside other models on one GPU: MPS, time-slicing or MIG."),
    ),
    range_words="the GPU is free for others while the service rests",
    alike="A service that stands by for another one, and one that was forgotten, look the same.",
    tell=(Step("Compare with the service's own request rate."),),
    command=nothing,
)
# A batch job has a script, no kernel, and nobody sits before it.
OF_BATCH = replace(
    OF_JOBS,
    sentence="A script that ended its work, or waits for something, keeps its GPUs.",
    fixes=(
        Step("End the job: what it did since its last checkpoint is lost."),
        Step(
            "Let the script end with its work: no sleep or shell after the last command, and a"
            " time limit of what the work takes."
        ),
        OF_JOBS.fixes[-1],
    ),
    alike="A job that waits for data, a lock or another job rests like one whose work is done.",
    tell=(Step("Read its log's last lines, and see what its process waits for.", PY_SPY),),
)
CAUSE = replace(OF_JOBS, by_kind={"batch": OF_BATCH, "service": OF_SERVICES})
