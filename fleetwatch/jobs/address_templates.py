"""Addresses with placeholders, as operators write them, and what a job's facts make of one. Pure.

Names of jobs and users are hostile text: they are quoted, stand never in the host, and may not
climb out of the path that the operator wrote.
"""

import re
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from fleetwatch.lib.refusal import RefusedFieldError

LONGEST = 1000
LABEL = "label."  # and a label's name: what the job's processes or its scheduler say of it
PLACEHOLDERS = {
    "job_id": "the job’s id in its scheduler",
    "name": "the job’s name",
    "user": "the job’s owner, as the scheduler calls them",
    "account": "the account that it runs under",
    "cluster": "the cluster that it runs on",
    "node": "the first of its nodes by name",
    "start": "when it started: ISO 8601, UTC",
    "end": "when it ended, or now",
    "start_ms": "when it started, in milliseconds, as Grafana wants it",
    "end_ms": "when it ended, or now, in milliseconds",
}

# ready ones, by title: hosts that begin with YOURS, and words in capitals, are to be replaced
YOURS = "your-"
EXAMPLES = {
    "Logs (Grafana, Loki)": (
        "https://your-grafana/explore?orgId=1&left=%7B%22datasource%22:%22loki%22,%22queries%22:"
        "%5B%7B%22expr%22:%22%7Bjob_id%3D%5C%22{job_id}%5C%22%7D%22%7D%5D,%22range%22:"
        "%7B%22from%22:%22{start_ms}%22,%22to%22:%22{end_ms}%22%7D%7D"
    ),
    "Dashboard (Grafana)": (
        "https://your-grafana/d/DASHBOARD?var-node={node}&from={start_ms}&to={end_ms}"
    ),
    "Run (W&B)": "https://wandb.ai/ENTITY/{label.wandb_project}/runs/{label.wandb_run_id}",
    "Run (MLflow)": "https://your-mlflow/#/experiments/0/runs/{label.mlflow_run_id}",
    "TensorBoard": "https://your-tensorboard/?runFilter={job_id}#timeseries",
}

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_CHARACTERS = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%{}-]*")  # RFC 3986, and braces
_UP = (".", "..")


def check_template(template: str) -> None:
    """Raises RefusedFieldError for what is no address over http or https, and for a placeholder
    that there is not or that stands in the host.
    """
    if len(template) > LONGEST:
        _refuse(f"At most {LONGEST} characters, please.")
    if not _CHARACTERS.fullmatch(template):
        _refuse("Only characters of an address, please: a blank is %20, a quote %22.")
    _check_placeholders(template)
    _check_host(template)


def _check_placeholders(template: str) -> None:
    for name in _PLACEHOLDER.findall(template):
        is_label = name.startswith(LABEL) and name != LABEL
        if name not in PLACEHOLDERS and not is_label:
            _refuse(f"There is no placeholder {{{name}}}.")
    if {"{", "}"} & set(_PLACEHOLDER.sub("", template)):
        _refuse("A brace belongs to a placeholder; write others as %7B and %7D.")


def _check_host(template: str) -> None:
    try:
        parts = urlsplit(template)
        host = parts.hostname
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        _refuse("A whole address, please, from http:// or https:// on.")
    if host and host.startswith(YOURS):
        _refuse(f"Your own host, please, in place of {host}.")
    if "@" in parts.netloc:
        _refuse("No user and no password in the address: everybody who sees the job sees it.")
    if "{" in parts.netloc:
        _refuse("No placeholder in the host: a job's name must not choose where the link leads.")


def _refuse(text: str) -> None:
    raise RefusedFieldError(text, field="template")


def filled(template: str, values: Mapping[str, str]) -> str | None:
    """The address with each placeholder's value, quoted; None where one of them is missing or
    empty, or where the path would lead up.
    """
    wanted = _PLACEHOLDER.findall(template)
    if not all(values.get(name) for name in wanted):
        return None
    address = _PLACEHOLDER.sub(lambda place: quote(values[place[1]], safe=""), template)
    is_up = any(step in _UP for step in urlsplit(address).path.split("/"))
    return None if is_up else address
