"""Addresses of pages."""

from django.urls import path
from django.views.generic import RedirectView

from fleetwatch.dashboard.views import (
    charts,
    explain,
    invoices,
    jobs,
    machines,
    misc,
    overview,
    rates,
    reports,
    settings,
    status,
    waste,
    welcome,
)

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("now", overview.overview_now, name="overview_now"),
    path("fleet", machines.fleet, name="fleet"),
    path("nodes/<str:name>", machines.node, name="node"),
    path("gpus/<path:uuid>", machines.gpu, name="gpu"),
    path("jobs", jobs.jobs, name="jobs"),
    path("jobs/<path:key>", jobs.job, name="job"),
    path("waste", waste.waste, name="waste"),
    path("waste.csv", waste.waste_csv, name="waste_csv"),
    path("reports", reports.reports, name="reports"),
    path("reports/months", reports.months, name="report_months"),
    path("reports/compute", reports.compute, name="report_compute"),
    path("reports/<int:pk>", reports.report, name="report"),
    path("reports/<int:pk>/print", reports.report_print, name="report_print"),
    path("reports/<int:pk>/<slug:name>", reports.report_file, name="report_file"),
    path("reports/<slug:month>/invoice", invoices.invoice, name="invoice"),
    path("reports/<slug:month>/invoice/<slug:action>", invoices.change, name="invoice_change"),
    path("reports/waste", RedirectView.as_view(pattern_name="waste", query_string=True)),
    path("explain", explain.explained, name="explain"),
    path("status", status.status, name="status"),
    path("search", misc.search, name="search"),
    path("docs/states", misc.definitions, name="definitions"),
    path("theme", misc.theme, name="theme"),
    path("charts/<slug:name>", charts.chart, name="chart"),
    path("welcome", welcome.welcome, name="welcome"),
    path("welcome/waiting", welcome.waiting, name="welcome_waiting"),
    path("settings/rates/import", rates.rates_import, name="rates_import"),
    path("settings/rates/calculator", rates.rates_calculator, name="rates_calculator"),
    path("settings", settings.settings, name="settings"),
    path("settings/<slug:action>", settings.change, name="settings_change"),
]
