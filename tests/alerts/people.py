"""People who are told: their names in other systems, their channels, their idle jobs."""

from fleetwatch.accounts.models import Identity, Membership, Team, User
from fleetwatch.alerts.models import Preference, Route
from fleetwatch.notify.models import Channel
from tests.alerts.factories import NINE, ran
from tests.costs.factories import a_gpu, a_job
from tests.notify.factories import app_channel, email_channel, slack_channel

KEY = "slurm/della/1"
URL = "https://slack.example"


def person(username: str = "ana", *, name: str = "Ana Diaz", **fields) -> User:
    """With an e-mail address, a Slack member id, and the Unix user of that name."""
    first, _, last = name.partition(" ")
    email = fields.pop("email", f"{username}@people.example")
    user = User.objects.create(
        username=username, first_name=first, last_name=last, email=email, **fields
    )
    is_named(user, "unix", username)
    is_named(user, "slack", f"U0{username.upper()}")
    return user


def is_named(
    user: User, system: str, name: str, *, cluster: str = "", is_confirmed: bool = True
) -> Identity:
    return Identity.objects.create(
        user=user,
        cluster=cluster,
        system=system,
        name=name,
        source="admin",
        created_at=NINE,
        confirmed_at=NINE if is_confirmed else None,
    )


def prefers(user: User, **fields) -> Preference:
    return Preference.objects.update_or_create(user=user, defaults=fields)[0]


def team(slug: str = "nlp", *members: User) -> Team:
    row, _ = Team.objects.get_or_create(slug=slug, defaults={"name": slug.upper()})
    for member in members:
        Membership.objects.create(user=member, team=row, valid_from=NINE)
    return row


def route(kind: str, *channels: Channel, of: Team | None = None) -> Route:
    row = Route.objects.create(kind=kind, team=of)
    row.channels.set(channels)
    return row


def app() -> Channel:
    """Slack's app: it edits, and reaches people by their member ids."""
    return app_channel(URL)


def mail(name: str = "mail") -> Channel:
    return email_channel(25, name=name)


def webhook(name: str = "hook") -> Channel:
    """A Slack webhook: it edits nothing and reaches nobody but its channel."""
    return slack_channel(URL, name=name)


def idle_job(minutes: float = 31, *, key: str = KEY, user: str = "ana", index: int = 0, **fields):
    """The run of a job whose only GPU, on node-014, is idle from nine on."""
    gpu = a_gpu(node=fields.pop("node", "node-014"), index=index)
    usual = {"scheduler": "slurm", "cluster": "della", "team": "nlp"}
    job = a_job(key=key, user=user, **(usual | fields))
    return ran(gpu, "quiet", 0, minutes, job=job)
