"""The hub's chart: what docker-compose.yml runs, as pods that may be many."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.helm import ChartError, render

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/fleetwatch"
GIVEN = {"host": "gpu.example.org", "image": "registry.example.org/fleetwatch:1.0.0"}
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]


def named(objects: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in objects if each["kind"] == kind}


@pytest.fixture(scope="module")
def objects() -> list[dict[str, Any]]:
    return render(CHART, GIVEN)


@pytest.fixture(scope="module")
def pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The parts' pods by the names that they have in docker-compose.yml."""
    return {
        name.removeprefix("fleetwatch-"): each["spec"]["template"]["spec"]
        for name, each in named(objects, "Deployment").items()
    }


def test_the_chart_runs_the_parts_of_the_compose_file_by_the_same_commands(pods):
    assert set(pods) == {"web", "worker", "beat"}
    # the image's own command
    assert "args" not in pods["web"]["containers"][0]
    assert "command" not in COMPOSE["web"]
    for part in ("worker", "beat"):
        in_compose = [
            word.replace("${FLEETWATCH_WORKERS:-2}", "2") for word in COMPOSE[part]["command"]
        ]
        assert pods[part]["containers"][0]["args"] == in_compose


def test_each_required_setting_comes_from_the_settings_or_from_the_secret(objects, pods):
    [settings] = named(objects, "ConfigMap").values()
    secrets = {"SECRET_KEY", "DATABASE_URL", "REDIS_URL", "FLEETWATCH_ADMIN_PASSWORD"}
    required = {
        name
        for name, value in COMPOSE["web"]["environment"].items()
        if not value.endswith(":-}") or name in secrets
    }

    # which the image sets itself
    assert required - secrets - set(settings["data"]) == {"FLEETWATCH_LOG_JSON"}
    assert settings["data"]["ALLOWED_HOSTS"].split(",") == [
        "gpu.example.org",
        "fleetwatch-web",
        "fleetwatch-web.fleetwatch.svc",
        "localhost",
    ]
    for pod in pods.values():
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            assert container["envFrom"] == [
                {"configMapRef": {"name": "fleetwatch"}},
                {"secretRef": {"name": "fleetwatch"}},
            ]


def test_workers_and_beat_wait_until_a_web_pod_has_prepared_the_database(pods):
    assert "initContainers" not in pods["web"]
    for part in ("worker", "beat"):
        [schema] = pods[part]["initContainers"]
        assert schema["command"] == ["python3", "manage.py", "migrate", "--check"]


def test_a_pod_has_no_right_that_it_does_not_use(pods):
    for pod in pods.values():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_web_and_workers_grow_with_the_load(objects):
    bounds = {
        each["spec"]["scaleTargetRef"]["name"]: (
            each["spec"]["minReplicas"],
            each["spec"]["maxReplicas"],
        )
        for each in named(objects, "HorizontalPodAutoscaler").values()
    }

    assert bounds == {"fleetwatch-web": (2, 6), "fleetwatch-worker": (2, 12)}
    # a number of its own would take back at each upgrade what the load asked for
    for name in bounds:
        assert "replicas" not in named(objects, "Deployment")[name]["spec"]


def test_selectors_find_the_pods_and_the_ingress_the_service(objects):
    labels = {
        name: each["spec"]["template"]["metadata"]["labels"]
        for name, each in named(objects, "Deployment").items()
    }
    for name, each in named(objects, "Deployment").items():
        assert each["spec"]["selector"]["matchLabels"].items() <= labels[name].items()
    [service] = named(objects, "Service").values()
    assert service["spec"]["selector"].items() <= labels["fleetwatch-web"].items()
    [ingress] = named(objects, "Ingress").values()
    [path] = ingress["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"] == {
        "name": service["metadata"]["name"],
        "port": {"name": service["spec"]["ports"][0]["name"]},
    }


def test_other_settings_stand_beside_the_charts_own():
    rendered = render(CHART, {**GIVEN, "settings": {"FLEETWATCH_RAW_RETENTION_DAYS": "35"}})

    [settings] = named(rendered, "ConfigMap").values()
    assert settings["data"]["FLEETWATCH_RAW_RETENTION_DAYS"] == "35"


@pytest.mark.parametrize("missing", ["host", "image"])
def test_a_chart_without_what_only_you_know_is_refused_with_the_name(missing: str):
    with pytest.raises(ChartError, match=f"^{missing}: "):
        render(CHART, {name: value for name, value in GIVEN.items() if name != missing})
