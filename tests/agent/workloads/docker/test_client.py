import json
import os
import socketserver
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from agent.readings import GPUInfo, SchedulerError
from agent.workloads.docker.client import Docker
from agent.workloads.docker.devices import gpus_named, names
from agent.workloads.docker.places import sockets

NOW = 1_794_000_100_000
HEX = "e2173b9478a6ae55e237d4d74f8bbb753f0817192b5081334dc78476296b7dfb"
OTHER = "0" * 63 + "1"
GPU = ["GPU-%d0000000-aaaa-bbbb-cccc-dddddddddddd" % number for number in range(4)]
MIG = "MIG-90000000-aaaa-bbbb-cccc-dddddddddddd"
GPUS = [GPUInfo(uuid, index=number, minor=3 - number) for number, uuid in enumerate(GPU)] + [
    GPUInfo(MIG, parent_uuid=GPU[3])
]


def answer(
    *, env: tuple[str, ...] = (), labels: dict[str, str] | None = None, **host: Any
) -> dict[str, Any]:
    """What /containers/{id}/json says of a container."""
    return {
        "Id": HEX,
        "Name": "/llama-train",
        "RestartCount": 2,
        "State": {"Running": True, "Pid": 1234, "StartedAt": "2026-11-06T05:48:53.266176036Z"},
        "HostConfig": host,
        "Config": {
            "User": "",
            "Env": ["AWS_SECRET_ACCESS_KEY=hunter2", *env],
            "Cmd": ["--token=hunter2"],
            "Labels": labels,
        },
    }


def request(
    *ids: str, driver: str = "", count: int = 0, capabilities: Any = (["gpu"],)
) -> dict[str, Any]:
    return {
        "DeviceRequests": [
            {
                "Driver": driver,
                "Count": count,
                "DeviceIDs": list(ids) or None,
                "Capabilities": list(capabilities),
            }
        ]
    }


class Engine:
    """Docker's API on a unix socket: a real HTTP server."""

    def __init__(self) -> None:
        self.containers: dict[str, Any] = {}
        self.labels: dict[str, Any] = {}  # by id, as the list shows them
        self.answers: dict[str, bytes] = {}  # by path, instead of all this
        self.asked: list[str] = []

    def body(self, path: str) -> bytes | None:
        self.asked.append(path)
        if path in self.answers:
            return self.answers[path]
        if path == "/containers/json":
            return json.dumps(
                [
                    {"Id": name, "State": "running", "Labels": self.labels.get(name)}
                    for name in self.containers
                ]
            ).encode()
        found = self.containers.get(path.split("/")[2])
        return None if found is None else json.dumps(found).encode()


@contextmanager
def engine(path: Path) -> Iterator[Engine]:
    state = Engine()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = state.body(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def address_string(self) -> str:
            return "unix"

        def log_message(self, format: str, *args: Any) -> None:
            pass

    path.parent.mkdir(parents=True, exist_ok=True)
    with socketserver.UnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        server.shutdown()
        thread.join()


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder with a short name: a socket's address has at most 107 bytes, and pytest's own
    folders are named after the test.
    """
    with tempfile.TemporaryDirectory(prefix="fw", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[Engine]:
    with engine(tmp_path / "var/run/docker.sock") as running:
        yield running


@pytest.fixture
def books(tmp_path: Path) -> Callable[..., Docker]:
    def open_books(**options: Any) -> Docker:
        return Docker(
            node="gpu-07",
            find=lambda: sockets(str(tmp_path)),
            cgroups=str(tmp_path / "cgroup"),
            **options,
        )

    return open_books


# Which GPUs a container was given


@pytest.mark.parametrize(
    ("given", "uuids"),
    [
        (answer(**request("1")), [GPU[1]]),  # an index is NVML's, not the minor number
        (answer(**request("0", "2")), [GPU[0], GPU[2]]),
        (answer(**request(GPU[2])), [GPU[2]]),
        (answer(**request("GPU-20000000")), [GPU[2]]),  # the toolkit takes beginnings
        (answer(**request(MIG)), [MIG]),
        (answer(**request("1", driver="nvidia", capabilities=())), [GPU[1]]),
        (answer(**request(count=2)), [GPU[0], GPU[1]]),
        (answer(**request("nvidia.com/gpu=3", driver="cdi", capabilities=())), [GPU[3]]),
        (answer(**request("nvidia.com/gpu=gpu1", "amd.com/gpu=0", driver="cdi")), [GPU[1]]),
        (answer(**request(f"nvidia.com/gpu={MIG}", driver="cdi")), [MIG]),
        # the minor number
        (
            answer(Devices=[{"PathOnHost": "/dev/nvidia0"}, {"PathOnHost": "/dev/nvidiactl"}]),
            [GPU[3]],
        ),
        (answer(Devices=[{"PathOnHost": "nvidia.com/gpu=1"}]), [GPU[1]]),
        (answer(env=("NVIDIA_VISIBLE_DEVICES=0,3",), Runtime="nvidia"), [GPU[0], GPU[3]]),
        (
            answer(
                env=("NVIDIA_VISIBLE_DEVICES=all", f"NVIDIA_VISIBLE_DEVICES={GPU[1]}"),
                Runtime="nvidia",
            ),
            [GPU[1]],
        ),
        # the request wins
        (answer(env=("NVIDIA_VISIBLE_DEVICES=3",), Runtime="nvidia", **request("1")), [GPU[1]]),
        (answer(**request("1", "1")), [GPU[1]]),
    ],
)
def test_gpus_that_were_named_are_held(given: dict[str, Any], uuids: list[str]):
    assert gpus_named(names(given), GPUS, all_counts=False) == uuids


@pytest.mark.parametrize(
    "given",
    [
        answer(),
        answer(env=("NVIDIA_VISIBLE_DEVICES=0",), Runtime="runc"),  # nobody reads the variable
        answer(env=("NVIDIA_VISIBLE_DEVICES=void",), Runtime="nvidia"),
        answer(env=("NVIDIA_VISIBLE_DEVICES=none",), Runtime="nvidia"),
        answer(env=("NVIDIA_VISIBLE_DEVICES=",), Runtime="nvidia"),
        answer(env=("NVIDIA_VISIBLE_DEVICES_X=0", "XNVIDIA_VISIBLE_DEVICES=0"), Runtime="nvidia"),
        answer(**request(count=0)),
        answer(**request("0", capabilities=(["tpu"],))),
        answer(**request("0", driver="amd")),
        answer(**request("amd.com/gpu=0", driver="cdi")),
        answer(**request("9")),
        answer(**request("GPU-")),
        answer(**request("GPU-9")),
        answer(**request("0:1")),  # a MIG instance by its number, which the agent does not know
        answer(Devices=[{"PathOnHost": "/dev/fuse"}]),
        answer(DeviceRequests="x", Devices=[7], Runtime=None),
        answer(DeviceRequests=[{"DeviceIDs": "0", "Count": "all", "Capabilities": [7, ["gpu"]]}]),
        {"HostConfig": None, "Config": None},
    ],
)
def test_what_names_no_gpu_of_this_host_holds_none(given: dict[str, Any]):
    assert gpus_named(names(given), GPUS, all_counts=True) == []


@pytest.mark.parametrize(
    "given",
    [
        answer(**request(count=-1)),
        answer(**request("all")),
        answer(**request("nvidia.com/gpu=all", driver="cdi")),
        answer(env=("NVIDIA_VISIBLE_DEVICES=all",), Runtime="nvidia"),
    ],
)
def test_all_is_what_a_container_may_see_and_an_allocation_only_by_the_operators_word(
    given: dict[str, Any],
):
    assert gpus_named(names(given), GPUS, all_counts=False) == []
    assert gpus_named(names(given), GPUS, all_counts=True) == GPU


# The books


def test_a_container_with_a_gpu_of_its_own_holds_it_while_nothing_runs_on_it(
    docker: Engine, books: Callable[..., Docker]
):
    labels = {
        "fleetwatch.user": "ann",
        "fleetwatch.account": "nlp",
        "fleetwatch.kind": "service",
        "db.password": "hunter2",
    }
    docker.containers = {HEX: answer(labels=labels, **request("1"))}

    holdings = books().poll(GPUS, NOW)

    (job,) = holdings.jobs
    assert (job.key, job.scheduler, job.cluster, job.id) == (
        "docker/gpu-07/e2173b9478a6",
        "docker",
        "gpu-07",
        "e2173b9478a6",
    )
    assert (job.name, job.user, job.account, job.kind, job.restarts) == (
        "llama-train",
        "ann",
        "nlp",
        "service",
        2,
    )
    assert job.labels == {
        "fleetwatch.user": "ann",
        "fleetwatch.account": "nlp",
        "fleetwatch.kind": "service",
    }
    (held,) = holdings.allocations
    assert (held.uuid, held.job_key, held.source, held.start_ms, held.share) == (
        GPU[1],
        job.key,
        "docker",
        1_793_944_133_266,
        None,
    )
    assert holdings.aliases == {HEX: job.key}
    assert "hunter2" not in repr(holdings)


@pytest.mark.parametrize(
    ("labels", "owner"),
    [
        ({"fleetwatch.user": "ann", "fleetwatch.team": "vision"}, ("ann", "vision")),
        ({"fleetwatch.team": "vision"}, ("", "vision")),
        ({"fleetwatch.team": "vision", "fleetwatch.account": "nlp"}, ("", "nlp")),
        ({"fleetwatch.user": "", "fleetwatch.team": None, "team": "nobody's"}, ("", "")),
        ({"fleetwatch.team": "v" * 129}, ("", "v" * 128)),
    ],
)
def test_a_container_belongs_to_the_user_and_team_of_its_labels(
    docker: Engine, books: Callable[..., Docker], labels, owner
):
    docker.containers = {HEX: answer(labels=labels, **request("1"))}

    (job,) = books().poll(GPUS, NOW).jobs

    assert (job.user, job.account) == owner


def test_a_container_that_was_given_no_gpu_is_known_for_when_it_uses_one(
    docker: Engine, books: Callable[..., Docker]
):
    docker.containers = {HEX: answer(**request(count=-1)), OTHER: answer()}

    holdings = books().poll(GPUS, NOW)

    assert [job.id for job in holdings.jobs] == ["e2173b9478a6", "000000000000"]
    assert holdings.allocations == []


def test_by_the_operators_word_all_is_all(docker: Engine, books: Callable[..., Docker]):
    docker.containers = {HEX: answer(**request(count=-1))}

    assert [one.uuid for one in books(all_counts=True).poll(GPUS, NOW).allocations] == GPU


def test_containers_of_pods_are_left_to_kubernetes(docker: Engine, books: Callable[..., Docker]):
    docker.containers = {HEX: answer(**request("0"))}
    docker.labels = {HEX: {"io.kubernetes.pod.uid": "0b7c"}}

    assert books().poll(GPUS, NOW).jobs == []
    assert docker.asked == ["/containers/json"]


@pytest.mark.parametrize("kind", ["batch", "interactive", "service"])
def test_a_label_tells_the_kind(docker: Engine, books: Callable[..., Docker], kind: str):
    docker.containers = {
        HEX: answer(labels={"fleetwatch.kind": kind}),
        OTHER: answer(labels={"fleetwatch.kind": "party"}),
    }

    assert [job.kind for job in books().poll(GPUS, NOW).jobs] == [kind, "batch"]


@pytest.mark.parametrize(
    ("text", "started_ms"),
    [
        ("2026-11-06T05:48:53Z", 1_793_944_133_000),
        ("2026-11-06T05:48:53.2Z", 1_793_944_133_200),
        ("2026-11-06T06:48:53.266176036+01:00", 1_793_944_133_266),  # Podman's
        ("2026-11-06T00:18:53.5-05:30", 1_793_944_133_500),
        ("0001-01-01T00:00:00Z", None),
        ("2026-13-06T05:48:53Z", None),
        ("soon", None),
        (None, None),
    ],
)
def test_the_start_is_read_in_every_zone(
    docker: Engine, books: Callable[..., Docker], text: Any, started_ms: int | None
):
    docker.containers = {HEX: {**answer(), "State": {"StartedAt": text}}}

    assert [job.start_ms for job in books().poll(GPUS, NOW).jobs] == [started_ms]


def test_an_answer_with_nulls_is_a_container_too(docker: Engine, books: Callable[..., Docker]):
    docker.containers = {
        HEX: {
            "Id": HEX,
            "Name": None,
            "Config": None,
            "HostConfig": None,
            "State": 7,
            "RestartCount": "x",
        }
    }

    (job,) = books().poll(GPUS, NOW).jobs

    assert (job.name, job.user, job.restarts, job.start_ms) == ("e2173b9478a6", "", 0, None)


def test_a_container_is_asked_for_once_in_ten_minutes_and_again_when_it_comes_back(
    docker: Engine, books: Callable[..., Docker]
):
    docker.containers = {HEX: answer()}
    scheduler = books()

    for at in (0, 15_000, 599_999, 600_000):
        scheduler.poll(GPUS, NOW + at)
    known, docker.containers = docker.containers, {}
    gone = scheduler.poll(GPUS, NOW + 615_000)
    docker.containers = known
    back = scheduler.poll(GPUS, NOW + 630_000)

    assert gone.jobs == []
    assert len(back.jobs) == 1
    assert docker.asked.count(f"/containers/{HEX}/json") == 3


def test_a_container_that_ends_between_list_and_look_is_named_by_its_id(
    docker: Engine, books: Callable[..., Docker]
):
    docker.answers["/containers/json"] = json.dumps(
        [{"Id": HEX}, {"Id": "../../secrets"}, {"Id": None}, 7]
    ).encode()

    assert [job.name for job in books().poll(GPUS, NOW).jobs] == ["e2173b9478a6"]
    assert docker.asked == ["/containers/json", f"/containers/{HEX}/json"]


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[", b"[" * 100_000, b"\xff", b" " * (4 << 20) + b"[]"]
)
def test_an_engine_that_talks_nonsense_is_silent(
    docker: Engine, books: Callable[..., Docker], body: bytes
):
    docker.answers["/containers/json"] = body

    with pytest.raises(SchedulerError, match=r"docker\.sock"):
        books().poll(GPUS, NOW)


def test_an_engine_that_does_not_answer_is_silent(tmp_path: Path, books: Callable[..., Docker]):
    (tmp_path / "var/run").mkdir(parents=True)
    (tmp_path / "var/run/docker.sock").touch()

    with pytest.raises(SchedulerError, match=r"docker\.sock: Connection refused"):
        books().poll(GPUS, NOW)


# Podman, and engines of users


def test_the_sockets_of_all_engines_are_found(tmp_path: Path):
    for path in (
        "run/podman/podman.sock",
        "run/user/1000/podman/podman.sock",
        "run/user/1001/docker.sock",
        "run/user/1002/bus",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()

    assert [(one.kind, os.path.relpath(one.path, tmp_path)) for one in sockets(str(tmp_path))] == [
        ("docker", "run/user/1001/docker.sock"),
        ("podman", "run/podman/podman.sock"),
        ("podman", "run/user/1000/podman/podman.sock"),
    ]


def test_podman_is_asked_only_when_its_containers_are_others_than_before(
    tmp_path: Path, books: Callable[..., Docker]
):
    group = (
        tmp_path
        / f"cgroup/user.slice/user-987654321.slice/user@987654321.service/user.slice/libpod-{HEX}.scope"
    )
    scheduler = books()
    with engine(tmp_path / "run/user/987654321/podman/podman.sock") as podman:
        podman.containers = {HEX: answer(**request("nvidia.com/gpu=1", driver="cdi"))}

        before = scheduler.poll(GPUS, NOW)
        group.mkdir(parents=True)
        holdings = [scheduler.poll(GPUS, NOW + at) for at in (15_000, 30_000)]
        podman.containers = {}
        group.rmdir()
        after = scheduler.poll(GPUS, NOW + 45_000)

    assert (before.jobs, after.jobs) == ([], [])
    assert [[(job.key, job.scheduler, job.user) for job in one.jobs] for one in holdings] == [
        [("podman/gpu-07/e2173b9478a6", "podman", "987654321")]
    ] * 2
    assert [(one.uuid, one.source) for one in holdings[1].allocations] == [(GPU[1], "docker")]
    assert list(holdings[1].aliases) == [f"{HEX}@987654321"]
    assert podman.asked == ["/containers/json", f"/containers/{HEX}/json", "/containers/json"]


def test_a_users_dead_socket_silences_nobody_else(
    docker: Engine, tmp_path: Path, books: Callable[..., Docker], caplog: Any
):
    docker.containers = {HEX: answer()}
    (tmp_path / "run/user/1000").mkdir(parents=True)
    (tmp_path / "run/user/1000/docker.sock").touch()
    scheduler = books()

    jobs = [scheduler.poll(GPUS, NOW + at).jobs for at in (0, 15_000)]

    assert [len(one) for one in jobs] == [1, 1]
    assert caplog.text.count("run/user/1000/docker.sock: Connection refused") == 1


# What real engines said


@pytest.mark.skipif("FLEETWATCH_EXTERNAL_DATA" not in os.environ, reason="recordings are not here")
def test_recorded_answers_are_read(docker: Engine, books: Callable[..., Docker]):
    folder = Path(os.environ["FLEETWATCH_EXTERNAL_DATA"]) / "docker"
    listed = json.loads((folder / "list.json").read_text())
    docker.answers = {
        f"/containers/{one['Id']}/json": (folder / f"inspect_{one['Id']}.json").read_bytes()
        for one in listed
    }
    docker.answers["/containers/json"] = (folder / "list.json").read_bytes()

    holdings = books(all_counts=True).poll(GPUS, NOW)

    assert [job.id for job in holdings.jobs] == [one["Id"][:12] for one in listed]
    # 2018-06-14T05:48:53.266176036Z
    assert {job.start_ms for job in holdings.jobs} == {1_528_955_333_266}
    assert holdings.allocations == []
    assert {label for job in holdings.jobs for label in job.labels} == set()
