"""deploy/prometheus and /metrics, as Prometheus' own promtool judges them."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fleetwatch.api import collector
from tests.api.conftest import NOW
from tests.debian import UnavailableError, unpacked

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yml"
DASHBOARD = DEPLOY / "grafana" / "fleetwatch.json"
NAME = re.compile(r"\bfleetwatch_[a-z_]+")


@pytest.fixture(scope="module")
def promtool() -> str:
    """Debian's; the test says why where it can't be had."""
    there = shutil.which("promtool")
    if there:
        return there
    try:
        return str(unpacked("prometheus") / "usr" / "bin" / "promtool")
    except UnavailableError as error:
        pytest.skip(str(error))


def said(command: list[str], folder: Path, *, asked: str = "") -> str:
    """What it says of what is wrong; "" where nothing is."""
    done = subprocess.run(command, cwd=folder, input=asked, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def expressions() -> list[str]:
    """Every query of the dashboard, with something in the place of its variables."""
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    asked = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    return [re.sub(r"\$\w+", ".*", each) for each in asked]


def test_the_rules_are_rules(promtool, tmp_path):
    assert said([promtool, "check", "rules", str(RULES)], tmp_path) == ""


def test_each_rule_fires_over_its_threshold_and_not_at_it(promtool, tmp_path):
    for source in (RULES, Path(__file__).with_name("rules_test.yml")):
        shutil.copy(source, tmp_path)

    assert said([promtool, "test", "rules", "rules_test.yml"], tmp_path) == ""


def test_each_query_of_the_dashboard_is_promql(promtool, tmp_path):
    rules = [
        {"record": f"panel:{number}", "expr": each} for number, each in enumerate(expressions())
    ]
    # JSON is YAML
    text = json.dumps({"groups": [{"name": "dashboard", "rules": rules}]})
    (tmp_path / "dashboard.yml").write_text(text, "utf-8")

    assert len(rules) > 20
    assert said([promtool, "check", "rules", "dashboard.yml"], tmp_path) == ""


@pytest.mark.django_db
def test_metrics_are_written_as_prometheus_wants_them(promtool, tmp_path):
    text = collector.text(NOW).decode()

    assert said([promtool, "check", "metrics"], tmp_path, asked=text) == ""


@pytest.mark.django_db
def test_rules_and_dashboard_ask_for_metrics_that_there_are():
    there = set(re.findall(r"^# TYPE (\S+)", collector.text(NOW).decode(), re.MULTILINE))

    asked = set(NAME.findall(RULES.read_text("utf-8") + "\n".join(expressions())))

    assert asked - there == set()
    assert "fleetwatch_incidents" in asked
