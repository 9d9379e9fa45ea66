"""The rate book's own page: admins work out what owned GPUs cost."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from fleetwatch.accounts.permissions import admin_required
from fleetwatch.costs.owned import measured_draw
from fleetwatch.costs.services import RateError, Subject, set_rate
from fleetwatch.costs.tco import Component, components, price
from fleetwatch.dashboard import numbers, owned_form
from fleetwatch.dashboard.choices import LONGEST, chosen
from fleetwatch.dashboard.parameters import takes
from fleetwatch.dashboard.period import Period, read_period
from fleetwatch.dashboard.prices import read_since
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
    sent = request.POST if request.method == "POST" else request.GET
    models = list(GPUModel.objects.filter(gpus__isnull=False).distinct().order_by("name"))
    by_name = {each.name: each for each in models}
    asked = sent.get("gpu_model", "")
    model = by_name.get(asked, models[0] if models else None)
    chosen(request, "gpu_model", by_name)
    draw = measured_draw(model.name, period.now) if model is not None else None
    given, errors = owned_form.read(sent, draw) if "server_usd" in sent else (None, {})
    if request.method == "POST" and asked and asked not in by_name:
        errors["gpu_model"] = f"There is no GPU model {asked[:LONGEST]!r} in the fleet."
    parts = components(given) if given is not None else []
    if request.method == "POST" and parts and model is not None and not errors:
        errors = _book(request, model, parts, period)
        if not errors:
            messages.success(
                request,
                f"{model.name} costs {numbers.usd(price(parts))} per GPU-hour as owned; its parts"
                " are kept with the rate.",
            )
            return redirect(f"{reverse('settings')}#rates")
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
    status = 422 if errors else 200
    return render(
        request,
        "dashboard/rates_calculator.html",
        period.context("settings", **context),
        status=status,
    )


def _book(
    request: HttpRequest, model: GPUModel, parts: list[Component], period: Period
) -> dict[str, str]:
    """What is wrong per field; nothing where the rate was set."""
    try:
        valid_from = read_since(request.POST.get("since", ""), period.now)
        subject = Subject(gpu_model=model, node_class=request.POST.get("node_class", ""))
        set_rate(
            subject,
            price(parts),
            valid_from=valid_from,
            now=period.now,
            pricing_class="owned",
            source="total cost of ownership",
            components=parts,
        )
    except RateError as error:
        return {error.field: str(error)}
    return {}
