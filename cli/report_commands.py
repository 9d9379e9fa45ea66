"""The commands that read: each asks the hub, and prints what it says."""

from argparse import Namespace
from typing import Any, Callable, Dict

from cli import printed_job, printed_reports
from cli.cli_errors import BAD_ARGUMENTS, CommandError
from cli.hub_client import Hub, logged_in
from cli.own_tokens import token_of

FILTERS = (
    "team",
    "user",
    "project",
    "cost_centre",
    "node",
    "gpu_model",
    "kind",
    "cluster",
    "label",
)
LOOK_BACK = "now-90d"  # for a job that is named by its number alone
MOST_FINDINGS = 3
MOST_JOBS = 1000  # of a page of the API


def hub_of(asked: Namespace) -> Hub:
    """The hub that was named, asked as the person. Raises CommandError."""
    address = asked.server.rstrip("/")
    return logged_in(address, token_of(address, asked.environment))


def me(asked: Namespace) -> None:
    """The person's jobs and what they wasted. Raises CommandError."""
    _show(asked, "me", _period(asked), printed_reports.print_me)


def job(asked: Namespace) -> None:
    """One job: what it cost, why it wasted, what to do. Raises CommandError."""
    hub = hub_of(asked)
    answer = hub.get("jobs/%s" % _key(asked, hub), _period(asked))
    which = {"from": answer["from"], "to": answer["to"], "job": answer["key"]}
    rows = hub.get("findings", {**which, "limit": MOST_FINDINGS})["rows"]
    findings = [hub.get("findings/%d" % row["id"], _period(asked)) for row in rows]
    if asked.json:
        printed_reports.print_json({**answer, "findings": findings})
    else:
        printed_job.print_job(answer, findings)


def waste(asked: Namespace) -> None:
    """What was wasted, by team, user, job, … Raises CommandError."""
    query = {**_period(asked), **filters_of(asked), "group_by": asked.by}
    _show(asked, "waste", query, printed_reports.print_waste)


def explain(asked: Namespace) -> None:
    """What a figure is made of: its states under each rate, its parts. Raises CommandError."""
    query = {**_period(asked), **filters_of(asked), "job": asked.job, "state": asked.state}
    _show(asked, "explain/figure", query, printed_reports.print_explained)


def filters_of(asked: Namespace) -> Dict[str, Any]:
    """What was named of FILTERS; None is all."""
    return {name: getattr(asked, name) for name in FILTERS}


def _show(
    asked: Namespace, path: str, query: Dict[str, Any], in_words: Callable[[Any], None]
) -> None:
    answer = hub_of(asked).get(path, {**query, "limit": asked.limit})
    show = printed_reports.print_json if asked.json else in_words
    show(answer)


def _period(asked: Namespace) -> Dict[str, Any]:
    return {"from": asked.start, "to": asked.end}


def _key(asked: Namespace, hub: Hub) -> str:
    """The job's key: as it was typed, of the own job with that number, or of the job that this
    shell runs in. Raises CommandError.
    """
    typed = asked.key or _own_key(asked)
    if "/" in typed:
        return typed
    rows = hub.get("me", {"from": LOOK_BACK, "limit": MOST_JOBS})["rows"]
    keys = [row["key"] for row in rows if row["id"] == typed]
    if len(keys) == 1:
        return str(keys[0])
    which = "several of your jobs are" if keys else "no job of yours of the last 90 days is"
    raise CommandError(
        "%s called %s: say the whole key, such as slurm/CLUSTER/%s" % (which, typed, typed),
        BAD_ARGUMENTS,
    )


def _own_key(asked: Namespace) -> str:
    """Of the Slurm job that this shell runs in. Raises CommandError outside of one."""
    number = asked.environment.get("SLURM_JOB_ID")
    if not number:
        raise CommandError("which job? fleetwatch job KEY, such as slurm/della/4711", BAD_ARGUMENTS)
    cluster = asked.environment.get("SLURM_CLUSTER_NAME")
    return "slurm/%s/%s" % (cluster, number) if cluster else str(number)
