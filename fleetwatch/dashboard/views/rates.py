"""The rate book's own page: admins work out what owned GPUs cost."""

from collections.abc import Mapping
from datetime import datetime

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from fleetwatch.accounts.permissions import Right, needs
from fleetwatch.costs.models import Rate
from fleetwatch.costs.owned import Draw, measured_draw
from fleetwatch.costs.services import RateError, set_rate
from fleetwatch.costs.tco import Component, components, price
from fleetwatch.dashboard import numbers
from fleetwatch.dashboard.choices import LONGEST, chosen
from fleetwatch.dashboard.forms import owned_form
from fleetwatch.dashboard.forms.prices import read_since
from fleetwatch.dashboard.owned_beside import owned_beside
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.showing import Context, page
from fleetwatch.inventory.models import GPUModel
from fleetwatch.inventory.selectors import present_models

TEMPLATE = "dashboard/rates_calculator.html"
PARAMETERS = ("gpu_model", *owned_form.NAMES)


@require_http_methods(["GET", "POST"])
@needs(Right.MONEY)
@never_cache
@takes(*PARAMETERS)
def rates_calculator(request: HttpRequest) -> HttpResponse:
    """What an owned GPU-hour costs, part by part: a GET tries it, a POST books it as the model's
    rate.
    """
    period = read_period(request)
    is_sent = request.method == "POST"
    sent = request.POST if is_sent else request.GET
    name = sent.get("gpu_model", "")
    subject = _subject(request, name, period.now)
    model = subject["model"]
    parts, errors = _parts(sent, subject["draw"])
    if is_sent:
        errors |= _unknown(name, model)
    if is_sent and parts and model and not errors:
        errors = _book(request, model, parts, period)
        if not errors:
            return redirect("settings_pricing")
    shown = _beside(subject, parts, period.now) | _form(sent, errors)
    return page(request, period, TEMPLATE, "pricing", shown)


def _beside(subject: Context, parts: list[Component], now: datetime) -> Context:
    return subject | {"owned": owned_beside(subject["model"], parts, now)}


def _subject(request: HttpRequest, name: str, now: datetime) -> Context:
    """The fleet's models, the one that is meant (else the first), and what it was measured to
    draw.
    """
    models = {model.name: model for model in present_models()}
    model = models.get(name, next(iter(models.values()), None))
    chosen(request, "gpu_model", models)
    draw = measured_draw(model.name, now) if model else None
    return {"models": models.values(), "model": model, "draw": draw}


def _unknown(name: str, model: GPUModel | None) -> dict[str, str]:
    """What is wrong with the model's name, where one is given."""
    if not name or (model and model.name == name):
        return {}
    return {"gpu_model": f"There is no GPU model {name[:LONGEST]!r} in the fleet."}


def _form(sent: Mapping[str, str], errors: Mapping[str, str]) -> Context:
    """The form as it was sent, and what is wrong with it."""
    fields = [
        (field, sent.get(field.name, field.start), errors.get(field.name, ""))
        for field in owned_form.FIELDS
    ]
    return {
        "fields": fields,
        "sent": sent,
        "errors": errors,
    }


def _parts(sent: Mapping[str, str], draw: Draw | None) -> tuple[list[Component], dict[str, str]]:
    """The parts of the price, or what is wrong with the form; neither of an empty one."""
    if "server_usd" not in sent:
        return [], {}
    owned, errors = owned_form.read(sent, draw)
    return components(owned) if owned else [], errors


def _book(
    request: HttpRequest, model: GPUModel, parts: list[Component], period: Period
) -> dict[str, str]:
    """Sets the parts as the model's rate; what is wrong, where it can't be."""
    try:
        rate = Rate(
            gpu_model=model,
            node_class=request.POST.get("node_class", ""),
            price_per_gpu_hour=price(parts),
            valid_from=read_since(request.POST.get("since", ""), period.now),
            pricing_class="owned",
            source="total cost of ownership",
        )
        set_rate(rate, now=period.now, components=parts)
    except RateError as error:
        return {error.field: str(error)}
    messages.success(
        request,
        f"{model.name} costs {numbers.usd(price(parts))} per GPU-hour as owned; its parts"
        " are kept with the rate.",
    )
    return {}
