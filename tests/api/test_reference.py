"""The API's page: every operation in a group, with a call to copy and the shape of its answer."""

import pytest
from django.test import Client

from fleetwatch.accounts.models import Organisation, OthersShown
from fleetwatch.api import reference
from fleetwatch.api.v1 import api
from tests.dashboard import factories

DESCRIBED = api.get_openapi_schema(path_prefix="/api/v1/")
GROUPS = reference.groups(DESCRIBED)
OPERATIONS = {each.id: each for group in GROUPS for each in group.operations}


def test_every_operation_is_in_one_group_and_no_group_is_empty():
    described = [
        each["operationId"] for methods in DESCRIBED["paths"].values() for each in methods.values()
    ]

    assert sorted(OPERATIONS) == sorted(described)
    assert sum(len(group.operations) for group in GROUPS) == len(described)
    assert all(group.operations for group in GROUPS)


def test_a_call_that_reads_can_be_copied_and_asked_in_a_browser():
    jobs = OPERATIONS["listJobs"]

    assert jobs.call == (
        'curl -s "$FLEETWATCH_URL/api/v1/jobs?from=now-7d&limit=10" \\\n'
        '  -H "Authorization: Bearer $FLEETWATCH_TOKEN"'
    )
    assert jobs.address == "/api/v1/jobs?from=now-7d&limit=10"


def test_what_only_the_reader_knows_is_a_variable_of_the_shell():
    explained = OPERATIONS["explainGpu"]

    assert "/api/v1/explain?from=now-7d&gpu=$GPU" in explained.call
    assert "/api/v1/jobs/$KEY?" in OPERATIONS["getJob"].call
    assert explained.address == ""


def test_with_values_of_the_fleet_what_reads_can_be_asked_as_it_is():
    values = {"key": "slurm/della/4 2", "finding": "7", "gpu": "GPU-1"}

    assert "/jobs/slurm/della/4%202?" in OPERATIONS["getJob"].with_values(values).call
    assert OPERATIONS["getFinding"].with_values(values).address.startswith("/api/v1/findings/7")
    assert OPERATIONS["explainGpu"].with_values(values).address.endswith("gpu=GPU-1")
    # what is not there stays a variable, and so does what would be changed
    assert "/incidents/$NUMBER" in OPERATIONS["getIncident"].with_values(values).call
    decided = OPERATIONS["decideFinding"]
    assert decided.with_values(values) == decided


def test_a_call_that_writes_names_its_method_and_sends_a_body():
    rule = OPERATIONS["setRule"]

    assert rule.call == (
        'curl -s -X PUT "$FLEETWATCH_URL/api/v1/rules/$NUMBER" \\\n'
        '  -H "Authorization: Bearer $FLEETWATCH_TOKEN" \\\n'
        '  -H "Content-Type: application/json" -d @body.json'
    )
    assert '"threshold": number,' in rule.body
    assert (rule.is_write, rule.address) == (True, "")


@pytest.mark.parametrize(
    ("operation_id", "fields"),
    [
        ("decideFinding", ["note", "until", "assignee"]),
        ("actOnIncident", ["reason", "until", "assignee"]),
        (
            "addSilence",
            ["kind", "matchers", "starts_at", "ends_at", "schedule", "reason", "approved_by"],
        ),
    ],
)
def test_each_body_is_described_as_its_own(operation_id, fields):
    """Two schemas of one name would be one in the description: the last."""
    [body] = [
        each["requestBody"]["content"]["application/json"]["schema"]
        for methods in DESCRIBED["paths"].values()
        for each in methods.values()
        if each["operationId"] == operation_id
    ]
    name = body.get("$ref", body.get("anyOf", [{}])[0].get("$ref")).rsplit("/", 1)[-1]

    assert list(DESCRIBED["components"]["schemas"][name]["properties"]) == fields


def test_parameters_that_most_take_are_told_once():
    jobs, findings = OPERATIONS["listJobs"], OPERATIONS["listFindings"]
    common = reference.common_parameters(DESCRIBED)

    assert [each.name for each in jobs.parameters] == ["cause"]
    assert list(jobs.common) == ["Period", "Filters", "Paging"]
    # its state is one of other words, so it is told here too
    assert [each.name for each in findings.parameters] == [
        "state", "job", "cause", "status", "assignee", "job_name",
    ]  # fmt: skip
    assert [each.name for each in common["Paging"]] == ["limit", "cursor"]
    assert (common["Paging"][0].kind, common["Paging"][0].default) == ("integer, 1 to 1,000", "100")


def test_every_parameter_says_what_it_means_or_what_it_can_be():
    numbers_of_a_rule = {"threshold", "minutes", "clear", "min_coverage"}
    numbers_of_a_rule |= {"grace_minutes", "clear_minutes"}
    silent = {
        each.name
        for operation in OPERATIONS.values()
        for each in operation.parameters
        if not each.meaning and "|" not in each.kind
    }

    assert silent - numbers_of_a_rule == {"key"}


def test_a_shape_is_short_where_it_can_be_and_ends_at_its_depth():
    described = {
        "components": {
            "schemas": {
                "Step": {"properties": {"text": {"type": "string"}, "next": {"$ref": "#/x/Step"}}}
            }
        }
    }

    shape = reference.shape({"type": "array", "items": {"$ref": "#/x/Step"}}, described, depth=2)

    assert shape == '[{"text": text, "next": {"text": text, "next": {…}}}]'


def test_what_may_be_missing_says_so():
    schema = {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}

    assert reference.shape(schema, {}) == "time | null"
    assert reference.in_words({"enum": ["", "low"]}) == '"" | low'


@pytest.mark.django_db
def test_the_page_lists_every_operation_without_a_script(user, settings):
    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    }
    reader = Client()
    reader.force_login(user)

    page = reader.get("/api/v1/docs").content.decode()

    assert [each for each in OPERATIONS if f'id="{each}"' not in page] == []


@pytest.mark.django_db
def test_the_page_has_values_that_its_reader_sees(client, settings):
    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    }
    gpu = factories.gpu(factories.node())
    factories.job("slurm/della/9182", start_ms=1)
    client.force_login(factories.user(role="engineer"))

    page = client.get("/api/v1/docs").content.decode()
    Organisation.objects.update_or_create(pk=1, defaults={"others_shown": OthersShown.OWN_TEAMS})
    narrowed = client.get("/api/v1/docs").content.decode()

    assert "/api/v1/jobs/slurm/della/9182?" in page
    assert f"gpu={gpu.uuid}" in page
    assert "node=node-001" in page
    assert "slurm/della/9182" not in narrowed
    assert "$GPU" in narrowed


@pytest.mark.django_db
def test_the_page_names_the_address_that_the_hub_is_reached_by(user, settings):
    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    }
    settings.PUBLIC_URL = "https://hub.example"
    reader = Client()
    reader.force_login(user)

    assert "https://hub.example" in reader.get("/api/v1/docs").content.decode()
