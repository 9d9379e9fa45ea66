"""The page on which somebody changes the own password, for those who have one here."""

from allauth.account import views
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_post_parameters


@sensitive_post_parameters("oldpassword", "password1", "password2")
def change(request: HttpRequest) -> HttpResponse:
    """Who is let in by a provider or a directory alone has none to change, and is told so."""
    if request.user.is_authenticated and not request.user.has_usable_password():
        messages.info(request, "Your password is kept elsewhere: change it where you log in by it.")
        return redirect("/")
    response: HttpResponse = views.password_change(request)
    return response
