"""Addresses by which a command line gets its token: RFC 8628, the device authorization grant."""

from django.urls import path

from fleetwatch.accounts.log_in import command_line_login

urlpatterns = [
    path("device", command_line_login.confirm, name="device"),
    path("device/code", command_line_login.begin, name="device_code"),
    path("device/token", command_line_login.token, name="device_token"),
    path("device/end", command_line_login.end, name="device_end"),
]
