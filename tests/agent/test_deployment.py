"""What is applied to a Kubernetes cluster: the manifest and the chart say the same, and no more
than the agent needs.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent import config
from agent.actions import ending_pods
from agent.workloads.kubernetes import places
from tests.deploy.helm import ChartError, render

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm/fleetwatch-agent"
MANIFEST = [
    one
    for one in yaml.safe_load_all((DEPLOY / "kubernetes/agent.yaml").read_text())
    if one is not None
]
GIVEN = {
    "hub": "https://fleetwatch.example.org",
    "image": "registry.example.org/fleetwatch-agent:1.0.0",
}


def of_kind(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [one for one in objects if one["kind"] == kind]
    return found


@pytest.fixture(params=["manifest", "chart"])
def objects(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return MANIFEST if request.param == "manifest" else render(CHART, GIVEN)


@pytest.fixture
def pod(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return of_kind(objects, "DaemonSet")["spec"]["template"]["spec"]


@pytest.fixture
def container(pod: dict[str, Any]) -> dict[str, Any]:
    (one,) = pod["containers"]
    return one


def test_the_chart_with_the_manifests_values_is_the_manifest():
    rendered = render(CHART, GIVEN)

    assert {one["kind"] for one in rendered} == {
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "DaemonSet",
    }
    for one in MANIFEST:
        assert of_kind(rendered, one["kind"]) == one


def test_the_chart_gives_any_other_setting_to_the_agent():
    labels = {"name": "FLEETWATCH_LABELS", "value": "pool=a,rack=7"}

    (container,) = of_kind(render(CHART, {**GIVEN, "env": [labels]}), "DaemonSet")["spec"][
        "template"
    ]["spec"]["containers"]

    given = {
        each["name"]: each.get("value", "gpu-07")
        for each in container["env"]
        if each["name"] != config.TOKEN_FILE
    }
    assert dict(config.parse(container["args"], {**given, "FLEETWATCH_TOKEN": "t"}).labels) == {
        "pool": "a",
        "rack": "7",
    }


def test_the_agent_sees_the_hosts_processes_and_has_no_more_rights_than_it_uses(
    pod: dict[str, Any], container: dict[str, Any]
):
    rights = container["securityContext"]

    assert pod["hostPID"] is True
    assert not {"hostNetwork", "hostIPC"} & set(pod)
    assert rights["privileged"] is False
    assert rights["allowPrivilegeEscalation"] is False
    assert rights["readOnlyRootFilesystem"] is True
    assert rights["capabilities"] == {"drop": ["ALL"], "add": ["SYS_PTRACE"]}
    assert rights["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_host_is_mounted_read_only_but_for_the_agents_own_folder(
    pod: dict[str, Any], container: dict[str, Any]
):
    volumes = {one["name"]: one for one in pod["volumes"]}
    mounts = {one["name"]: one for one in container["volumeMounts"]}

    assert set(volumes) == set(mounts)
    assert [name for name, one in mounts.items() if not one.get("readOnly")] == ["state"]
    # paths as on the host, so that the agent needs no word about them
    for name, one in volumes.items():
        assert (
            one.get("hostPath", {}).get("path", mounts[name]["mountPath"])
            == mounts[name]["mountPath"]
        )
    assert volumes["token"]["secret"]["defaultMode"] == 0o400


@pytest.mark.parametrize(
    "path",
    [
        places.SOCKET,
        places.CHECKPOINT,
        places.LOGS,
        places.CGROUPS,
        "/sys/class/net",
        "/sys/devices/system",
    ],
)
def test_everything_that_the_agent_reads_of_the_host_is_mounted(
    container: dict[str, Any], path: str
):
    assert any((path + "/").startswith(one["mountPath"] + "/") for one in container["volumeMounts"])


def test_secrets_of_other_pods_are_out_of_reach(container: dict[str, Any]):
    mounted = [one["mountPath"] for one in container["volumeMounts"]]

    assert not {"/", "/var/lib", "/var/lib/kubelet", "/etc", "/root", "/var/run", "/run"} & set(
        mounted
    )


def test_the_account_may_get_pods_and_nodes_and_list_what_dra_publishes_and_nothing_else(
    objects: list[dict[str, Any]],
):
    rules = of_kind(objects, "ClusterRole")["rules"]

    assert rules == [
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["list"]},
    ]
    binding, account = (
        of_kind(objects, "ClusterRoleBinding"),
        of_kind(objects, "ServiceAccount")["metadata"],
    )
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    ]
    assert binding["roleRef"]["name"] == of_kind(objects, "ClusterRole")["metadata"]["name"]
    assert (
        of_kind(objects, "DaemonSet")["spec"]["template"]["spec"]["serviceAccountName"]
        == account["name"]
    )


def test_the_right_to_end_pods_is_apart_for_one_namespace_and_for_what_the_agent_asks():
    text = (DEPLOY / "kubernetes/agent-stop.yaml").read_text()
    role, binding = (one for one in yaml.safe_load_all(text) if one is not None)
    granted = {
        (name, verb) for one in role["rules"] for name in one["resources"] for verb in one["verbs"]
    }
    paths = {one.path.split("/")[-2]: one.is_scaled for one in ending_pods.OWNERS.values()}

    assert granted == {
        ("pods", "delete"),
        ("jobs", "patch"),
        *((name, "get") for name in paths),
        *((f"{name}/scale", "patch") for name, is_scaled in paths.items() if is_scaled),
    }
    assert (binding["kind"], binding["roleRef"]["name"]) == (
        "RoleBinding",
        role["metadata"]["name"],
    )
    assert binding["subjects"] == of_kind(MANIFEST, "ClusterRoleBinding")["subjects"]


def test_the_selector_finds_the_pods(objects: list[dict[str, Any]]):
    spec = of_kind(objects, "DaemonSet")["spec"]

    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


def test_the_agent_takes_little_and_takes_no_gpu(container: dict[str, Any]):
    resources = container["resources"]

    assert resources == {
        "requests": {"cpu": "10m", "memory": "40Mi"},
        "limits": {"cpu": "200m", "memory": "256Mi"},
    }


def test_the_agent_understands_its_arguments_and_variables(
    container: dict[str, Any], tmp_path: Path
):
    (tmp_path / "token").write_text("t" * 40)
    environment = {one["name"]: one.get("value", "gpu-07") for one in container["env"]}
    environment["FLEETWATCH_TOKEN_FILE"] = str(tmp_path / "token")

    chosen = config.parse(container["args"], environment)

    assert (chosen.command, chosen.node, chosen.cluster, chosen.server) == (
        "run",
        "gpu-07",
        "default",
        GIVEN["hub"],
    )
    assert str(chosen.spool) == "/var/lib/fleetwatch-agent"
    assert environment["NVIDIA_DRIVER_CAPABILITIES"] == "utility"


def test_it_runs_where_gpus_are_whatever_keeps_others_away(pod: dict[str, Any]):
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]

    assert "nvidia.com/gpu.present" in {term["matchExpressions"][0]["key"] for term in terms}
    assert pod["tolerations"] == [{"effect": "NoSchedule", "operator": "Exists"}]


def test_values_change_what_they_say():
    values = {
        **GIVEN,
        "tokenSecret": "agents",
        "cluster": 'del"la',
        "gpm": "off",
        "runtimeClassName": "nvidia",
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [],
        "imagePullSecrets": [{"name": "registry"}],
        "resources": {"limits": {"memory": "64Mi"}},
    }

    pod = of_kind(render(CHART, values), "DaemonSet")["spec"]["template"]["spec"]

    (container,) = pod["containers"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert (environment["FLEETWATCH_CLUSTER"], environment["FLEETWATCH_GPM"]) == ('del"la', "off")
    assert (pod["runtimeClassName"], pod["nodeSelector"], pod["imagePullSecrets"]) == (
        "nvidia",
        {"pool": "gpu"},
        [{"name": "registry"}],
    )
    assert container["resources"] == {"limits": {"memory": "64Mi"}}
    assert not {"affinity", "tolerations"} & set(pod)
    assert (
        next(one for one in pod["volumes"] if one["name"] == "token")["secret"]["secretName"]
        == "agents"
    )


@pytest.mark.parametrize("missing", ["hub", "image"])
def test_the_chart_asks_for_what_it_can_not_know(missing: str):
    with pytest.raises(ChartError, match=missing):
        render(CHART, {**GIVEN, missing: ""})


def test_every_value_is_used_and_every_used_value_is_there():
    templates = "".join(path.read_text() for path in (CHART / "templates").glob("*.yaml"))

    assert set(re.findall(r"\.Values\.(\w+)", templates)) == set(
        yaml.safe_load((CHART / "values.yaml").read_text())
    )


def test_the_chart_names_the_agents_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert (chart["apiVersion"], chart["name"], chart["version"]) == (
        "v2",
        CHART.name,
        chart["appVersion"],
    )
