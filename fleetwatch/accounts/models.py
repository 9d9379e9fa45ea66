"""People, their teams and their API tokens."""

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractUser, UserManager
from django.db import models
from django.db.models.functions import Upper
from django.utils.text import slugify

from fleetwatch.lib.written_once import row_of_key


class OthersShown(models.TextChoices):
    """What engineers and leads see of what is not theirs; the other roles see everything."""

    EVERYTHING = "everything"
    OWN_TEAMS = "teams", "only what is of their teams"
    PSEUDONYMS = "pseudonyms", "everything, but others' names"


class Organisation(models.Model):
    """The one row of facts about the customer; read it through selectors.organisation()."""

    name = models.CharField(max_length=100, default="My organisation")
    time_zone = models.CharField(
        max_length=64, default="UTC", help_text="IANA name; entries are cut at its midnight"
    )
    others_shown = models.CharField(
        max_length=16, choices=OthersShown.choices, default=OthersShown.EVERYTHING
    )
    needs_second_factor = models.BooleanField(
        default=False, help_text="whether everybody logs in with a second factor"
    )
    demo_since = models.DateTimeField(
        null=True, help_text="since when the simulated fleet is loaded; None = it is not"
    )
    is_demo_hub = models.BooleanField(
        default=False, help_text="whether the hub was started as a demo: its agents are simulated"
    )

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(pk=1), name="only_one_organisation")
        ]


class Team(models.Model):
    """Who pays.

    A job's account names its team (slug = account) where no mapping rule does
    (costs/mapping/attribution.py).
    """

    slug = models.CharField(max_length=100, unique=True)
    name = models.CharField(max_length=100)

    @property
    def label(self) -> str:
        """What people read."""
        return self.name or self.slug


class Users(UserManager["User"]):
    """Django's; by the key alone, as each request asks who it is of, by a statement that is
    written once. What Django makes of it for some of the users (of a group) asks for those alone.
    """

    use_in_migrations = False

    def get(self, *args: Any, **named: Any) -> "User":
        if args or named.keys() != {"pk"} or type(self) is not Users:
            return super().get(*args, **named)
        if user := row_of_key(self.model, named["pk"]):
            return user
        raise self.model.DoesNotExist


class User(AbstractUser):
    """A person: an account here, teams, and names in other systems (Identity)."""

    class Role(models.TextChoices):
        """What each may do is in permissions.RIGHTS."""

        ENGINEER = "engineer"
        LEAD = "lead"
        FINANCE = "finance"
        OPERATOR = "operator"
        ADMIN = "admin"

    role = models.CharField(max_length=16, choices=Role.choices, default=Role.ENGINEER)
    chose_name = models.BooleanField(
        default=False, help_text="whether the user name says nothing of who that is elsewhere"
    )
    signed_out_at = models.DateTimeField(
        null=True, blank=True, help_text="sessions of before are over"
    )
    left_directory_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="the directory has no entry any more, and that ended the account",
    )
    # of a request that came with one; its role bounds what the user may (permissions.role_of)
    token: "ApiToken | None" = None

    objects: ClassVar[Users] = Users()

    class Meta(AbstractUser.Meta):
        constraints = [
            # as every log-in looks for them (iexact), which this is the index of
            models.UniqueConstraint(Upper("username"), name="a_user_name_is_one_in_any_case")
        ]

    def _get_session_auth_hash(self, secret: str | None = None) -> str:
        """Django's, of the password: another one ends sessions, and so does a sign-out."""
        of_password: str = super()._get_session_auth_hash(secret)  # type: ignore[misc]
        return f"{of_password}{self.signed_out_at or ''}"


class Membership(models.Model):
    """A person's time in a team: [valid_from, valid_until), without end None."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    valid_from = models.DateTimeField()
    valid_until = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "team"],
                condition=models.Q(valid_until=None),
                name="a_person_is_in_a_team_once",
            ),
            models.CheckConstraint(
                condition=models.Q(valid_until=None)
                | models.Q(valid_until__gt=models.F("valid_from")),
                name="a_membership_lasts",
            ),
        ]


class Identity(models.Model):
    """A person's name in another system: who is told of a job that this name holds.

    A claim of the person's own counts from `confirmed_at` on: until then somebody else could be
    meant.
    """

    class System(models.TextChoices):
        UNIX = "unix", "Unix or Slurm user"
        KUBERNETES = "kubernetes", "Kubernetes namespace or annotation"
        EMAIL = "email", "e-mail address"
        SLACK = "slack", "Slack member"
        OIDC = "oidc", "identity provider's subject"
        DIRECTORY = "directory", "directory's entry"

    class Source(models.TextChoices):
        ADMIN = "admin", "set by an admin"
        CSV = "csv", "from a CSV file"
        DIRECTORY = "directory", "from the directory"
        PROVIDER = "provider", "from the identity provider"
        RULE = "rule", "by a rule"
        CLAIM = "claim", "claimed by the person"

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="identities")
    system = models.CharField(max_length=16, choices=System.choices)
    cluster = models.CharField(
        max_length=128, blank=True, default="", help_text="of Unix users; empty: on every cluster"
    )
    name = models.CharField(max_length=255)
    source = models.CharField(max_length=16, choices=Source.choices)
    created_at = models.DateTimeField()
    confirmed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["system", "cluster", "name"],
                condition=models.Q(confirmed_at__isnull=False),
                name="a_name_is_one_persons",
            ),
            models.UniqueConstraint(
                fields=["user", "system", "cluster", "name"], name="a_name_is_claimed_once"
            ),
        ]


class NameRule(models.Model):
    """Which Unix user a person is, on one cluster or (empty) on all: name_rules.py."""

    class Takes(models.TextChoices):
        USERNAME = "username", "the user name here"
        EMAIL = "email", "the e-mail address before the @"

    takes = models.CharField(max_length=16, choices=Takes.choices)
    domain = models.CharField(
        max_length=253, blank=True, default="", help_text="of addresses, in small letters"
    )
    cluster = models.CharField(max_length=128, blank=True, default="")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["takes", "domain", "cluster"], name="a_name_rule_is_set_once"
            )
        ]

    @property
    def text(self) -> str:
        """The rule in words."""
        domain = f" of {self.domain}" if self.domain else ""
        return f"{self.Takes(self.takes).label}{domain}, on {self.cluster or 'every cluster'}"


class Invitation(models.Model):
    """A link that makes one account: 256 random bits, kept as SHA-256, shown once."""

    digest = models.CharField(max_length=64, unique=True)
    email = models.EmailField(blank=True, default="")
    role = models.CharField(max_length=16, choices=User.Role.choices)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, null=True)
    by = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    accepted_by = models.OneToOneField(
        User, on_delete=models.CASCADE, null=True, related_name="invitation"
    )


class ApiToken(models.Model):
    """A token for the API, to read or also to write: 256 random bits, kept as SHA-256,
    shown once. It may what both its user and its role may.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100, blank=True, default="")
    digest = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=8, help_text="first characters, to recognise it by")
    scope = models.CharField(max_length=16, default="read")
    role = models.CharField(
        max_length=16, blank=True, default="", help_text="what it may; empty: what its user may"
    )
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)


class DeviceLogin(models.Model):
    """A command line that waits for a person to let it in (log_in/waiting_logins.py): once that is
    done its code, of which this has the digest, is an API token, and the row goes.
    """

    digest = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=8)
    user_code = models.CharField(max_length=8, unique=True)
    host = models.CharField(max_length=100, help_text="as it calls itself")
    address = models.CharField(max_length=45, blank=True, default="")
    network = models.CharField(max_length=50, blank=True, default="")
    expires_at = models.DateTimeField()
    asked_at = models.DateTimeField(null=True, help_text="when it last asked for the answer")
    refused_at = models.DateTimeField(null=True)


class SavedView(models.Model):
    """A page's address under a name of its owner's, for the owner or for everybody
    (saved_views.py). `query` is as the page takes it: what was relative stays so.
    """

    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="saved_views")
    name = models.CharField(max_length=60)
    path = models.CharField(max_length=1000)
    query = models.CharField(max_length=2000, blank=True, default="")
    is_shared = models.BooleanField(default=False)
    saved_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "name"], name="a_view_has_its_owners_name_once"
            )
        ]

    @property
    def address(self) -> str:
        """Where it leads: a path of ours."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def slug(self) -> str:
        """How it is called in its own address: its number, and its name for people."""
        return f"{self.pk}-{slugify(self.name)}".rstrip("-")


class AuditEntry(models.Model):
    """One thing that somebody did (audit.py); the database lets nobody change or delete it.

    `user` has no constraint: an entry stays as it was whatever becomes of the account.
    """

    at = models.DateTimeField()
    user = models.ForeignKey(
        User, on_delete=models.DO_NOTHING, null=True, db_constraint=False, related_name="+"
    )
    name = models.CharField(max_length=200)
    via = models.CharField(max_length=16)
    address = models.CharField(max_length=45, blank=True, default="")
    action = models.CharField(max_length=64)
    subject = models.CharField(max_length=500, blank=True, default="")
    detail = models.JSONField(default=dict)

    class Meta:
        indexes = [models.Index("at", "id", name="audit_by_time")]
