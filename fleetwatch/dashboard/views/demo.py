"""The demo on an empty hub: loaded and removed by a button each."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_POST

from fleetwatch.accounts.permissions import Right, needs
from fleetwatch.demo import loading
from fleetwatch.demo.loading import DemoError


@require_POST
@needs(Right.FLEET)
def load_demo(request: HttpRequest) -> HttpResponse:
    try:
        loading.load(timezone.now())
        messages.success(request, "The demo is on its way: the newest hours come first.")
    except DemoError as error:
        messages.error(request, str(error))
    return redirect("welcome")


@require_POST
@needs(Right.FLEET)
def remove_demo(request: HttpRequest) -> HttpResponse:
    try:
        loading.remove()
        messages.success(request, "The demo is gone, and the hub is empty again.")
    except DemoError as error:
        messages.error(request, str(error))
    return redirect("welcome")
