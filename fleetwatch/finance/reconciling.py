"""A month's invoices beside its ledger, line by line: what is matched, and what stands in one of
the two alone. Pure.

Lines of one GPU model are matched region by region where every billed region is one of the
ledger's, else the model as a whole. All lines sum to invoices less ledger, to the micro-dollar.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from fleetwatch.figures.pricing import HOUR_MS
from fleetwatch.figures.pricing import lines as in_steps
from fleetwatch.figures.totals import ZERO
from fleetwatch.finance.gaps import Billed, Counted, Gap, Missing, explain

MATCHED, UNMATCHED, UNBILLED, COMMITTED, BOOKED = (
    "matched",
    "unmatched",
    "unbilled",
    "committed",
    "booked",
)


@dataclass(frozen=True, slots=True)
class Bill:
    """A line of an invoice: dollars as they are, not rounded; `gpu_model` "" = nobody said what it
    is.
    """

    issuer: str
    sku: str
    region: str
    category: str
    description: str
    gpu_model: str
    gpu_hours: Decimal | None
    usd: Decimal


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose time of the ledger it is: owned nodes are on nobody's invoice."""

    gpu_model: str
    region: str
    is_owned: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a reconciliation.

    `gap` explains billed_usd less ledger_usd; `open` is what of it is not booked yet.
    """

    key: str
    kind: str
    label: str
    note: str
    gpu_model: str
    region: str
    gpu_hours: Decimal | None
    ledger_ms: int
    unobserved_ms: int
    billed_usd: Decimal
    ledger_usd: Decimal
    gap: Gap
    open: Gap

    @property
    def billed_ms(self) -> int | None:
        """The billed GPU time; None = not by the hour."""
        return None if self.gpu_hours is None else round(self.gpu_hours * HOUR_MS)

    @property
    def is_open(self) -> bool:
        """Whether there is something to book: parts that cancel each other out are none."""
        return bool(self.open.open_usd)


@dataclass(frozen=True, slots=True)
class _Pair:
    """What is compared: bills and time of the ledger of the same GPUs."""

    gpu_model: str
    region: str  # "" = all of them
    bills: tuple[Bill, ...]
    owners: tuple[Owner, ...]


def reconcile(
    bills: Sequence[Bill],
    ledger: Mapping[Owner, Counted],
    missing: Mapping[tuple[str, str], Missing],
    booked: Mapping[str, tuple[str, Gap]],
) -> list[Line]:
    """The lines of a month, matched ones first.

    `ledger` has exact dollars; `missing` is by GPU model and region of the commitment, in
    micro-dollars; `booked` is what was booked by key, with its label.
    """
    pairs = _pairs(bills, ledger)
    billed, counted = _rounded_bills(bills), _rounded(ledger)
    lines = [_matched(pair, billed, counted, _missing(pair, missing)) for pair in pairs]
    lines += _unmatched(bills, billed)
    matched = {owner for pair in pairs for owner in pair.owners}
    lines += [
        _unbilled(owner, counted[owner])
        for owner in sorted(ledger, key=_order)
        if owner not in matched
    ]
    left = sum((each.usd for each in missing.values()), ZERO) - sum(
        (line.gap.committed_usd for line in lines), ZERO
    )
    if left:
        lines.append(_committed(left))
    return _less_booked(lines, booked)


def total(lines: Iterable[Line]) -> Line:
    """All lines together."""
    told = list(lines)
    whole = Line("", "total", "Total", "", "", "", None, 0, 0, ZERO, ZERO, Gap(), Gap())
    return replace(
        whole,
        ledger_ms=sum(line.ledger_ms for line in told),
        unobserved_ms=sum(line.unobserved_ms for line in told),
        billed_usd=sum((line.billed_usd for line in told), ZERO),
        ledger_usd=sum((line.ledger_usd for line in told), ZERO),
        gap=sum((line.gap for line in told), Gap()),
        open=sum((line.open for line in told), Gap()),
    )


def fingerprint(lines: Iterable[Line]) -> str:
    """What was shown, as 16 hex digits: whoever books says that it is this."""
    told = [(line.key, str(line.open)) for line in lines]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


def _pairs(bills: Sequence[Bill], ledger: Mapping[Owner, Counted]) -> list[_Pair]:
    by_model: dict[str, list[Bill]] = defaultdict(list)
    for bill in bills:
        if bill.gpu_model:
            by_model[bill.gpu_model].append(bill)
    pairs = []
    for model, told in sorted(by_model.items()):
        rented = {
            owner.region: owner
            for owner in ledger
            if owner.gpu_model == model and not owner.is_owned
        }
        regions = {bill.region for bill in told}
        if regions <= rented.keys() - {""}:
            pairs += [
                _Pair(
                    model, region, tuple(b for b in told if b.region == region), (rented[region],)
                )
                for region in sorted(regions)
            ]
        else:
            pairs.append(_Pair(model, "", tuple(told), tuple(sorted(rented.values(), key=_order))))
    return pairs


def _matched(
    pair: _Pair, billed: Mapping[int, Decimal], counted: Mapping[Owner, Counted], missing: Missing
) -> Line:
    hours = [bill.gpu_hours for bill in pair.bills if bill.gpu_hours is not None]
    bill = Billed(
        sum(hours, ZERO) if hours else None, sum((billed[id(bill)] for bill in pair.bills), ZERO)
    )
    owners = [counted[owner] for owner in pair.owners]
    ours = Counted(
        sum(each.gpu_ms for each in owners),
        sum(each.unobserved_ms for each in owners),
        sum((each.usd for each in owners), ZERO),
    )
    where = f", {pair.region}" if pair.region else ""
    return Line(
        key=_key(MATCHED, pair.gpu_model, pair.region),
        kind=MATCHED,
        label=f"{pair.gpu_model}{where}",
        note="",
        gpu_model=pair.gpu_model,
        region=pair.region,
        gpu_hours=bill.gpu_hours,
        ledger_ms=ours.gpu_ms,
        unobserved_ms=ours.unobserved_ms,
        billed_usd=bill.usd,
        ledger_usd=ours.usd,
        gap=(found := explain(bill, ours, missing)),
        open=found,
    )


def _unmatched(bills: Sequence[Bill], billed: Mapping[int, Decimal]) -> list[Line]:
    """Bills of what nobody said which GPU model it is, by SKU, region and kind of charge; the
    largest first.
    """
    several: dict[tuple[str, ...], list[Bill]] = defaultdict(list)
    for bill in bills:
        if not bill.gpu_model:
            several[
                bill.issuer,
                bill.sku,
                bill.region,
                bill.category,
                "" if bill.sku else bill.description,
            ].append(bill)
    lines = []
    for key, same in several.items():
        amount = sum((billed[id(bill)] for bill in same), ZERO)
        first = same[0]
        name = first.sku or first.description or "a line that names nothing"
        lines.append(
            _alone(
                _key(UNMATCHED, *key),
                UNMATCHED,
                f"{name}{f', {first.region}' if first.region else ''}",
                billed=amount,
            )
        )
        note = ", ".join(
            text for text in (first.category, first.description if first.sku else "") if text
        )
        lines[-1] = replace(lines[-1], note=note, region=first.region)
    return sorted(lines, key=lambda line: (-abs(line.billed_usd), line.label))


def _unbilled(owner: Owner, counted: Counted) -> Line:
    where = f", {owner.region}" if owner.region else ""
    key = _key(UNBILLED, owner.gpu_model, owner.region, str(owner.is_owned))
    line = _alone(key, UNBILLED, f"{owner.gpu_model}{where}", ledger=counted.usd)
    note = "owned: on nobody's invoice" if owner.is_owned else "in the ledger, on no invoice"
    return replace(
        line,
        note=note,
        gpu_model=owner.gpu_model,
        region=owner.region,
        ledger_ms=counted.gpu_ms,
        unobserved_ms=counted.unobserved_ms,
    )


def _committed(left: Decimal) -> Line:
    """Dollars of commitments that no matched line bills by the hour: a line of the report already,
    so they are taken off the rest.
    """
    line = _alone(_key(COMMITTED), COMMITTED, "Committed, not delivered")
    gap = Gap(committed_usd=left, other_usd=-left)
    return replace(
        line,
        note=(
            "in the fleet's report; a fee for it on the invoice is among the lines that are not"
            " matched"
        ),
        gap=gap,
        open=gap,
    )


def _alone(
    key: str, kind: str, label: str, *, billed: Decimal = ZERO, ledger: Decimal = ZERO
) -> Line:
    gap = Gap(other_usd=billed - ledger)
    return Line(key, kind, label[:300], "", "", "", None, 0, 0, billed, ledger, gap, gap)


def _less_booked(lines: list[Line], booked: Mapping[str, tuple[str, Gap]]) -> list[Line]:
    """What is open once that which was booked counts as said; what was booked of lines that are
    gone is open the other way.
    """
    keys = {line.key for line in lines}
    gone = [
        replace(_alone(key, BOOKED, label), note="booked; its line is no longer there", open=Gap())
        for key, (label, _) in booked.items()
        if key not in keys
    ]
    return [
        replace(line, open=line.open.less(booked.get(line.key, ("", Gap()))[1]))
        for line in [*lines, *gone]
    ]


def _missing(pair: _Pair, missing: Mapping[tuple[str, str], Missing]) -> Missing:
    found = [
        each
        for (model, region), each in missing.items()
        if model == pair.gpu_model and (not pair.region or region == pair.region)
    ]
    return Missing(sum(each.gpu_ms for each in found), sum((each.usd for each in found), ZERO))


def _rounded_bills(bills: Sequence[Bill]) -> dict[int, Decimal]:
    """Micro-dollars of each bill, that sum to their total rounded once."""
    return dict(
        zip((id(bill) for bill in bills), in_steps([bill.usd for bill in bills]), strict=True)
    )


def _rounded(ledger: Mapping[Owner, Counted]) -> dict[Owner, Counted]:
    """Micro-dollars of each part of the ledger, that sum to the fleet's."""
    owners = sorted(ledger, key=_order)
    amounts = in_steps([ledger[owner].usd for owner in owners])
    return {
        owner: replace(ledger[owner], usd=amount)
        for owner, amount in zip(owners, amounts, strict=True)
    }


def _order(owner: Owner) -> tuple[str, str, bool]:
    return owner.gpu_model, owner.region, owner.is_owned


def _key(*names: str) -> str:
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()
