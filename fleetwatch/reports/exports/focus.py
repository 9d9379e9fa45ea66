"""Statements in the format of the FinOps Open Cost and Usage Specification (FOCUS) 1.2. Pure.
https://focus.finops.org

One row is one line of a statement (a job on one GPU model), or of what no job held: a charge of the
month, or of each of its days; and one line of what is paid beside it: corrections of closed months,
commitments for GPUs that were not there, booked differences to invoices. We are provider, publisher
and invoice issuer to our own teams, so the four costs are the showback's. BilledCost is the
statement's micro-dollars and sums to what the fleet paid at the rates; so does EffectiveCost, but
that of what a commitment pays for, used or unused, is at its contract's price. ListCost and
ContractedCost are price times quantity, as the specification demands: they differ from BilledCost
by what rounding moved, ContractedCost too by the contract's price. Where an invoice's line of
its GPUs was booked, that row says what the contract saves, and their EffectiveCost is BilledCost.
Time without a rate is no charge and has no row.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from fleetwatch.figures import boundaries, pricing
from fleetwatch.figures.totals import WHY
from fleetwatch.lib.intervals import HOUR_MS, Interval
from fleetwatch.reports import by_contract, months
from fleetwatch.reports.exports import committed
from fleetwatch.reports.exports.tables import Cell, hours
from fleetwatch.reports.statement import MOMENT, TWELVE_PLACES, Shape, amount_or_none

Charge = dict[str, Cell]
NINE_PLACES = Decimal("0.000000001")
UNIT = "GPU-Hours"
USED = "Used"
UNUSED = "Unused"
EFFECTIVE = ("EffectiveCost", "PricingCurrencyEffectiveCost")
CONTRACTED = ("ContractedUnitPrice", "PricingCurrencyContractedUnitPrice", "ContractedCost")

# the order of the file
COLUMNS = (
    "AvailabilityZone", "BilledCost", "BillingAccountId", "BillingAccountName",
    "BillingAccountType", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart",
    "CapacityReservationId", "CapacityReservationStatus", "ChargeCategory", "ChargeClass",
    "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart",
    "CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountName",
    "CommitmentDiscountQuantity", "CommitmentDiscountStatus", "CommitmentDiscountType",
    "CommitmentDiscountUnit", "ConsumedQuantity", "ConsumedUnit", "ContractedCost",
    "ContractedUnitPrice", "EffectiveCost", "InvoiceId", "InvoiceIssuerName", "ListCost",
    "ListUnitPrice", "PricingCategory", "PricingCurrency", "PricingCurrencyContractedUnitPrice",
    "PricingCurrencyEffectiveCost", "PricingCurrencyListUnitPrice", "PricingQuantity",
    "PricingUnit", "ProviderName", "PublisherName", "RegionId", "RegionName", "ResourceId",
    "ResourceName", "ResourceType", "ServiceCategory", "ServiceName", "ServiceSubcategory",
    "SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId", "SubAccountId", "SubAccountName",
    "SubAccountType", "Tags",
    # ours, as the specification has custom columns
    "x_WastedCost",  # of BilledCost what is certain or probable waste; null = not judged
    "x_RecordedSince",  # since when there are figures, where that is within the report's period
)  # fmt: skip
TAGS = ("user", "state", "project", "cost_centre")


def rows(contents: Iterable[Shape], *, by_day: bool = False) -> list[list[Cell]]:
    """One row per charge of statements, and of what the fleet's report has beside them, in the
    order of COLUMNS; with `by_day` usage has a row per day, and the sums are the same.
    """
    shown = list(contents)
    commitments = [
        each | {"is_invoiced": by_contract.is_invoiced(content, each)}
        for content in shown
        for each in content.get("commitments", [])
    ]
    usage = [_usage(content, by_day) for content in shown]
    parts = iter(committed.parts([line for lines in usage for line in lines], commitments))
    charges = (
        _account(content) | charge
        for content, lines in zip(shown, usage, strict=True)
        for charge in _charges(content, [part for _ in lines for part in next(parts)], by_day)
    )
    return [[charge.get(name) for name in COLUMNS] for charge in charges]


def _charges(content: Shape, usage: Iterable[Shape], by_day: bool) -> list[Charge]:
    """Of a statement its lines and its corrections: they sum to what it comes to with these. Of the
    fleet's report what is in no statement; with all statements it sums to what was paid.
    """
    is_fleet = "team" not in content
    return [
        *(_used(content, line) for line in usage),
        *(
            _correction(content, line)
            for line in content["adjustments"]
            if not (is_fleet and line["team"])
        ),
        *(
            _undelivered(content, each)
            for line in content.get("commitments", [])
            if Decimal(line["missing_usd"])
            for each in _missing(content, line, by_day)
        ),
        *(_booked(content, line) for line in content.get("invoice_lines", [])),
    ]


def _days_of(content: Shape) -> Sequence[Interval]:
    start, end = (datetime.fromisoformat(content[end]) for end in ("from", "to"))
    return boundaries.days(Interval(start, end), ZoneInfo(content["zone"]))


def _usage(content: Shape, by_day: bool) -> list[Shape]:
    """The lines of a statement, or what no job held, that have a rate; `by_day` one for each of
    their days.
    """
    lines = content["lines"] if "team" in content else content["own_lines"]
    days = _days_of(content) if by_day else ()
    return [each for line in lines if line["priced_ms"] for each in _by_day(line, days)]


def _by_day(line: Shape, days: Sequence[Interval]) -> Iterator[Shape]:
    """The line of each of its days, with the `period` of its charge. A version from before days
    were kept has the line as one.
    """
    if not days or "days" not in line:
        yield line
        return
    for each in line["days"]:
        # days of older versions say no waste
        yield line | {"wasted_usd": None} | each | {"period": _period(days[each["day"]])}


def _period(day: Interval) -> Charge:
    return {"ChargePeriodStart": f"{day.start:{MOMENT}}", "ChargePeriodEnd": f"{day.end:{MOMENT}}"}


def _missing(content: Shape, commitment: Shape, by_day: bool) -> Iterator[Shape]:
    """The commitment, `by_day` once for each day on which something of it was not there. A version
    from before these were kept has it as one.
    """
    if not by_day or "missing_days" not in commitment:
        yield commitment
        return
    days = _days_of(content)
    for each in commitment["missing_days"]:
        yield commitment | each | {"period": _period(days[each["day"]])}


def _used(content: Shape, line: Shape) -> Charge:
    """GPU time that was there, at the price that an hour of the line cost on average: its rate,
    where it had one. What a commitment pays for is billed at the ledger's rate too.
    """
    prices = _prices(
        line["gpu_model"], line["priced_ms"], Decimal(line["usd_per_gpu_hour"]), line["cost_usd"]
    )
    quantity = prices["PricingQuantity"]
    ours: Charge = {
        "x_WastedCost": amount_or_none(line.get("wasted_usd")),
        "x_RecordedSince": content.get("recorded_since"),
    }
    usage = _held_or_not(content, line) | prices | _consumed(quantity) | ours
    usage |= line.get("period", {})
    if line["commitment"] is None:
        return usage
    status = USED if committed.is_held(line) else UNUSED
    return usage | _committed(line["commitment"], quantity, status)


def _held_or_not(content: Shape, line: Shape) -> Charge:
    """What the charge is for, and the job that held the time, where one did."""
    tags = {name: line[name] for name in TAGS if line.get(name)}
    if not committed.is_held(line):
        what = f"{line['gpu_model']}, {line['state']} GPU time"
        return _charge(content, "Usage", "Usage-Based", what, tags)
    job = {"ResourceId": line["job"], "ResourceName": line["name"], "ResourceType": "GPU job"}
    what = f"{line['gpu_model']}, job {line['job']}"
    return _charge(content, "Usage", "Usage-Based", what, tags) | job


def _correction(content: Shape, line: Shape) -> Charge:
    """What a closed month is judged to be now, in the month in which that was booked: hours at
    several rates, so without a price.
    """
    tags = {"cause": line["cause"]} | ({"state": line["state"]} if line["state"] else {})
    charge = _charge(
        content,
        "Usage",
        "Usage-Based",
        f"Correction of {line['corrects']}: {line['cause']}",
        tags,
        of=line["corrects"],
    )
    return charge | _cost(line["cost_usd"]) | _consumed(hours(line["gpu_ms"], NINE_PLACES))


def _undelivered(content: Shape, line: Shape) -> Charge:
    """What was paid for GPUs that were not there: what of the commitment is unused, and in no
    line of the ledger.
    """
    # of a day its own, exactly; of the month what its dollars come to
    price = Decimal(
        line.get("usd_per_gpu_hour") or Decimal(line["missing_usd"]) * HOUR_MS / line["missing_ms"]
    )
    charge = _charge(
        content,
        "Usage",
        "Recurring",
        f"Committed, not delivered: {line['name'] or line['gpu_model']}",
        {},
    )
    prices = _prices(
        line["gpu_model"], line["missing_ms"], price.quantize(TWELVE_PLACES), line["missing_usd"]
    )
    contract = _committed(line, prices["PricingQuantity"], UNUSED)
    # at one price: what rounding to its months leaves is no other one
    own = {name: prices[name] for name in (*CONTRACTED, *EFFECTIVE)}
    period: Charge = line.get("period", {})
    return charge | prices | contract | own | period


def _booked(content: Shape, line: Shape) -> Charge:
    """A difference between an invoice and the ledger that somebody booked: dollars alone."""
    what = f"Invoice of {line['invoice_of']}: {line['label']}"
    charge = _charge(
        content, "Adjustment", "One-Time", what, {"reason": line["reason"]}, of=line["invoice_of"]
    )
    return charge | _cost(line["cost_usd"])


def _account(content: Shape) -> Charge:
    ours = content["organisation"]
    account: Charge = {
        "BillingAccountId": "fleetwatch",
        "BillingAccountName": ours,
        "BillingAccountType": "Organisation",
        "BillingCurrency": "USD",
        "PricingCurrency": "USD",
        "ProviderName": ours,
        "PublisherName": ours,
        "InvoiceIssuerName": ours,
        "ServiceCategory": "Compute",
        "ServiceName": "GPU fleet",
        "ServiceSubcategory": "Virtual Machines",
    }
    team = content.get("team")
    if team is None or team["slug"] in WHY:
        return account
    return account | {
        "SubAccountId": team["slug"],
        "SubAccountName": team["name"],
        "SubAccountType": "Team",
    }


def _charge(
    content: Shape, category: str, frequency: str, what: str, tags: Shape, *, of: str = ""
) -> Charge:
    """`of` is the month that the charge is of, where that may be another: what corrects one that
    was billed before says so.
    """
    is_correction = bool(of) and of != content["month"]
    start, end = _month(of, content["zone"]) if is_correction else (content["from"], content["to"])
    # the month's, also of a statement to date: what comes later is of the same period
    billing_start, billing_end = _month(content["month"], content["zone"])
    return {
        "BillingPeriodStart": billing_start,
        "BillingPeriodEnd": billing_end,
        "ChargePeriodStart": start,
        "ChargePeriodEnd": end,
        "ChargeCategory": category,
        "ChargeClass": "Correction" if is_correction else None,
        "ChargeFrequency": frequency,
        "ChargeDescription": what,
        "Tags": json.dumps(tags, ensure_ascii=False) if tags else None,
    }


def _month(name: str, zone: str) -> tuple[str, str]:
    organisation_zone = ZoneInfo(zone)
    month = boundaries.month(months.start(name, organisation_zone), organisation_zone)
    return f"{month.start:{MOMENT}}", f"{month.end:{MOMENT}}"


def _cost(cost_usd: str) -> Charge:
    """The four costs of a charge without a price."""
    names = (
        "BilledCost",
        "EffectiveCost",
        "ListCost",
        "ContractedCost",
        "PricingCurrencyEffectiveCost",
    )
    return dict.fromkeys(names, Decimal(cost_usd))


def _prices(gpu_model: str, priced_ms: int, price: Decimal, cost_usd: str) -> Charge:
    quantity = hours(priced_ms, NINE_PLACES)
    product = pricing.EXACT.multiply(price, quantity)
    names = (
        "ListUnitPrice",
        "ContractedUnitPrice",
        "PricingCurrencyListUnitPrice",
        "PricingCurrencyContractedUnitPrice",
    )
    return {
        **_cost(cost_usd),
        **dict.fromkeys(names, price),
        "ListCost": product,
        "ContractedCost": product,
        "PricingCategory": "Standard",
        "PricingQuantity": quantity,
        "PricingUnit": UNIT,
        "SkuId": f"gpu-hour/{gpu_model}",
        "SkuMeter": "GPU time",
        "SkuPriceId": f"gpu-hour/{gpu_model}/{price:f}",
        "SkuPriceDetails": json.dumps({"GpuCount": 1, "x_GpuModel": gpu_model}, ensure_ascii=False),
    }


def _committed(commitment: Shape, quantity: Cell, status: str) -> Charge:
    """What a charge of so many hours says of the commitment that pays for it: its contract's price,
    and that what is unused was not consumed.
    """
    name = commitment["name"] or commitment["gpu_model"]
    price = committed.contract_price(commitment)
    cost = pricing.EXACT.multiply(price, Decimal(str(quantity)))
    effective = {} if commitment.get("is_invoiced") else dict.fromkeys(EFFECTIVE, cost)
    charge: Charge = {
        "CommitmentDiscountCategory": "Usage",
        # older versions have no id
        "CommitmentDiscountId": f"commitment/{commitment.get('id', name)}",
        "CommitmentDiscountName": name,
        "CommitmentDiscountQuantity": quantity,
        "CommitmentDiscountStatus": status,
        "CommitmentDiscountType": "Committed GPUs",
        "CommitmentDiscountUnit": UNIT,
        "PricingCategory": "Committed",
        **dict(zip(CONTRACTED, (price, price, cost), strict=True)),
        **effective,
    }
    return charge if status == USED else charge | dict.fromkeys(_consumed(None))


def _consumed(quantity: Cell) -> Charge:
    return {"ConsumedQuantity": quantity, "ConsumedUnit": UNIT}
