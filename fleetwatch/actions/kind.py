"""What a ladder is about, and the record of a kind of action. Each file of kinds/ makes one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from fleetwatch.actions.models import Policy
from fleetwatch.alerts.back_test import Trial
from fleetwatch.alerts.breach import Breach
from fleetwatch.alerts.messaging.address_book import AddressBook, Person
from fleetwatch.alerts.models import Incident, Rule

Place = tuple[int, str]  # a channel's id, and an address there; "" = the channel itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What an incident's ladder is about, as it is now.

    `name` is the job's key, or the node's name, `about` the same as messages call it; `restarts`
    which run of the job. `gpu_uuids` are the GPUs that rest, or can't work; `gpus` cost
    `usd_per_hour` together (None: one has no rate). `refusals` are why nothing is done about it, in
    the order in which they count, "" where one does not hold.

    An agent is asked by `scheduler`, `job` (its id there) and `reason`, a webhook by `identity`: a
    label and its value.
    """

    name: str
    about: str
    restarts: int
    gpu_uuids: tuple[str, ...]
    gpus: int
    usd_per_hour: Decimal | None
    refusals: tuple[str, ...]
    scheduler: str
    job: str
    reason: str
    identity: tuple[str, str]


Reader = Callable[[Incident, Breach], Subject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What people are told of a kind: `owner` is who is warned, `thing` what it is done to.

    As in "JOB will be ended" (`coming`), "ends the job" (`deed`), "job ended" and "job not ended"
    (`done`, `not_done`), "is asked: to end the job" (`order`), "end job JOB" (`request`). `spared`
    is what a back-test counts from then on. `whom` is whom a policy is about that names no teams.
    """

    owner: str
    thing: str
    headline: str
    coming: str
    deed: str
    done: str
    not_done: str
    order: str
    lasting: str
    cost: str
    how: str
    request: str
    interrupted: str
    never: str
    keep: str
    why_keep: str
    kept: str
    spared: str
    whom: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What can be done by itself about incidents of these conditions; by the node's agent where the
    policy's kind is its `name`, else by a webhook.

    `is_of_teams`: a policy names teams and kinds of jobs, and is nobody's where it names none.
    `read` gives what says what each of these incidents is about now, by its breach; `read_past` the
    same of incidents that would have been, in their order. `places` is who is warned: the person
    whose it is, or the rule's and routes' channels.
    """

    name: str
    conditions: tuple[str, ...]
    rules: str
    is_of_teams: bool
    words: Words
    read: Callable[[Policy, Sequence[Incident]], Reader]
    read_past: Callable[[Policy, Sequence[Trial]], list[Subject]]
    places: Callable[[Person | None, Rule, AddressBook], tuple[Place, ...]]
