"""A cause of diagnosis and its advice as messages say them. Pure."""

from fleetwatch.alerts.breach import Breach, Line
from fleetwatch.diagnosis.cause import Step
from fleetwatch.diagnosis.causes import BY_CODE
from fleetwatch.diagnosis.findings.advice import Advice
from fleetwatch.notify.message import one_line

NO_CAUSE = "Diagnosis names no cause yet: the job's page shows what its GPUs do."
NO_CAUSE_OF_SEVERAL = "Diagnosis names no cause yet: the jobs' pages show what their GPUs do."
MAX_COMMAND = 300
LIKELY = "Likely"  # the line that names the cause
OF_SEVERAL = ", likely: "  # the same in a line of several jobs
FIX = "Fix: "  # what an action that is a step begins with, in messages


def likely(advice: Advice | None) -> tuple[Line, ...]:
    """What it likely is; nothing where diagnosis has no cause."""
    if advice is None:
        return ()
    return ((LIKELY, f"{advice.cause.title}: {advice.cause.sentence}"),)


def what_to_do(advice: Advice | None) -> tuple[str, ...]:
    """The first step, with what to type where that is a line; and what looks the same, and how to
    tell it apart.
    """
    if advice is None:
        return (NO_CAUSE,)
    fix = advice.steps[0]
    tell = (f"{step.text} {_line(step.code)}".strip() for step in advice.tell)
    first = fix_of(Step(fix.text, advice.command or fix.code))
    return (first, " ".join([advice.cause.alike, *tell]).strip())


def fix_of(step: Step) -> str:
    """A step, with what to type where that is a line."""
    return f"{FIX}{step.text} {code_of(step)}".strip()


def asked_first(owner: str, job: str) -> str:
    """What comes first where somebody may still need the job: who knows that."""
    return f"{FIX}ask {owner or 'its owner'} whether job {job} is still needed."


def code_of(step: Step) -> str:
    """What to type for it, where that is a line."""
    return _line(step.code)


def typed(advice: Advice | None) -> tuple[str, ...]:
    """What these end with that can be typed."""
    if advice is None:
        return ()
    first = advice.command or advice.steps[0].code
    return tuple(filter(None, map(_line, (first, *(step.code for step in advice.tell)))))


def apart(action: str, breach: Breach) -> Step:
    """An action apart from what of it is to be typed ("": nothing): a command that is known."""
    fix = FIX if action.startswith(FIX) else ""
    text = action.removeprefix(fix)
    if breach.command and text.startswith(breach.command):
        return Step(f"{fix}end the job{text.removeprefix(breach.command)}", breach.command)
    cause = BY_CODE.get(breach.label("cause"))
    of_cause = [step.code for step in cause.fixes if step.code] if cause else []
    codes = (breach.command, *breach.codes, *of_cause)
    code = next((code for code in codes if code and text.endswith(code)), "")
    return Step(f"{fix}{text.removesuffix(code).strip() if code else text}", code)


def _line(code: str) -> str:
    """What to type, where it is a line."""
    return "" if "\n" in code else one_line(code, MAX_COMMAND)
