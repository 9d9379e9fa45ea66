"""Nodes that fell silent stay on the bill until they are retired: what nobody observes costs what
it costs, and is seen in every figure.

Elastic nodes, by rule, are gone instead: fifteen minutes after their last sign of life, or as soon
as their agent says that it shuts down in order. Any silent node is where an admin says so. Who is
gone comes back by reporting again.
"""

from collections.abc import Iterable
from datetime import datetime
from fnmatch import fnmatchcase

import structlog
from django.db import transaction
from django.db.models import Exists, Max, OuterRef, Q, QuerySet

from fleetwatch.accounts.audit import record
from fleetwatch.inventory.models import GPU, REPLAYED_AFTER_MS, Departure, ElasticRule, Node
from fleetwatch.inventory.steady import forget
from fleetwatch.lib.intervals import to_ms
from fleetwatch.lib.refusal import RefusedFieldError
from fleetwatch.lib.spans import Span
from fleetwatch.lib.sql import execute, read_statement

SILENT_AFTER_MS = 3 * 60_000  # six flushes of 30 s
LONGEST_FLUSH_MS = 300_000  # an agent may be told to send so seldom
BILLED_BEHIND_MS = 60_000  # about as far behind now as a living node's newest windows
# docs/ledger.md: capacity ends after 7 silent days, dated back to the last window
RETIRED_AFTER_MS = 7 * 86_400_000

# An elastic node that is silent for so long is gone.
ELASTIC_AFTER_MS = 15 * 60_000
RULE_KINDS = ("name", "label", "cluster")

BILL = read_statement("inventory/sql/bill_silent.sql")

log = structlog.get_logger(__name__)


def bill(now: datetime) -> dict[int, Span]:
    """Node id -> the time by which the silence on its bill became longer; those nodes are locked
    until the transaction ends.
    """
    now_ms = to_ms(now)
    asked = {
        "silent_since_ms": now_ms - SILENT_AFTER_MS,
        "until_ms": now_ms - BILLED_BEHIND_MS,
        "known_since_ms": now_ms - RETIRED_AFTER_MS,
        "longest_ms": RETIRED_AFTER_MS,
        "replayed_ms": REPLAYED_AFTER_MS,
    }
    return {node_id: (was_ms, is_ms) for node_id, was_ms, is_ms in execute(BILL, asked)}


def silent_since(silent_ms: int) -> QuerySet[Node]:
    """The nodes without a sign of life since then that have GPUs which are capacity."""
    nodes = Node.objects.filter(Exists(_living(OuterRef("pk"))), last_ms__lte=silent_ms)
    return nodes.order_by("pk")


def _living(node: Node | OuterRef) -> QuerySet[GPU]:
    """The node's GPUs that are capacity."""
    return GPU.objects.filter(node=node, first_ms__isnull=False, retired_ms=None)


def may_be_gone(now_ms: int) -> QuerySet[Node]:
    """Those that are gone if they are elastic."""
    return silent_since(now_ms).filter(
        Q(last_ms__lte=now_ms - ELASTIC_AFTER_MS) | Q(agent__stopping=True)
    )


def rule_of(
    node: Node, clusters: Iterable[str], rules: Iterable[ElasticRule]
) -> ElasticRule | None:
    """The first rule by which the node is elastic; None where it is not."""
    labels = [f"{key}={value}" for key, value in node.labels.items()]
    subjects = {"name": [node.name], "label": labels, "cluster": list(clusters)}
    return next(
        (
            rule
            for rule in rules
            if any(fnmatchcase(text, rule.pattern) for text in subjects[rule.kind])
        ),
        None,
    )


def why_gone(node: Node, now_ms: int) -> str:
    """Why an elastic node is gone; "" where it is not."""
    if node.agent.get("stopping") is True:
        return "its agent shut down in order"
    if node.last_ms is not None and now_ms - node.last_ms >= ELASTIC_AFTER_MS:
        return f"no sign of life for {ELASTIC_AFTER_MS // 60_000} minutes"
    return ""


class PresentError(ValueError):
    """A node that is not gone: it reports, or has nothing that could go; the text is a sentence for
    who said so.
    """


@transaction.atomic
def depart(node_id: int, *, by: str, reason: str, at_ms: int, silent_ms: int) -> Span:
    """The time by which its GPUs are capacity no longer, now that the node is gone as of its last
    window.

    Raises PresentError where it gave a sign of life after `silent_ms`.
    """
    forget([node_id])
    node = Node.objects.get(pk=node_id)
    if node.last_ms is None or not _living(node).exists():
        raise PresentError(f"{node.name} has no GPU that is capacity.")
    if node.last_ms > silent_ms:
        raise PresentError(
            f"{node.name} reports still: stop its agent first, or it would be back at once."
        )
    Departure.objects.create(node=node, at_ms=at_ms, by=by, reason=reason)
    log.info("node gone", node=node.name, by=by, reason=reason)
    return _retire(node)


@transaction.atomic
def retire_departed(now: datetime) -> dict[int, Span]:
    """Node id -> time by which GPUs are capacity no longer, of nodes of which something came late
    after they were said to be gone.
    """
    departures = Departure.objects.filter(node=OuterRef("pk"), at_ms__gte=OuterRef("last_ms"))
    node_ids = list(
        silent_since(to_ms(now) - SILENT_AFTER_MS)
        .filter(Exists(departures))
        .values_list("pk", flat=True)
    )
    forget(node_ids)
    return {
        node.pk: _retire(node) for node in Node.objects.filter(Exists(departures), pk__in=node_ids)
    }


def _retire(node: Node) -> Span:
    living = _living(node)
    end_ms: int = living.aggregate(end=Max("last_ms"))["end"]
    was_ms = node.live_ms or end_ms
    living.update(retired_ms=end_ms)
    return end_ms, was_ms


def elastic_rules() -> list[ElasticRule]:
    """By kind and pattern."""
    return list(ElasticRule.objects.order_by("kind", "pattern"))


@transaction.atomic
def add_rule(kind: str, pattern: str) -> ElasticRule:
    """The rule by which nodes are elastic from now on.

    Raises RefusedFieldError for one that could match nothing.
    """
    if kind not in RULE_KINDS:
        raise RefusedFieldError(f"a rule is on one of {', '.join(RULE_KINDS)}")
    if not pattern or len(pattern) > 253 or not pattern.isprintable():
        raise RefusedFieldError("a pattern has 1 to 253 characters")
    if kind == "label" and "=" not in pattern.strip("="):
        raise RefusedFieldError("a label is key=value")
    rule, _ = ElasticRule.objects.get_or_create(kind=kind, pattern=pattern)
    record("agent.elastic", str(rule))
    return rule


@transaction.atomic
def remove_rule(rule_id: int) -> bool:
    """Whether there was such a rule; nodes that are gone by it stay so."""
    rule = ElasticRule.objects.filter(pk=rule_id).first()
    if rule is None:
        return False
    record("agent.elastic_remove", str(rule))
    rule.delete()
    return True
