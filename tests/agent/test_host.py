from pathlib import Path

import pytest

from agent.host import HostReader, boot_start_ms, kernel_boot_id, own_rss_bytes


class Host:
    """A /proc and a /sys of our own, ten seconds between two looks."""

    def __init__(self, folder):
        self.folder, self.s = folder, 1000.0
        self.proc = folder / "proc"
        self.write("proc/stat", "cpu 100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3\nbtime 1794000000\n")

    def write(self, path, text):
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def reader(self):
        return HostReader(str(self.proc), clock_s=lambda: self.s)

    def read(self, reader, *, after_s=10.0):
        self.s += after_s
        return reader.read()

    def device(self, path):
        """What has hardware of its own."""
        (self.folder / "sys" / path / "device").mkdir(parents=True)

    def diskstats(self, **sectors):
        """name=(sectors read, sectors written)"""
        lines = [
            f"   8  {place} {name} 5 6 {read} 7 8 9 {written} 10 0 11 12\n"
            for place, (name, (read, written)) in enumerate(sectors.items())
        ]
        self.write("proc/diskstats", "".join(lines))

    def net(self, path="proc/net/dev", **counts):
        """name=(bytes received, bytes sent)"""
        lines = [
            f"{name:>6}: {rx} 1 0 0 0 0 0 0 {tx} 1 0 0 0 0 0 0\n"
            for name, (rx, tx) in counts.items()
        ]
        self.write(
            path,
            "Inter-|   Receive  |  Transmit\n face |bytes packets|bytes packets\n" + "".join(lines),
        )


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_the_cpu_is_told_of_the_time_since_the_last_call(host):
    reader = host.reader()
    host.write("proc/stat", "cpu 130 0 110 750 110 0 0 0 0 0\n")

    assert host.read(reader) == {
        "cpu_ratio": pytest.approx(0.4),
        "iowait_ratio": pytest.approx(0.1),
    }


def test_iowait_that_steps_back_is_no_negative_share(host):
    reader = host.reader()
    host.write("proc/stat", "cpu 150 0 100 750 90 0 0 0 0 0\n")

    assert host.read(reader)["iowait_ratio"] == 0.0


def test_no_time_between_two_calls_is_nothing_read(host):
    assert host.read(host.reader(), after_s=0) == {}


def test_memory_in_use_is_what_is_not_available(host):
    host.write("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\n")

    assert host.read(host.reader()) == {"memory_used_bytes": 600 * 1024}


@pytest.mark.parametrize("memory", ["", "MemTotal: 1000 kB\n"])
def test_memory_that_the_kernel_does_not_tell_is_not_read(host, memory):
    host.write("proc/meminfo", memory)

    assert host.read(host.reader()) == {}


def test_pressure_is_the_share_of_time_in_which_some_task_waited(host):
    line = (
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00"
        " total=99\n"
    )
    host.write("proc/pressure/cpu", line % 5_000_000)
    host.write("proc/pressure/io", line % 0)
    reader = host.reader()
    host.write("proc/pressure/cpu", line % 7_500_000)
    host.write("proc/pressure/io", line % 10_000_001)

    assert host.read(reader) == {"cpu_psi_ratio": pytest.approx(0.25), "io_psi_ratio": 1.0}


def test_disks_are_whole_ones_and_counted_once(host):
    for name in ("nvme0n1", "sda"):
        host.device(f"block/{name}")
    host.diskstats(
        nvme0n1=(1000, 0),
        nvme0n1p1=(1000, 0),
        sda=(0, 500),
        **{"dm-0": (1000, 0), "md0": (9, 9), "loop0": (9, 9)},
    )
    reader = host.reader()
    host.diskstats(
        nvme0n1=(21_000, 0),
        nvme0n1p1=(21_000, 0),
        sda=(0, 10_500),
        **{"dm-0": (21_000, 0), "md0": (99, 99), "loop0": (99, 99)},
    )

    assert host.read(reader) == {
        "disk_read_bytes_s": 20_000 * 512 / 10,
        "disk_write_bytes_s": 10_000 * 512 / 10,
    }


def test_a_counter_that_fell_is_not_read_and_the_others_are(host):
    host.device("block/sda")
    host.diskstats(sda=(1000, 1000))
    reader = host.reader()
    host.diskstats(sda=(10, 3000))

    first = host.read(reader)
    host.diskstats(sda=(20, 3000))

    assert first == {"disk_write_bytes_s": 2000 * 512 / 10}
    assert host.read(reader) == {"disk_read_bytes_s": 10 * 512 / 10, "disk_write_bytes_s": 0}


def test_a_disk_that_was_plugged_in_counts_from_its_second_reading(host):
    for name in ("sda", "sdb"):
        host.device(f"block/{name}")
    host.diskstats(sda=(0, 0))
    reader = host.reader()
    host.diskstats(sda=(10, 0), sdb=(5000, 0))

    first = host.read(reader)
    host.diskstats(sda=(10, 0), sdb=(5010, 0))

    assert [columns["disk_read_bytes_s"] for columns in (first, host.read(reader))] == [512, 512]


def test_the_network_is_the_physical_interfaces_and_infinibands_ports(host):
    for name in ("eth0", "ib0"):
        host.device(f"class/net/{name}")
    host.write("sys/class/net/eth0/type", "1\n")
    host.write("sys/class/net/ib0/type", "32\n")  # IP over InfiniBand: the port counts it
    host.write("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "0\n")
    host.write("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "0\n")
    host.net(eth0=(1000, 2000), ib0=(0, 0), docker0=(5, 5), lo=(7, 7))
    reader = host.reader()
    host.net(eth0=(2000, 2500), ib0=(4000, 4000), docker0=(999, 999), lo=(999, 999))
    host.write("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "250\n")
    host.write("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "5\n")

    assert host.read(reader) == {
        "nic_rx_bytes_s": (1000 + 250 * 4) / 10,
        "nic_tx_bytes_s": (500 + 5 * 4) / 10,
    }


def test_in_a_container_the_hosts_own_network_is_read(host):
    host.device("class/net/eth0")
    host.net(eth0=(0, 0))
    host.net("proc/1/net/dev", eth0=(0, 0))
    reader = host.reader()
    host.net("proc/1/net/dev", eth0=(100, 10))

    assert host.read(reader) == {"nic_rx_bytes_s": 10, "nic_tx_bytes_s": 1}


@pytest.mark.parametrize("text", ["", "8 0 sda\n", "8 0 sda a b c d e f g h\n", "\x00\n"])
def test_a_table_of_another_shape_is_not_read(host, text):
    host.device("block/sda")
    host.write("proc/diskstats", text)
    reader = host.reader()

    assert host.read(reader) == {}


def test_this_very_host_is_read(host):
    columns = HostReader().read()

    assert columns["memory_used_bytes"] > 1_000_000
    assert own_rss_bytes() > 1_000_000
    assert kernel_boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_a_host_without_proc_has_nothing_to_tell(tmp_path):
    nowhere = str(tmp_path / "nowhere")

    assert HostReader(nowhere).read() == {}
    assert (boot_start_ms(nowhere), kernel_boot_id(nowhere), own_rss_bytes(nowhere)) == (
        None,
        None,
        None,
    )


def test_the_boot_is_known_by_the_kernel(host):
    assert boot_start_ms(str(host.proc)) == 1_794_000_000_000
