"""Links from a job's page: templates of operators, filled with what jobs say of themselves."""

from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest

from fleetwatch.jobs.address_templates import (
    EXAMPLES,
    LONGEST,
    PLACEHOLDERS,
    check_template,
    filled,
)
from fleetwatch.jobs.job_links import MOST, Link, add_link, links_of
from fleetwatch.jobs.models import JobLink
from fleetwatch.lib.refusal import RefusedFieldError
from tests.dashboard import factories

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
START_MS = 1_763_632_800_000  # 2025-11-20 10:00 UTC


@pytest.mark.parametrize(
    "template",
    [
        "https://wandb.ai/us/{label.wandb_project}/runs/{label.wandb_run_id}",
        "http://loki:3000/explore?left=%7B%22from%22:{start_ms}%7D&to={end_ms}",
        "https://[fd00::1]:8443/#/{user}",
        "https://logs.example/" + "a" * (LONGEST - 21),
    ],
)
def test_an_address_with_placeholders_after_its_host_is_taken(template):
    check_template(template)

    labels = ("label.wandb_project", "label.wandb_run_id")
    values = dict.fromkeys((*PLACEHOLDERS, *labels), "x y")
    assert urlsplit(filled(template, values)).netloc == urlsplit(template).netloc


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("javascript:alert({job_id})", "http://"),
        ("data:text/html,{name}", "http://"),
        ("//logs.example/{job_id}", "http://"),
        ("ftp://logs.example/{job_id}", "http://"),
        ("https:///{job_id}", "http://"),
        ("https://[broken/{job_id}", "http://"),
        ("https://{name}.example/", "in the host"),
        ("https://logs.example:{job_id}/", "in the host"),
        ("https://ann:secret@logs.example/", "no password"),
        ("https://logs.example/{nodename}", "no placeholder {nodename}"),
        ("https://logs.example/{label.}", "no placeholder {label.}"),
        ("https://logs.example/{job_id", "%7B"),
        ("https://logs.example/{{job_id}}", "%7B"),
        ("https://logs.example/a b", "%20"),
        ("https://logs.example\\@evil.example/", "%20"),
        ("https://logs.exämple/", "%20"),
        ("https://logs.example/" + "a" * (LONGEST - 20), "At most 1000"),
    ],
)
def test_what_is_no_address_of_a_page_is_refused_with_the_reason(template, why):
    with pytest.raises(RefusedFieldError, match=why.replace("{", r"\{")) as refused:
        check_template(template)

    assert refused.value.field == "template"


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("train-7", "https://logs.example/train-7?q=train-7"),
        ("a/b?c=d&e#f", "https://logs.example/a%2Fb%3Fc%3Dd%26e%23f?q=a%2Fb%3Fc%3Dd%26e%23f"),
        ('"><script>', "https://logs.example/%22%3E%3Cscript%3E?q=%22%3E%3Cscript%3E"),
        ("ü\n", "https://logs.example/%C3%BC%0A?q=%C3%BC%0A"),
        ("{job_id}", "https://logs.example/%7Bjob_id%7D?q=%7Bjob_id%7D"),
        ("...", "https://logs.example/...?q=..."),
        ("..", None),  # browsers would climb up
        (".", None),
        ("", None),
    ],
)
def test_a_name_is_quoted_and_never_leads_elsewhere(name, address):
    values = {"name": name, "job_id": "7"}

    assert filled("https://logs.example/{name}?q={name}", values) == address


@pytest.mark.django_db
def test_a_job_has_the_links_of_which_all_is_known_by_title():
    add_link("W&B", "https://wandb.ai/us/runs/{label.wandb_run_id}")
    add_link("MLflow", "https://mlflow.example/{label.mlflow_run_id}")
    add_link("Logs", "https://loki.example/{cluster}/{node}/{job_id}?{start}&{end}&{end_ms}")
    job = factories.job(start_ms=START_MS, labels={"wandb_run_id": "k3j2"})

    running = links_of(job, node="node-001", now=NOW)
    job.end_ms = START_MS + 3_600_000
    over = links_of(job, node="node-001", now=NOW)
    job.start_ms = None

    day = "https://loki.example/della/node-001/4711?2025-11-20T10%3A00%3A00Z"
    run = Link("W&B", "https://wandb.ai/us/runs/k3j2")
    assert running == [Link("Logs", f"{day}&2026-11-20T12%3A00%3A00Z&1795176000000"), run]
    assert over == [Link("Logs", f"{day}&2025-11-20T11%3A00%3A00Z&1763636400000"), run]
    assert links_of(job, node="node-001", now=NOW) == links_of(job, node="", now=NOW) == [run]
    job.has_pseudonym = True
    assert links_of(job, node="node-001", now=NOW) == []


@pytest.mark.django_db
def test_a_title_has_one_link_and_there_are_so_many_at_most():
    for number in range(MOST):
        add_link(f"Logs {number}", "https://logs.example/{job_id}")

    add_link("Logs 0", "https://other.example/{job_id}")

    assert JobLink.objects.get(title="Logs 0").template == "https://other.example/{job_id}"
    for title in ("Logs 12", "x" * 41, "a\nb"):
        with pytest.raises(RefusedFieldError):
            add_link(title, "https://logs.example/{job_id}")
    assert JobLink.objects.count() == MOST


@pytest.mark.parametrize("title", EXAMPLES)
def test_a_ready_template_is_taken_once_its_host_is_ones_own(title):
    template = EXAMPLES[title]

    if "your-" in template:
        with pytest.raises(RefusedFieldError, match="Your own host, please, in place of your-"):
            check_template(template)
    check_template(template.replace("your-", "our."))
