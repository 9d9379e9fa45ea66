"""What is told of a job that wastes its GPUs: whose it is, where, what it costs, why by diagnosis,
and what to do; for conditions of what jobs do while they run.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import NamedTuple

from fleetwatch.alerts.breach import OF_PARTS, Breach, Line, Settings, Watch, Weight, named
from fleetwatch.alerts.episodes import Episode
from fleetwatch.alerts.measuring.cause_words import likely, typed, what_to_do
from fleetwatch.alerts.measuring.episode_causes import primary_causes_within
from fleetwatch.alerts.measuring.gpu_places import amounts_sum, models, place_of, places, usd_sum
from fleetwatch.alerts.measuring.job_labels import (
    Card,
    cards_of,
    job_labels,
    owner_of,
    owner_words,
)
from fleetwatch.alerts.measuring.job_lanes import asked_spans
from fleetwatch.costs.mapping.attribution import jobs_by_key
from fleetwatch.costs.rates.rates_in_force import RatesInForce
from fleetwatch.diagnosis.causes import UNFIT
from fleetwatch.diagnosis.findings.advice import Advice, advise
from fleetwatch.diagnosis.findings.evidence import facts_of
from fleetwatch.diagnosis.findings.stopped import stopped
from fleetwatch.figures import pricing
from fleetwatch.inventory.models import GPU
from fleetwatch.jobs.models import Job
from fleetwatch.ledger.policy import STATES
from fleetwatch.lib.intervals import MINUTE_MS, floor_hour_ms, from_ms
from fleetwatch.lib.rows import fetched
from fleetwatch.lib.sql import read_statement
from fleetwatch.notify import wording

_HELD_TIME = read_statement("alerts/sql/held_time.sql")

# a GPU's newest run may lie this far behind its job's newest five minutes
EDGE_MS = 10 * MINUTE_MS
# what a job's GPUs do beside idling, which has rules of its own
JUDGED = ("useful", "underused", "stalled")


@dataclass(frozen=True, slots=True)
class Telling:
    """How a condition tells its breaches. `states` are the ledger's whose time and dollars are
    lost; `did` is what the GPUs did ("{were} stuck"), and `had` the same when it is over
    ("been stuck"), with {lost} and {rest}, the share of their time in these states and in others.
    `limit` is the rule's, with {threshold} and {minutes}; `several` is what a number of such are
    ("": the word).
    """

    word: str
    tag: str
    did: str
    had: str
    limit: str
    states: tuple[str, ...]
    several: str = ""

    @property
    def says_share(self) -> bool:
        """Whether it was so for a share of the time."""
        return "{lost}" in self.did or "{rest}" in self.did


@dataclass(frozen=True, slots=True)
class HeldGPU:
    """A GPU that the job held over [start_ms, end_ms): of its time there (without what was idle,
    starting or unseen) `lost_ms` of `judged_ms` were lost. Dollars are decimal strings; None = no
    rate.
    """

    uuid: str
    node: str
    index: int | None
    model: str
    mig_profile: str
    start_ms: int
    end_ms: int
    judged_ms: int
    lost_ms: int
    cost_usd: str | None
    usd_per_hour: str | None
    has_example_rate: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a job in an episode; `cause` is the one that explains most of what it
    wasted, "" where diagnosis has none.
    """

    job_key: str
    job_name: str
    user: str
    team: str
    kind: str
    gpus: tuple[HeldGPU, ...]
    cause: str
    lost_share: float

    @property
    def owner(self) -> str:
        """User and team, as far as they are known; "" when neither is."""
        return owner_words(self.user, self.team)


class _Span(NamedTuple):
    """What a GPU did in an episode."""

    gpu_id: int
    start_ms: int
    end_ms: int
    judged_ms: int
    lost_ms: int


def describe(episodes: Sequence[Episode], watch: Watch, *, telling: Telling) -> list[Breach | None]:
    """Of each episode whose job it is, where, what it costs and what to do; None where the job or
    its runs are gone.
    """
    read = _read(episodes, watch, telling)
    idle = stopped({job.pk for job, _ in read.values()})
    breaches: list[Breach | None] = [None] * len(episodes)
    for place, (job, facts) in read.items():
        words = _Words(telling, watch.settings, _advice(job, facts, idle))
        breaches[place] = _breach(job, episodes[place], facts, words)
    return breaches


def weigh(
    episodes: Sequence[Episode], watch: Watch, labels: Collection[str], *, telling: Telling
) -> list[Weight | None]:
    """Of each episode whose its job is, what the time that it lost cost, and these labels."""
    jobs = jobs_by_key({each.subject for each in episodes}, before=from_ms(watch.end_ms))
    causes = _causes(episodes, jobs) if "cause" in labels else {}
    held = _held(episodes, jobs, telling)
    rates = RatesInForce(_ids(held))
    cards = cards_of(_gpus(held)) if labels else {}
    weights: list[Weight | None] = [None] * len(episodes)
    for place, spans in held.items():
        job = jobs[episodes[place].subject]
        its_labels = _labels_of(job, spans, cards, causes.get(place, ""))
        weights[place] = _weight(job, spans, rates, its_labels)
    return weights


def _weight(
    job: Job, spans: Iterable[_Span], rates: RatesInForce, labels: Mapping[str, tuple[str, ...]]
) -> Weight:
    cost_usd = usd_sum([_usd(span, rates) for span in spans])
    return Weight(owner=owner_of(job), cost_usd=cost_usd, labels=labels)


def _labels_of(
    job: Job, spans: Iterable[_Span], cards: Mapping[int, Card], cause: str
) -> Mapping[str, tuple[str, ...]]:
    """Empty without cards: nobody asks for labels."""
    return _labels(job, (cards[span.gpu_id] for span in spans), cause) if cards else {}


def _read(
    episodes: Sequence[Episode], watch: Watch, telling: Telling
) -> dict[int, tuple[Job, Facts]]:
    """Of each episode (its place) its job and what is known of it."""
    jobs = jobs_by_key({each.subject for each in episodes}, before=from_ms(watch.end_ms))
    causes = _causes(episodes, jobs)
    held = _held(episodes, jobs, telling)
    gpus = _gpus(held)
    rates = RatesInForce(gpus)
    read = {}
    for place, spans in held.items():
        job = jobs[episodes[place].subject]
        several = [_held_gpu(gpus[span.gpu_id], span, rates) for span in spans]
        read[place] = (job, _facts(job, several, causes.get(place, "")))
    return read


def _held(
    episodes: Sequence[Episode], jobs: Mapping[str, Job], telling: Telling
) -> dict[int, list[_Span]]:
    """Of each episode (its place) what its GPUs did in it."""
    rows = fetched(
        _HELD_TIME,
        asked_spans(episodes, jobs)
        | {"judged": _numbers(JUDGED), "lost": _numbers(telling.states)},
    )
    held: dict[int, list[_Span]] = defaultdict(list)
    for place, gpu_id, start_ms, end_ms, judged_ms, lost_ms in rows:
        span = _Span(gpu_id, start_ms, end_ms, round(judged_ms), round(lost_ms))
        held[place - 1].append(span)
    return held


def _ids(held: Mapping[int, Sequence[_Span]]) -> set[int]:
    return {span.gpu_id for spans in held.values() for span in spans}


def _gpus(held: Mapping[int, Sequence[_Span]]) -> dict[int, GPU]:
    return GPU.objects.select_related("node", "model").in_bulk(_ids(held))


def _numbers(states: Sequence[str]) -> list[int]:
    """Where they stand in a run's state_ms."""
    return [STATES.index(state) + 1 for state in states]


def _usd(span: _Span, rates: RatesInForce) -> Decimal | None:
    """Dollars of what was lost; None where the GPU had no rate."""
    cost = rates.usd(span.gpu_id, span.start_ms, span.end_ms, span.lost_ms)
    return None if cost is None else pricing.usd(cost)


def _held_gpu(gpu: GPU, span: _Span, rates: RatesInForce) -> HeldGPU:
    cost = _usd(span, rates)
    latest = rates.at(gpu.pk, from_ms(span.end_ms - 1))
    per_hour = None
    if latest is not None:
        share = Decimal(span.lost_ms) / (span.end_ms - span.start_ms)
        per_hour = str(pricing.usd(latest.usd_per_gpu_hour * share))
    return HeldGPU(
        uuid=gpu.uuid,
        node=gpu.node.name,
        index=gpu.index,
        model=gpu.model.name if gpu.model else gpu.model_name,
        mig_profile=gpu.mig_profile,
        start_ms=span.start_ms,
        end_ms=span.end_ms,
        judged_ms=span.judged_ms,
        lost_ms=span.lost_ms,
        cost_usd=None if cost is None else str(cost),
        usd_per_hour=per_hour,
        has_example_rate=latest is not None and latest.is_example,
    )


def _causes(episodes: Sequence[Episode], jobs: Mapping[str, Job]) -> dict[int, str]:
    """Of each episode (its place) the cause of most that its job wasted in its hours, where people
    can act on it.
    """
    primary = primary_causes_within(
        asked_spans(episodes, jobs)["job_ids"].tolist(),
        [from_ms(floor_hour_ms(each.since_ms)) for each in episodes],
        [from_ms(each.until_ms) for each in episodes],
    )
    return {place: each.cause for place, each in primary.items() if each.cause not in UNFIT}


def _facts(job: Job, gpus: Sequence[HeldGPU], cause: str) -> Facts:
    judged_ms = sum(gpu.judged_ms for gpu in gpus)
    return Facts(
        job_key=job.key,
        job_name=job.name,
        user=job.user,
        team=job.team.slug if job.team else "",
        kind=job.kind,
        gpus=tuple(sorted(gpus, key=place_of)),
        cause=cause,
        lost_share=sum(gpu.lost_ms for gpu in gpus) / judged_ms,
    )


def _advice(job: Job, facts: Facts, idle: Collection[tuple[int, str]]) -> Advice | None:
    """What diagnosis says to do; None where it has no cause. `idle`: jobs all of whose GPUs have
    that cause now.
    """
    if not facts.cause:
        return None
    count = len(facts.gpus)
    may_work = (job.pk, facts.cause) not in idle
    return advise(
        facts.cause, facts_of(job, None, gpus=count, affected_gpus=count, may_work=may_work)
    )


@dataclass(frozen=True, slots=True)
class _Words:
    """What is said of a breach; `advice` None: diagnosis has no cause."""

    telling: Telling
    settings: Settings
    advice: Advice | None

    def what(self, facts: Facts) -> str:
        """What its GPUs did."""
        return f"{_of_job(facts)} {_with_shares(self.telling.did, facts)}"

    def has(self, facts: Facts) -> str:
        """What they have done so far."""
        have = "has" if len(facts.gpus) == 1 else "have"
        return f"{_of_job(facts)} {have} {_with_shares(self.telling.had, facts)}"

    def had(self, facts: Facts) -> str:
        """The same when it is over."""
        who = "It" if len(facts.gpus) == 1 else "They"
        return f"{who} had {_with_shares(self.telling.had, facts)}"

    @property
    def limit(self) -> str:
        """The rule's, with its settings."""
        return self.telling.limit.format(
            threshold=f"{self.settings.threshold:g}", minutes=f"{self.settings.minutes:g}"
        )


def _of_job(facts: Facts) -> str:
    count = len(facts.gpus)
    whose = "The only GPU" if count == 1 else f"The {count} GPUs"
    return f"{whose} of job {named(facts.job_key, facts.job_name)}"


def _with_shares(words: str, facts: Facts) -> str:
    return words.format(
        were="was" if len(facts.gpus) == 1 else "were",
        lost=wording.share(facts.lost_share),
        rest=wording.share(1 - facts.lost_share),
    )


def _part(word: str, facts: Facts) -> tuple[Line, ...]:
    """How much of which time was lost, of a condition that says a share of it: without what its
    GPUs idled, started, or nobody saw.
    """
    label = word.capitalize()
    if label not in OF_PARTS:
        return ()
    lost_ms = sum(gpu.lost_ms for gpu in facts.gpus)
    whole_ms = sum(gpu.judged_ms for gpu in facts.gpus)
    return ((label, f"{wording.part_of(lost_ms, whole_ms, gpus=len(facts.gpus))} at work"),)


def _labels(job: Job, gpus: Iterable[Card], cause: str) -> Mapping[str, tuple[str, ...]]:
    why = {"cause": (cause,)} if cause else {}
    return {**job_labels(job, gpus), **why}


def _usd_per_hour(facts: Facts, episode: Episode) -> Decimal | None:
    """Of the GPUs that it held where it was seen last."""
    held = [gpu for gpu in facts.gpus if gpu.end_ms > episode.until_ms - EDGE_MS]
    return amounts_sum(gpu.usd_per_hour for gpu in held)


def _breach(job: Job, episode: Episode, facts: Facts, words: _Words) -> Breach:
    where = places(facts.gpus)
    word = words.telling.word
    return Breach(
        subject=facts.job_key,
        kind="job",
        since_ms=episode.since_ms,
        until_ms=episode.until_ms,
        word=word,
        tag=words.telling.tag,
        title=f"{word} · {where}{models(facts.gpus)}",
        where=where,
        what=words.what(facts),
        has=words.has(facts),
        had=words.had(facts),
        several=words.telling.several,
        during="within" if words.telling.says_share else "for",
        limit=words.limit,
        name=facts.job_name,
        owner=facts.owner,
        usd_per_hour=_usd_per_hour(facts, episode),
        cost_usd=amounts_sum(gpu.cost_usd for gpu in facts.gpus),
        has_example_rates=any(gpu.has_example_rate for gpu in facts.gpus),
        lines=(*_part(word, facts), *likely(words.advice)),
        actions=what_to_do(words.advice),
        codes=typed(words.advice),
        labels=_labels(job, facts.gpus, facts.cause),
        facts=asdict(facts),
    )
