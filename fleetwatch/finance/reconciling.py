"""A month's invoices beside its ledger, line by line: what is matched, and what stands in one of
the two alone. Pure.

Lines of one GPU model are matched region by region where every billed region is one of the
ledger's, else the model as a whole. All lines sum to invoices less ledger, to the micro-dollar.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TypeVar

from fleetwatch.figures.pricing import lines as in_steps
from fleetwatch.figures.totals import ZERO
from fleetwatch.finance.gaps import Billed, Counted, Gap, explain
from fleetwatch.lib.intervals import HOUR_MS

MATCHED = "matched"
UNMATCHED = "unmatched"
UNBILLED = "unbilled"
COMMITTED = "committed"
BOOKED = "booked"
SUMS = ("ledger_ms", "unobserved_ms", "billed_usd", "ledger_usd", "gap", "booked")  # of a total
LONGEST_LABEL = 300
NO_GAP = Gap()
NOTHING = Counted()


# of the ledger's dollars: a larger difference is a missing day, a wrong SKU or a wrong rate more
# often than what is to be booked
LARGE_GAP = Decimal("0.05")


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


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """Whose time of the ledger it is: owned nodes are on nobody's invoice."""

    gpu_model: str
    region: str
    is_owned: bool = False


ByCommitted = dict[tuple[str, str], Counted]  # by GPU model and region of the commitment
NO_CONTRACTS: ByCommitted = {}
Booked = dict[str, tuple[str, Gap]]  # by the line's key its label and what was booked of it
Dollars = TypeVar("Dollars", Bill, Counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a reconciliation; `gap` explains billed_usd less ledger_usd."""

    key: str
    kind: str
    label: str
    note: str = ""
    gpu_model: str = ""
    region: str = ""
    gpu_hours: Decimal | None = None
    ledger_ms: int = 0
    unobserved_ms: int = 0
    billed_usd: Decimal = ZERO
    ledger_usd: Decimal = ZERO
    gap: Gap = NO_GAP
    booked: Gap = NO_GAP
    billers: tuple[tuple[str, Decimal], ...] = ()  # issuers with their dollars
    contract: Counted = NOTHING  # what of the ledger's time commitments cover, at their price

    @property
    def billed_rate(self) -> Decimal | None:
        """Dollars of a billed GPU-hour; None = not by the hour."""
        return self.billed_usd / self.gpu_hours if self.gpu_hours else None

    @property
    def ledger_rate(self) -> Decimal | None:
        """Dollars of a GPU-hour of the ledger; None where it has none."""
        return self.ledger_usd * HOUR_MS / self.ledger_ms if self.ledger_ms else None

    @property
    def contract_rate(self) -> Decimal | None:
        """Dollars of a GPU-hour that commitments cover; None where they cover none."""
        return self.contract.usd * HOUR_MS / self.contract.gpu_ms if self.contract.gpu_ms else None

    @property
    def above_contract_usd(self) -> Decimal | None:
        """Billed hours that commitments cover × what they were billed above the contract, negative
        below it; None where one of the two prices is not known.
        """
        if self.billed_rate is None or self.contract_rate is None or self.gpu_hours is None:
            return None
        hours = min(self.gpu_hours, Decimal(self.contract.gpu_ms) / HOUR_MS)
        return hours * (self.billed_rate - self.contract_rate)

    @property
    def is_above_contract(self) -> bool:
        """Whether a dollar or more was billed above the contract."""
        return (self.above_contract_usd or ZERO) >= 1

    @property
    def open(self) -> Gap:
        """What of the gap is not booked yet."""
        return self.gap.less(self.booked)

    @property
    def billed_ms(self) -> int | None:
        """The billed GPU time; None = not by the hour."""
        return None if self.gpu_hours is None else round(self.gpu_hours * HOUR_MS)

    @property
    def is_plausible(self) -> bool:
        """Whether invoice and ledger are of the same GPUs, and differ by no more than LARGE_GAP."""
        allowed_usd = LARGE_GAP * self.ledger_usd
        return self.kind == "matched" and abs(self.gap.difference_usd) <= allowed_usd

    @property
    def is_billed_twice(self) -> bool:
        """Whether several issuers bill more hours of the same GPUs together than the ledger has."""
        most_ms = self.ledger_ms * (1 + LARGE_GAP)
        return len(self.billers) > 1 and (self.billed_ms or 0) > most_ms

    @property
    def is_open(self) -> bool:
        """Whether there is something to book: parts that cancel each other out are none."""
        return bool(self.open.open_usd)


@dataclass(frozen=True, slots=True)
class _Pair:
    """What is compared: bills and time of the ledger of the same GPUs."""

    gpu_model: str
    region: str  # "" = all of them
    bills: list[Bill]
    owners: list[Owner]


def reconcile(
    bills: Sequence[Bill],
    ledger: Mapping[Owner, Counted],
    missing: ByCommitted,
    booked: Booked,
    contracts: ByCommitted = NO_CONTRACTS,
) -> list[Line]:
    """The lines of a month, matched ones first.

    `ledger` has exact dollars, `missing` micro-dollars: what commitments paid for GPUs that were
    not there; `contracts`: what they cover of those that were.
    """
    ordered = sorted(ledger)
    counted = dict(zip(ordered, _rounded([ledger[owner] for owner in ordered]), strict=True))
    rounded = _rounded(bills)
    pairs = _pairs(rounded, ordered)
    lines = [
        replace(_matched(pair, counted, missing), contract=_of_pair(pair, contracts))
        for pair in pairs
    ]
    lines += _unmatched(bill for bill in rounded if not bill.gpu_model)
    matched = {owner for pair in pairs for owner in pair.owners}
    lines += [_unbilled(owner, counted[owner]) for owner in ordered if owner not in matched]
    return _with_booked([*lines, *_committed(lines, missing)], booked)


def total(lines: Iterable[Line]) -> Line:
    """All lines together."""
    whole = Line(key="", kind="total", label="Total")
    for line in lines:
        whole = replace(
            whole, **{name: getattr(whole, name) + getattr(line, name) for name in SUMS}
        )
    return whole


def fingerprint(lines: Iterable[Line]) -> str:
    """What was shown, as 16 hex digits: whoever books says that it is this."""
    shown = [(line.key, str(line.open)) for line in lines]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]


def matched_key(gpu_model: str, region: str) -> str:
    """The key of the line of these GPUs; "" = of all regions."""
    return _key(MATCHED, gpu_model, region)


def _pairs(bills: Sequence[Bill], owners: Sequence[Owner]) -> list[_Pair]:
    pairs = []
    for model in sorted({bill.gpu_model for bill in bills} - {""}):
        of_model = [bill for bill in bills if bill.gpu_model == model]
        rented = [each for each in owners if each.gpu_model == model and not each.is_owned]
        regions = {bill.region for bill in of_model}
        are_known = regions <= {owner.region for owner in rented} - {""}
        pairs += [
            _Pair(
                model,
                region,
                [bill for bill in of_model if region in ("", bill.region)],
                [owner for owner in rented if region in ("", owner.region)],
            )
            for region in (sorted(regions) if are_known else [""])
        ]
    return pairs


def _of_pair(pair: _Pair, committed: ByCommitted) -> Counted:
    """What of the commitments is of the pair's GPUs."""
    of_pair = [
        each
        for (model, region), each in committed.items()
        if model == pair.gpu_model and pair.region in ("", region)
    ]
    return sum(of_pair, NOTHING)


def _matched(pair: _Pair, counted: Mapping[Owner, Counted], missing: ByCommitted) -> Line:
    hours = [bill.gpu_hours for bill in pair.bills if bill.gpu_hours is not None]
    billed = Billed(
        sum(hours, ZERO) if hours else None, sum((bill.usd for bill in pair.bills), ZERO)
    )
    ours = sum((counted[owner] for owner in pair.owners), NOTHING)
    paid = _of_pair(pair, missing)
    is_known = bool(ours.gpu_ms or paid.gpu_ms)
    return Line(
        key=matched_key(pair.gpu_model, pair.region),
        kind=MATCHED if is_known else UNMATCHED,
        label=_joined(pair.gpu_model, pair.region),
        note="" if is_known else "no GPU of this name is in the ledger",
        gpu_model=pair.gpu_model,
        region=pair.region,
        gpu_hours=billed.gpu_hours,
        ledger_ms=ours.gpu_ms,
        unobserved_ms=ours.unobserved_ms,
        billed_usd=billed.usd,
        ledger_usd=ours.usd,
        gap=explain(billed, ours, paid),
        billers=_billers(pair.bills),
    )


def _billers(bills: Iterable[Bill]) -> tuple[tuple[str, Decimal], ...]:
    """Who bills them, with how many dollars, by name."""
    amounts: dict[str, Decimal] = defaultdict(Decimal)
    for bill in bills:
        amounts[bill.issuer] += bill.usd
    return tuple(sorted(amounts.items()))


def _unmatched(bills: Iterable[Bill]) -> list[Line]:
    """Bills of what nobody said which GPU model it is, by SKU, region and kind of charge; the
    largest first.
    """
    lines: dict[str, Line] = {}
    for bill in bills:
        described = "" if bill.sku else bill.description
        key = _key(UNMATCHED, bill.issuer, bill.sku, bill.region, bill.category, described)
        name = bill.sku or bill.description or "a line that names nothing"
        line = lines.get(key) or Line(
            key=key,
            kind=UNMATCHED,
            label=_joined(name, bill.region)[:LONGEST_LABEL],
            note=_joined(bill.issuer, bill.category, bill.description if bill.sku else ""),
            region=bill.region,
        )
        amount = line.billed_usd + bill.usd
        lines[key] = replace(line, billed_usd=amount, gap=Gap(other_usd=amount))
    return sorted(lines.values(), key=lambda line: (-abs(line.billed_usd), line.label))


def _unbilled(owner: Owner, counted: Counted) -> Line:
    return Line(
        key=_key(UNBILLED, owner.gpu_model, owner.region, str(owner.is_owned)),
        kind=UNBILLED,
        label=_joined(owner.gpu_model, owner.region),
        note="owned: on nobody's invoice" if owner.is_owned else "in the ledger, on no invoice",
        gpu_model=owner.gpu_model,
        region=owner.region,
        ledger_ms=counted.gpu_ms,
        unobserved_ms=counted.unobserved_ms,
        ledger_usd=counted.usd,
        gap=Gap(other_usd=-counted.usd),
    )


def _committed(lines: Iterable[Line], missing: ByCommitted) -> Iterator[Line]:
    """Dollars of commitments that no matched line bills by the hour: a line of the report already,
    so they are taken off the rest.
    """
    explained = sum((line.gap.committed_usd for line in lines), ZERO)
    left = sum((each.usd for each in missing.values()), -explained)
    if not left:
        return
    yield Line(
        key=_key(COMMITTED),
        kind=COMMITTED,
        label="Committed, not delivered",
        note=(
            "in the fleet's report; a fee for it on the invoice is among the lines that are not"
            " matched"
        ),
        gap=Gap(committed_usd=left, other_usd=-left),
    )


def _with_booked(lines: list[Line], booked: Booked) -> list[Line]:
    """What was booked counts as said; what was booked of lines that are gone is open the other
    way.
    """
    keys = {line.key for line in lines}
    gone = [
        Line(
            key=key,
            kind=BOOKED,
            label=label,
            note="booked; its line is no longer there",
        )
        for key, (label, _) in booked.items()
        if key not in keys
    ]
    return [
        replace(line, booked=booked[line.key][1]) if line.key in booked else line
        for line in [*lines, *gone]
    ]


def _rounded(several: Sequence[Dollars]) -> list[Dollars]:
    """Each with its micro-dollars, that sum to their total rounded once."""
    amounts = in_steps([each.usd for each in several])
    return [replace(each, usd=amount) for each, amount in zip(several, amounts, strict=True)]


def _joined(*names: str) -> str:
    return ", ".join(name for name in names if name)


def _key(*names: str) -> str:
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()
