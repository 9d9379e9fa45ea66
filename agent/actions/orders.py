"""Orders in a batch's answer: read, and believed only when this node's hub signed them. Pure.

The key is what the hub keeps of the node's token (its SHA-256), so that it is nowhere in clear but
here; who reads the hub's database could sign, and can do worse.
"""

import hashlib
import hmac
import json
import re
from dataclasses import dataclass
from typing import Any, Sequence, Tuple

from agent.json_parts import Object

STOP = "stop_job"
DRAIN = "drain_node"
KINDS = (STOP, DRAIN)
LONGEST_MS = 60 * 60_000  # no order is good for longer
MAX_GPUS = 64
MAX_REASON = 200
_KEY = re.compile(r"[A-Za-z0-9-]{8,64}")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,127}")
_NONE = re.compile("")
_UUID = re.compile(r"[A-Za-z0-9-]{4,96}")
_FIELDS = frozenset(
    ("key", "kind", "node", "scheduler", "job", "gpus", "grace_ms", "expires_ms", "reason",
     "is_dry_run", "signature")
)  # fmt: skip


class OrderError(Exception):
    """The order is not carried out; the text says why."""


@dataclass(frozen=True)
class Order:
    """What is to be done. A job is ended: `job` is its scheduler's id, `gpus` the UUIDs that it
    holds here, and for `grace_ms` none of them may have done anything, each of them read all the
    while. Or this node is drained: `gpus` can't work, `job` is "".
    """

    key: str
    kind: str
    node: str
    scheduler: str
    job: str
    gpus: Tuple[str, ...]
    grace_ms: int
    expires_ms: int
    reason: str
    is_dry_run: bool


def signing_key(token: str) -> bytes:
    """What orders to the node that has this token are signed by."""
    return hashlib.sha256(token.encode("utf-8")).hexdigest().encode("ascii")


def signature(order: Object, key: bytes) -> str:
    """Of all of it but the signature."""
    content = {name: value for name, value in order.items() if name != "signature"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hmac.new(key, text.encode("ascii"), hashlib.sha256).hexdigest()


def believed(order: Object, *, key: bytes, node: str, now_ms: int) -> Order:
    """The order, if it is for this node, whole, signed, and still good. Raises OrderError."""
    if set(order) != _FIELDS:
        raise OrderError("it is not an order that this agent knows")
    if not hmac.compare_digest(signature(order, key), str(order["signature"])):
        raise OrderError("its signature is not this node's hub's")
    read = _read(order)
    if read.node != node:
        raise OrderError("it is for another node")
    if not now_ms < read.expires_ms <= now_ms + LONGEST_MS:
        raise OrderError("it has expired, or the clocks differ")
    return read


def _read(order: Object) -> Order:
    gpus = _texts(order["gpus"], _UUID)
    kind = _choice(order["kind"], KINDS)
    return Order(
        key=_text(order["key"], _KEY),
        kind=kind,
        node=str(order["node"]),
        scheduler=str(order["scheduler"]),
        job=_text(order["job"], _ID if kind == STOP else _NONE),
        gpus=gpus,
        grace_ms=_whole(order["grace_ms"]),
        expires_ms=_whole(order["expires_ms"]),
        reason=str(order["reason"])[:MAX_REASON],
        is_dry_run=order["is_dry_run"] is not False,
    )


def _text(value: Any, form: "re.Pattern[str]") -> str:
    if not isinstance(value, str) or form.fullmatch(value) is None:
        raise OrderError("it names something that is no plain name")
    return value


def _texts(value: Any, form: "re.Pattern[str]") -> Tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_GPUS:
        raise OrderError("it names no GPU, or too many")
    return tuple(_text(each, form) for each in value)


def _choice(value: Any, kinds: Sequence[str]) -> str:
    if value not in kinds:
        raise OrderError("it asks for something that this agent can't do")
    return str(value)


def _whole(value: Any) -> int:
    if type(value) is not int or value <= 0:
        raise OrderError("it has a time that is none")
    return value
