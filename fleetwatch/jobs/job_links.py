"""Links from each job's page to its logs and its experiment, by templates that operators write."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import transaction

from fleetwatch.accounts.audit import record
from fleetwatch.jobs.address_templates import LABEL, check_template, filled
from fleetwatch.jobs.models import Job, JobLink
from fleetwatch.lib.intervals import from_ms, to_ms
from fleetwatch.lib.refusal import RefusedFieldError, is_name

MOST = 12
LONGEST_TITLE = 40


@dataclass(frozen=True, slots=True)
class Link:
    """A link of one job."""

    title: str
    address: str


def job_links() -> list[JobLink]:
    """Every template, by title."""
    return list(JobLink.objects.order_by("title"))


def links_of(job: Job, *, node: str, now: datetime) -> list[Link]:
    """The job's links, by title: those of whose templates every placeholder is known; none of a job
    that the reader sees under a pseudonym. `node` is the first that it held GPUs of, "" = none.
    """
    if job.has_pseudonym:
        return []
    values = dict(_values(job, node, now))
    addresses = ((link.title, filled(link.template, values)) for link in job_links())
    return [Link(title, address) for title, address in addresses if address]


def _values(job: Job, node: str, now: datetime) -> Iterator[tuple[str, str]]:
    """What is known of it, by placeholder."""
    yield from (("job_id", job.external_id), ("name", job.name), ("user", job.user))
    yield from (("account", job.account), ("cluster", job.cluster), ("node", node))
    yield from ((f"{LABEL}{name}", str(value)) for name, value in job.labels.items())
    if job.start_ms is not None:
        end_ms = to_ms(now) if job.end_ms is None else job.end_ms
        for name, at_ms in (("start", job.start_ms), ("end", end_ms)):
            yield name, f"{from_ms(at_ms).astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
            yield f"{name}_ms", str(at_ms)


@transaction.atomic
def add_link(title: str, template: str) -> JobLink:
    """The link that stands on the page of every job from now on; of an old one with that title it
    takes the place. Raises RefusedFieldError.
    """
    if not is_name(title, longest=LONGEST_TITLE):
        raise RefusedFieldError(f"At most {LONGEST_TITLE} characters, please.", field="title")
    check_template(template)
    others = JobLink.objects.exclude(title=title)
    if others.count() >= MOST:
        raise RefusedFieldError(f"There are {MOST} already: remove one first.", field="title")
    link, _ = JobLink.objects.update_or_create(title=title, defaults={"template": template})
    record("link.set", title, template=template)
    return link


@transaction.atomic
def remove_link(link: JobLink) -> None:
    record("link.remove", link.title, template=link.template)
    JobLink.objects.filter(pk=link.pk).delete()
