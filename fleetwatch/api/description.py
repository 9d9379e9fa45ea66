"""The OpenAPI description: Ninja's, with the errors that each operation can answer."""

import re
from typing import Any

from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema

Described = dict[str, Any]
ERROR = {
    "title": "Error",
    "description": "What went wrong, and the parameter that did it (null: none in particular).",
    "type": "object",
    "properties": {"error": {"type": "string"}, "field": {"type": ["string", "null"]}},
    "required": ["error", "field"],
    "additionalProperties": False,
}
RETRY_AFTER = {
    "Retry-After": {"description": "seconds to wait", "schema": {"type": "integer", "minimum": 0}}
}
# the name among the components, and what it means
ERRORS = {
    400: (
        "BadRequest",
        "The request can't be read, or names a host that this hub does not answer to.",
    ),
    401: ("Unauthorized", "An API token or a session is needed."),
    403: ("Forbidden", "This token, user or session may not do that."),
    404: ("NotFound", "There is no such thing."),
    422: ("UnprocessableContent", "A parameter or the body is not as described; `field` names it."),
    429: ("TooManyRequests", "Too many requests."),
    500: ("InternalServerError", "Something broke on our side; it was logged."),
    503: ("ServiceUnavailable", "The database does not answer in time."),
}
# key, title and meaning of each group of operations, in the order in which they are shown
TAGS = (
    ("fleet", "Fleet", "What the whole fleet, a node or a GPU did and cost."),
    ("jobs", "Jobs", "Who held which GPUs, and what of that time was wasted."),
    (
        "costs",
        "Costs",
        "What each team, user or GPU model cost and wasted; rates and mappings behind it.",
    ),
    ("findings", "Findings", "Why GPU time was wasted, the evidence, and what people decided."),
    ("ledger", "Explanations", "What a figure is made of, down to one window and its rule."),
    ("capacity", "Capacity", "What there is beside what jobs held, and the same with other GPUs."),
    ("budgets", "Budgets", "The running month, what is expected of it, and unusual hours."),
    ("reports", "Reports", "Monthly statements, weekly digests, and invoices beside the ledger."),
    ("incidents", "Incidents", "What needs somebody now, who has it, and what was done."),
    ("rules", "Rules", "What is watched for, and each rule tried on history."),
    ("notifications", "Notifications", "Where incidents go, what is silenced, how you hear."),
    ("actions", "Actions", "Idle jobs ended and nodes drained by themselves, within limits."),
)
# what a parameter means that says nothing itself, by its name
MEANINGS = {
    "range": "instead of from and to",
    "node": "a node's name",
    "user": "the user name that jobs run as; of incidents also an account's",
    "team": "a team's slug",
    "project": "as a mapping rule names it",
    "cost_centre": "as a mapping rule names it",
    "gpu_model": "as rates name it",
    "cluster": "the cluster of jobs",
    "label": "of jobs: name=value, or a name that has any value",
    "limit": "rows of a page",
    "cursor": "next_cursor of the page before; it keeps the period of page one",
    "uuid": "of a GPU or a MIG instance",
    "gpu": "a GPU's UUID",
    "number": "its id in the list",
    "report_id": "its id in the list",
    "job": "a job's key",
    "job_name": "the name that jobs have in common",
    "assignee": "the user name of whom it was given to; empty: of nobody",
    "cause": "a cause's key, such as data_starved",
    "rule": "a rule's name",
    "month": "such as 2026-10",
    "subject": "a team's slug, of statements",
    "newest": "of a longer period the newest 6 hours with anything of it",
    "less": "GPUs taken away",
    "less_of": "their GPU model",
    "more": "GPUs added",
    "more_of": "their GPU model",
    "elsewhere": "runs may take another GPU model",
    "condition": "what is watched for, such as job_idle",
    "policy": "a policy's id",
    "incident": "an incident's id",
}
_WORD = re.compile(r"[A-Z]?[a-z]+")
_NAMES = {"Gpu": "GPU", "Gpus": "GPUs", "Me": "yourself and your jobs"}
ANY = (400, 401, 422, 429, 500, 503)
WAITS = (429, 503)


class DescribedAPI(NinjaAPI):
    """A NinjaAPI whose description names its errors."""

    def get_openapi_schema(self, *arguments: Any, **options: Any) -> OpenAPISchema:
        """OpenAPI 3.1, anew each time."""
        described = super().get_openapi_schema(*arguments, **options)
        described["tags"] = [
            {"name": key, "x-displayName": title, "description": meaning}
            for key, title, meaning in TAGS
        ]
        described["components"]["schemas"]["Error"] = ERROR
        described["components"]["responses"] = {
            ERRORS[status][0]: _response(status) for status in ERRORS
        }
        for path, methods in described["paths"].items():
            for method, operation in methods.items():
                operation["summary"] = in_words(operation["operationId"])
                _name_errors(operation, method, path)
                for parameter in operation["parameters"]:
                    parameter["schema"] = _described(parameter["name"], parameter["schema"])
        return described


def in_words(operation_id: str) -> str:
    """ "listGpus" as a title: "List GPUs"."""
    verb, *words = _WORD.findall(operation_id)
    return " ".join([verb.capitalize(), *(_NAMES.get(word, word.lower()) for word in words)])


def _name_errors(operation: Described, method: str, path: str) -> None:
    """An operation that asks for one thing by a query parameter names its 404 itself."""
    statuses = {*ANY, *(status for status in operation["responses"] if status in ERRORS)}
    if "{" in path:
        statuses.add(404)
    if method != "get":
        statuses.add(403)
    operation["responses"] |= {
        status: {"$ref": f"#/components/responses/{ERRORS[status][0]}"}
        for status in sorted(statuses)
    }


def _response(status: int) -> Described:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    described = {"description": ERRORS[status][1], "content": content}
    return described | {"headers": RETRY_AFTER} if status in WAITS else described


def _described(name: str, schema: Described) -> Described:
    meaning = {"description": MEANINGS[name]} if name in MEANINGS else {}
    return meaning | _without_null(schema)


def _without_null(schema: Described) -> Described:
    """A query string has no null: what may be left out is not required, and that says it."""
    choices = [choice for choice in schema.get("anyOf", []) if choice != {"type": "null"}]
    if len(choices) == len(schema.get("anyOf", [])):
        return schema
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    return rest | (choices[0] if len(choices) == 1 else {"anyOf": choices})
