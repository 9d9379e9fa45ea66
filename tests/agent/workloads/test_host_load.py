import os

import pytest

from agent.workloads.host_load import THREADS_S, TREE_S, FactsReader, Member
from agent.workloads.job_cgroup import LIMITS_S, count_cpus
from tests.agent import fake_proc

TICKS = os.sysconf("SC_CLK_TCK")
GPU, OTHER = "GPU-1", "GPU-2"
JOB = "slurm/della/4711"
GROUP = "/system.slice/slurmstepd.scope/job_4711"
POD = "045b1e35-7f13-11e7-ac42-0050568ffca0"


class Host:
    """A /proc and a /sys of our own, and a clock that the test moves."""

    def __init__(self, folder, *, is_v2=True):
        self.folder, self.s, self.is_v2 = folder, 1000.0, is_v2
        self.proc = folder / "proc"
        self.proc.mkdir()
        self.write("sys/devices/system/cpu/online", "0-15\n")
        if is_v2:
            self.write("sys/fs/cgroup/cgroup.controllers", "cpu io\n")
        self.reader = FactsReader(str(self.proc), clock_s=lambda: self.s)

    def write(self, path, text):
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def group(self, name, text, *, path=GROUP):
        self.write(f"sys/fs/cgroup{path}/{name}", text)

    def used(self, cpu_s, *, periods=0, throttled=0, path=GROUP):
        """The group's CPU, as the kernel writes it."""
        text = (
            f"usage_usec {round(cpu_s * 1e6)}\nuser_usec 1\nnr_periods {periods}\nnr_throttled"
            f" {throttled}\n"
        )
        self.group("cpu.stat", text, path=path)

    def read(self, *members, after_s=10.0, holders=None):
        """The columns of GPU-1's holder."""
        self.s += after_s
        return self.reader.read(members, holders={GPU: JOB} if holders is None else holders).get(
            GPU, {}
        )


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def member(pid=1, *, uuid=GPU, key=JOB, path=GROUP):
    return Member(uuid, key, pid, path)


def test_a_jobs_cpu_is_a_share_of_the_cores_that_it_may_use(host):
    host.group("cpuset.cpus.effective", "0-3,8-11\n")
    host.used(100)
    first = host.read(member())
    host.used(140)

    assert first == {"job_cores": 8}
    assert host.read(member()) == {"job_cores": 8, "job_cpu_ratio": pytest.approx(40 / (8 * 10))}


@pytest.mark.parametrize(
    ("limits", "cores"),
    [
        ({}, 16),
        ({GROUP: "400000 100000"}, 4),
        ({GROUP: "max 100000"}, 16),
        ({GROUP: "800000 100000", "/system.slice": "250000 100000"}, 2.5),
        ({GROUP: "3200000 100000"}, 16),
        ({GROUP: "broken"}, 16),
    ],
)
def test_the_tightest_limit_counts_also_one_of_a_group_above(host, limits, cores):
    for path, text in limits.items():
        host.group("cpu.max", text + "\n", path=path)
    host.used(1)

    assert host.read(member())["job_cores"] == cores


def test_a_limit_is_looked_at_once_a_minute(host):
    host.group("cpu.max", "400000 100000\n")
    host.used(1)
    host.read(member())
    host.group("cpu.max", "200000 100000\n")

    assert host.read(member(), after_s=LIMITS_S - 1)["job_cores"] == 4
    assert host.read(member(), after_s=1)["job_cores"] == 2


def test_a_job_that_hits_its_limit_in_bursts_has_no_cpu_left_whatever_its_mean(host):
    host.group("cpu.max", "400000 100000\n")
    host.used(0, periods=100, throttled=0)
    host.read(member())
    host.used(12, periods=200, throttled=90)

    assert host.read(member())["job_cpu_ratio"] == pytest.approx(0.9)


def test_bytes_read_are_counted_once_per_disk(host):
    host.write("sys/dev/block/253:0/slaves/sda/dev", "8:0\n")
    (host.folder / "sys/dev/block/7:0/loop").mkdir(parents=True)
    host.used(0)
    host.group(
        "io.stat", "8:0 rbytes=1000 wbytes=7 rios=1\n253:0 rbytes=1000 wbytes=7\n7:0 rbytes=9\n"
    )
    host.read(member())
    host.group(
        "io.stat", "8:0 rbytes=21000 wbytes=7 rios=1\n253:0 rbytes=21000 wbytes=7\n7:0 rbytes=999\n"
    )

    assert host.read(member())["job_io_read_bytes_s"] == 2000


def test_a_disk_controller_that_is_off_is_not_zero_bytes(host):
    host.used(0)
    host.read(member())
    host.used(1)

    assert "job_io_read_bytes_s" not in host.read(member())


def test_counters_that_fell_tell_nothing(host):
    host.used(50)
    host.group("io.stat", "8:0 rbytes=500\n")
    host.read(member())
    host.used(1)
    host.group("io.stat", "8:0 rbytes=5\n")

    assert host.read(member()) == {"job_cores": 16}


def test_a_group_of_v1_says_the_same(tmp_path):
    host = Host(tmp_path, is_v2=False)
    path = "/slurm/uid_1000/job_4711"

    def write(cpu_s, read_bytes):
        host.write(f"sys/fs/cgroup/cpuacct{path}/cpuacct.usage", f"{round(cpu_s * 1e9)}\n")
        host.write(f"sys/fs/cgroup/cpu{path}/cpu.cfs_quota_us", "200000\n")
        host.write(f"sys/fs/cgroup/cpu{path}/cpu.cfs_period_us", "100000\n")
        host.write(
            f"sys/fs/cgroup/cpu{path}/cpu.stat", "nr_periods 10\nnr_throttled 0\nthrottled_time 0\n"
        )
        host.write(f"sys/fs/cgroup/cpuset{path}/cpuset.effective_cpus", "0-3\n")
        served = f"8:0 Read {read_bytes}\n8:0 Write 5\n8:0 Total 9\nTotal 9\n"
        host.write(f"sys/fs/cgroup/blkio{path}/blkio.throttle.io_service_bytes_recursive", served)

    write(100, 0)
    host.read(member(path=path))
    write(115, 50_000)

    columns = host.read(member(path=path))

    assert columns == {
        "job_cores": 2,
        "job_cpu_ratio": pytest.approx(0.75),
        "job_io_read_bytes_s": 5000,
    }


def test_v1_without_a_limit_has_the_cores_that_it_is_bound_to(tmp_path):
    host = Host(tmp_path, is_v2=False)
    host.write("sys/fs/cgroup/cpuacct/slurm/cpuacct.usage", "1\n")
    host.write("sys/fs/cgroup/cpu/slurm/cpu.cfs_quota_us", "-1\n")
    host.write("sys/fs/cgroup/cpu/slurm/cpu.cfs_period_us", "100000\n")
    host.write("sys/fs/cgroup/cpuset/slurm/cpuset.effective_cpus", "0-2\n")

    assert host.read(member(path="/slurm"))["job_cores"] == 3


@pytest.mark.parametrize(
    ("used", "stat", "memory"),
    [
        ("5000\n", "anon 3000\ninactive_file 1500\nactive_file 400\n", 3500),
        ("5000\n", "inactive_file 5001\n", 0),  # it grew between the two reads
        ("0\n", "inactive_file 0\n", 0),
        (None, "inactive_file 1500\n", None),
        ("5000\n", None, None),
        ("5000\n", "anon 3000\n", None),
        ("broken\n", "inactive_file 1500\n", None),
    ],
)
def test_a_jobs_memory_is_what_the_kernel_can_not_drop_at_once(host, used, stat, memory):
    files = {"memory.current": used, "memory.stat": stat}
    for name, text in files.items():
        if text is not None:
            host.group(name, text)
    host.used(1)

    assert host.read(member()).get("job_memory_bytes") == memory


def test_a_jobs_memory_in_v1_is_its_and_that_of_the_groups_inside_it(tmp_path):
    host = Host(tmp_path, is_v2=False)
    path = "/slurm/uid_1000/job_4711"
    folder = f"sys/fs/cgroup/memory{path}"
    host.write(f"{folder}/memory.usage_in_bytes", "9000\n")
    host.write(f"{folder}/memory.stat", "cache 7\ninactive_file 0\ntotal_inactive_file 2500\n")

    # also where the group's CPU is not counted
    assert host.read(member(path=path))["job_memory_bytes"] == 6500


def test_the_memory_of_a_job_whose_work_may_be_in_a_container_is_not_that_of_its_script(host):
    """Docker's daemon starts it: its memory is in no group of the batch system."""
    host.group("memory.current", "5000\n")
    host.group("memory.stat", "inactive_file 0\n")
    host.used(1)

    def read(*members, with_others):
        return host.reader.read(members, holders={GPU: JOB}, with_others=with_others).get(GPU, {})

    assert "job_memory_bytes" not in read(with_others={GPU})
    assert read(with_others={OTHER})["job_memory_bytes"] == 5000  # it prepares data, or waits
    # a process of its own is there, and perhaps a display's
    assert read(member(), with_others={GPU})["job_memory_bytes"] == 5000


@pytest.mark.parametrize("path", ["/..", ""])
def test_the_memory_of_a_job_without_a_group_is_not_that_of_the_host(host, path):
    host.write("sys/fs/cgroup/memory.current", "5000\n")
    host.write("sys/fs/cgroup/memory.stat", "inactive_file 0\n")

    assert "job_memory_bytes" not in host.read(member(path=path))


@pytest.mark.parametrize("path", ["/../../kubepods/besteffort/pod1", "/nowhere", ""])
def test_a_group_that_can_not_be_found_leaves_the_tree_of_processes(host, path):
    fake_proc.process(host.proc, 1, children=(2,), cpu_ticks=10 * TICKS)
    fake_proc.process(host.proc, 2, children=(3,), name="helper", cpu_ticks=100 * TICKS)
    fake_proc.process(host.proc, 3, name="helper", cpu_ticks=0)
    host.read(member(path=path))
    fake_proc.process(host.proc, 1, children=(2,), cpu_ticks=14 * TICKS)
    fake_proc.process(host.proc, 2, children=(3,), name="helper", cpu_ticks=120 * TICKS)
    fake_proc.process(host.proc, 3, name="helper", cpu_ticks=16 * TICKS)

    columns = host.read(member(path=path))

    assert columns["job_cpu_ratio"] == pytest.approx((4 + 20 + 16) / (16 * 10))
    assert columns["job_cores"] == 16


def test_a_process_that_ended_takes_nothing_back(host):
    fake_proc.process(host.proc, 1, children=(2,), cpu_ticks=0)
    fake_proc.process(host.proc, 2, cpu_ticks=5000 * TICKS)
    host.read(member(path=""))
    (host.proc / "2/stat").unlink()
    fake_proc.process(host.proc, 1, children=(), cpu_ticks=16 * TICKS)

    assert host.read(member(path=""))["job_cpu_ratio"] == pytest.approx(0.1)


def test_workers_are_the_children_that_run_their_parents_program(host):
    fake_proc.process(host.proc, 1, children=(2, 3, 4, 5))
    for pid in (2, 3):
        fake_proc.process(host.proc, pid)
    fake_proc.process(host.proc, 4, name="wandb-core")
    fake_proc.process(
        host.proc,
        5,
        command=("python", "-c", "from multiprocessing.resource_tracker import main; main(4)"),
    )

    assert host.read(member(path=""))["job_workers"] == 2


def test_children_that_call_themselves_workers_are_the_workers(host):
    fake_proc.process(host.proc, 1, children=(2, 3, 4))
    for pid, name in ((2, "pt_data_worker"), (3, "pt_data_worker"), (4, "python")):
        fake_proc.process(host.proc, pid, name=name)

    assert host.read(member(path=""))["job_workers"] == 2


def test_one_process_per_gpu_started_by_another_is_no_worker(host):
    fake_proc.process(host.proc, 1, children=(2, 3))
    fake_proc.process(host.proc, 2, children=(4,))
    fake_proc.process(host.proc, 3, children=())
    fake_proc.process(host.proc, 4)
    members = [member(1, path=""), member(2, path=""), member(3, uuid=OTHER, path="")]

    columns = host.reader.read(members, holders={GPU: JOB, OTHER: JOB})

    assert {uuid: found["job_workers"] for uuid, found in columns.items()} == {GPU: 1, OTHER: 1}


def test_no_workers_is_zero_and_a_kernel_that_does_not_tell_is_not(host):
    fake_proc.process(host.proc, 1, children=())
    known = host.read(member(path=""))
    fake_proc.process(host.proc, 7, children=None)

    unknown = host.read(member(7, key="process/n/7", path=""), holders={GPU: "process/n/7"})

    assert known["job_workers"] == 0
    assert "job_workers" not in unknown


def test_workers_that_start_later_are_seen_within_a_minute(host):
    fake_proc.process(host.proc, 1, children=())
    fake_proc.process(host.proc, 2)
    host.read(member(path=""))
    fake_proc.process(host.proc, 1, children=(2,))

    assert host.read(member(path=""), after_s=TREE_S - 1)["job_workers"] == 0
    assert host.read(member(path=""), after_s=1)["job_workers"] == 1


def test_the_busiest_thread_may_be_another_than_the_main_one(host):
    fake_proc.process(host.proc, 1, cpu_ticks=10 * TICKS)
    for tid in range(100, 150):
        fake_proc.thread(host.proc, 1, tid, cpu_ticks=tid * TICKS)
    first = host.read(member())
    fake_proc.process(host.proc, 1, cpu_ticks=12 * TICKS)
    fake_proc.thread(host.proc, 1, 149, cpu_ticks=(149 + 9) * TICKS)

    assert "job_main_thread_ratio" not in first
    assert host.read(member())["job_main_thread_ratio"] == pytest.approx(0.9)


def test_a_thread_that_woke_up_later_is_found_at_the_next_look_at_all(host):
    fake_proc.process(host.proc, 1, cpu_ticks=0)
    for tid in range(100, 110):
        fake_proc.thread(host.proc, 1, tid, cpu_ticks=tid)
    host.read(member())
    fake_proc.thread(host.proc, 1, 100, cpu_ticks=900 * TICKS)

    at_once = host.read(member())
    host.read(member(), after_s=THREADS_S)
    fake_proc.thread(host.proc, 1, 100, cpu_ticks=905 * TICKS)

    assert at_once["job_main_thread_ratio"] == 0
    assert host.read(member())["job_main_thread_ratio"] == pytest.approx(0.5)


def test_each_gpu_has_its_own_processes_busiest_thread(host):
    for pid in (1, 2):
        fake_proc.process(host.proc, pid, cpu_ticks=0)
    members = [member(1, path=""), member(2, uuid=OTHER, path="")]
    holders = {GPU: JOB, OTHER: JOB, "GPU-3": JOB}
    host.reader.read(members, holders=holders)
    host.s += 10
    fake_proc.process(host.proc, 1, cpu_ticks=10 * TICKS)
    fake_proc.process(host.proc, 2, cpu_ticks=1 * TICKS)

    columns = host.reader.read(members, holders=holders)

    assert {uuid: found.get("job_main_thread_ratio") for uuid, found in columns.items()} == {
        GPU: pytest.approx(1.0),
        OTHER: pytest.approx(0.1),
        "GPU-3": None,
    }
    assert [found["job_cpu_ratio"] for found in columns.values()] == [pytest.approx(11 / 160)] * 3


@pytest.mark.parametrize(
    ("key", "path"),
    [
        (JOB, GROUP),
        (
            f"kubernetes/prod/{POD}",
            (
                f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace('-', '_')}.slice"
            ),
        ),
        (f"kubernetes/prod/{POD}", f"/kubepods/besteffort/pod{POD}"),
    ],
)
def test_a_job_that_has_no_process_on_its_gpu_is_found_where_its_group_should_lie(host, key, path):
    host.used(100, path=path)
    host.read(holders={GPU: key})
    host.used(180, path=path)

    assert host.read(holders={GPU: key})["job_cpu_ratio"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    "key", ["slurm/della/../../x", "kubernetes/prod/", "docker/gpu-07/abc", "x"]
)
def test_no_group_is_looked_for_by_a_name_that_is_none(host, key):
    assert host.read(holders={GPU: key}) == {}


def test_a_job_that_is_gone_is_forgotten(host):
    host.used(100)
    fake_proc.process(host.proc, 1, cpu_ticks=0)
    host.read(member())

    host.read(holders={})

    reader = host.reader
    assert (reader._loads, reader._threads) == ({}, {})


def test_a_tree_without_end_is_looked_at_to_its_limit(host):
    for pid in range(1, 700):
        fake_proc.process(host.proc, pid, children=(pid + 1,))

    host.read(member(path=""))

    assert len(host.reader._loads[JOB].tree.ticks) == 512


@pytest.mark.parametrize(
    ("text", "count"), [("0-3,8\n", 5), ("7", 1), ("", 0), (None, 0), ("all", 0), ("1-", 0)]
)
def test_a_list_of_cpus_is_counted(text, count):
    assert count_cpus(text) == count
