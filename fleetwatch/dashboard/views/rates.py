"""The rate book's own page: admins work out what owned GPUs cost."""

from collections.abc import Mapping

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from fleetwatch.accounts.permissions import admin_required
from fleetwatch.costs.models import Rate
from fleetwatch.costs.owned import Draw, measured_draw
from fleetwatch.costs.services import RateError, Subject, set_rate
from fleetwatch.costs.tco import Component, components, price
from fleetwatch.dashboard import numbers, owned_form
from fleetwatch.dashboard.asked import RefusedError
from fleetwatch.dashboard.choices import LONGEST, chosen
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.prices import read_since
from fleetwatch.dashboard.showing import page
from fleetwatch.inventory.models import GPUModel


@require_http_methods(["GET", "POST"])
@admin_required
@never_cache
@takes("gpu_model", *(field.name for field in owned_form.FIELDS))
def rates_calculator(request: HttpRequest) -> HttpResponse:
    """What an owned GPU-hour costs, part by part: a GET tries it, a POST books it as the model's
    rate.
    """
    period = read_period(request)
    is_sent = request.method == "POST"
    sent = request.POST if is_sent else request.GET
    models = list(GPUModel.objects.filter(gpus__isnull=False).distinct().order_by("name"))
    by_name = {model.name: model for model in models}
    name = sent.get("gpu_model", "")
    model = by_name.get(name, models[0] if models else None)
    chosen(request, "gpu_model", by_name)
    draw = measured_draw(model.name, period.now) if model is not None else None
    parts, errors = _parts(sent, draw)
    if is_sent and name and name not in by_name:
        errors["gpu_model"] = f"There is no GPU model {name[:LONGEST]!r} in the fleet."
    if is_sent and parts and model and not errors:
        try:
            return _book(request, model, parts, period)
        except RateError as error:
            errors = {error.field: str(error)}
    context = {
        "models": models,
        "model": model,
        "draw": draw,
        "fields": [
            (field, sent.get(field.name, field.start), errors.get(field.name, ""))
            for field in owned_form.FIELDS
        ],
        "parts": parts,
        "price": price(parts),
        "sent": sent,
        "errors": errors,
    }
    return page(request, period, "dashboard/rates_calculator.html", "settings", context)


def _parts(sent: Mapping[str, str], draw: Draw | None) -> tuple[list[Component], dict[str, str]]:
    """The parts of the price, or what is wrong with the form; neither of an empty one."""
    if "server_usd" not in sent:
        return [], {}
    try:
        return components(owned_form.read(sent, draw)), {}
    except RefusedError as error:
        return [], error.errors


def _book(
    request: HttpRequest, model: GPUModel, parts: list[Component], period: Period
) -> HttpResponse:
    """Sets the parts as the model's rate. Raises RateError."""
    subject = Subject(gpu_model=model, node_class=request.POST.get("node_class", ""))
    rate = Rate(
        **subject.fields,
        price_per_gpu_hour=price(parts),
        valid_from=read_since(request.POST.get("since", ""), period.now),
        pricing_class="owned",
        source="total cost of ownership",
    )
    set_rate(rate, now=period.now, components=parts)
    messages.success(
        request,
        f"{model.name} costs {numbers.usd(price(parts))} per GPU-hour as owned; its parts"
        " are kept with the rate.",
    )
    return redirect(f"{reverse('settings')}#rates")
