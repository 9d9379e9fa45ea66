"""What to change: a cause's fixes with the numbers that follow from a job's evidence, and the
command that ends it. Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from fleetwatch.diagnosis.cause import FREED, HAD_IT_ENDED, Cause, Facts, Step
from fleetwatch.diagnosis.causes import of_kind
from fleetwatch.diagnosis.shell import DELETE_POD, Place, looks_up
from fleetwatch.diagnosis.sizing import WORKERS_HERE, workers_per_gpu

OVER = Step("The job has ended, nothing is left to end: what follows is for its next run.")
ASK_FIRST = Step("Ask its owner before anybody ends the job: some of its GPUs may be at work now.")
ASK_OF_ONE = Step("Ask its owner before anybody ends the job: its GPU may be at work now.")
ON_NODE = "On the job's node, as its user:"
NEXT_RUN = "Look with py-spy while it runs next."
NEWEST = '$(pgrep -n -u "$USER" python)'
PODS = Step(
    "What made the pod (a Deployment, a StatefulSet, a Job) makes it again: scale or delete that"
    " instead."
)


@dataclass(frozen=True, slots=True)
class Advice:
    """Steps in the order in which to try them, and `also` those for which nothing speaks by what
    was measured; `command` ends or isolates it ("" = nothing to end).
    """

    cause: Cause
    steps: tuple[Step, ...]
    also: tuple[Step, ...] = ()
    command: str = ""
    tell: tuple[Step, ...] = field(default=())
    told: str = ""  # what its signs say, where that is not the cause's sentence
    is_past: bool = False  # of a machine that is well again

    @property
    def sentence(self) -> str:
        """What happens, as the signs that are met say it."""
        return self.told or self.cause.sentence

    @property
    def note(self) -> str:
        """What is said before the steps and is none itself; "" = nothing."""
        return OVER.text if OVER in self.steps else ""

    @property
    def range_words(self) -> str:
        """What the range of its saving rests on: of a job that is over nothing is freed."""
        is_freed = self.cause.range_words == FREED
        return HAD_IT_ENDED if is_freed and (self.note or self.is_past) else self.cause.range_words

    @property
    def first(self) -> Step:
        """What to do first, in a line: with the command that ends it, or a code that fits there and
        does what the line says. Empty: nothing.
        """
        step = next((step for step in self.steps if step != OVER), Step(""))
        is_done_by_it = "\n" not in step.code and not looks_up(step.code)
        return Step(step.text, self.command or (step.code if is_done_by_it else ""))

    @property
    def costed(self) -> Step:
        """The first step of which was measured what it alone would have saved. Empty: of none."""
        return next((step for step in self.steps if step.saved_gpu_ms), Step(""))

    @property
    def step_worth(self) -> dict[str, int | None]:
        """What that step would have saved, as a finding's row keeps it; None = not measured."""
        step = self.costed
        return {
            "step_saved_ms": step.saved_gpu_ms or None,
            "step_of_ms": step.idle_gpu_ms if step.saved_gpu_ms else None,
        }

    @property
    def numbered(self) -> tuple[Step, ...]:
        """The steps alone, the command under the one that it does."""
        steps = tuple(step for step in self.steps if step != OVER)
        if not self.command:
            return steps
        own = self.cause.fixes[self.cause.command_of].text
        if own not in [step.text for step in steps]:
            return (Step("Type this:", self.command), *steps)
        return tuple(Step(step.text, self.command) if step.text == own else step for step in steps)


def advise(code: str, facts: Facts) -> Advice:
    """The advice for a cause and a job. Raises KeyError for a code that no cause has."""
    cause = of_kind(code, facts.kind)
    place = facts.place
    if cause.when_over and place.is_over:
        steps = _fitted(cause.when_over, facts)
        return Advice(cause, steps, told=cause.machine.past_sentence, is_past=True)
    is_used = cause.is_used(facts)
    typed = "" if is_used else command(code, place)
    every = _steps(cause, facts, typed, is_used=is_used)
    also = tuple(step for step in every if _is_contradicted(step, facts))
    return Advice(
        cause,
        tuple(step for step in every if step not in also),
        also=also,
        command=typed,
        tell=tuple(aimed(step, place) for step in _fitted(cause.tell, facts)),
        told=cause.told_by(facts),
    )


def _is_contradicted(step: Step, facts: Facts) -> bool:
    """Whether it is for a sign that is not met, of a finding whose signs were read."""
    return bool(step.sign and facts.met) and step.sign not in facts.met


def _steps(cause: Cause, facts: Facts, typed: str, *, is_used: bool) -> tuple[Step, ...]:
    """What the job's numbers say first, then the cause's fixes, with these numbers."""
    place = facts.place
    is_past = cause.is_ended and place.is_over
    first = (OVER,) if is_past else (*_spared(cause, facts), *cause.steps(facts))
    last = (PODS,) if typed.startswith(DELETE_POD) else ()
    fixes = cause.fixes[1:] if is_used else _fixes(cause, place)
    every = (*first, *_not_said(fixes, first), *last)
    fitted = _fitted(every, facts)
    return tuple(replace(step, code=_filled(step.code, facts)) for step in fitted)


def _fitted(steps: Iterable[Step], facts: Facts) -> tuple[Step, ...]:
    """With the job's numbers, without those that would not help it."""
    fitted = (step.fitted(facts) if step.fitted else step for step in steps)
    return tuple(step for step in fitted if step)


def _not_said(fixes: Iterable[Step], earlier: Iterable[Step]) -> tuple[Step, ...]:
    """The fixes that are about nothing that a step before them is about."""
    topics = {topic for step in earlier for topic in step.topics}
    return tuple(step for step in fixes if topics.isdisjoint(step.topics))


def aimed(step: Step, place: Place) -> Step:
    """At a process of the job; where none is known at the newest of its user's there. Of a job that
    is over there is none to look at.
    """
    if "--pid PID" not in step.code:
        return step
    if place.is_over:
        return replace(step, text=f"{step.text} {NEXT_RUN}", code="")
    if not place.pids:
        return replace(step, text=f"{step.text} {ON_NODE}", code=step.code.replace("PID", NEWEST))
    return replace(step, code=step.code.replace("PID", str(place.pids[0])))


def command(code: str, place: Place) -> str:
    """What to type to act on the cause: end the job, or take the node out of service; "" where
    nothing is to be ended.
    """
    cause = of_kind(code, "service" if place.is_service else "")
    is_let_run = cause.is_ended and (place.is_over or place.may_work)
    return "" if is_let_run else cause.command(place)


def _fixes(cause: Cause, place: Place) -> tuple[Step, ...]:
    """Of what a person ends the first fix is to end it: of a job that is over, or may work, the
    others are left.
    """
    is_first_left_out = cause.is_ended and (place.is_over or place.may_work)
    return cause.fixes[1:] if is_first_left_out else cause.fixes


def _spared(cause: Cause, facts: Facts) -> tuple[Step, ...]:
    """Of a job that may work, that it is not to be ended."""
    place = facts.place
    if not cause.is_ended or not place.may_work or place.is_over:
        return ()
    return (ASK_OF_ONE if facts.gpus == 1 else ASK_FIRST,)


def _filled(typed: str, facts: Facts) -> str:
    """The command with the GPUs that it is about ("" where they are not known), and the loaders
    that fit where their cores are.
    """
    workers = workers_per_gpu(facts.cores, facts.gpus_on_node)
    if workers is not None:
        typed = typed.replace(WORKERS_HERE, str(workers))
    if facts.indexes:
        typed = typed.replace("-i INDEX", f"-i {','.join(map(str, facts.indexes))}")
    return "" if "INDEX" in typed else typed
