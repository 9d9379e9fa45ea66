import pytest

from agent.host import HostReader, boot_start_ms, kernel_boot_id, own_rss_bytes


def write(folder, *, cpu="cpu 100 0 100 700 100 0 0 0 0 0", memory="MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\n"):
    (folder / "stat").write_text(cpu + "\ncpu0 1 2 3\nbtime 1794000000\n")
    (folder / "meminfo").write_text(memory)


def test_the_cpu_is_told_of_the_time_since_the_last_call(tmp_path):
    write(tmp_path)
    host = HostReader(str(tmp_path))
    write(tmp_path, cpu="cpu 130 0 110 750 110 0 0 0 0 0")

    assert host.read() == {"cpu_ratio": pytest.approx(0.4), "iowait_ratio": pytest.approx(0.1), "memory_used_bytes": 600 * 1024}


def test_iowait_that_steps_back_is_no_negative_share(tmp_path):
    write(tmp_path)
    host = HostReader(str(tmp_path))
    write(tmp_path, cpu="cpu 150 0 100 750 90 0 0 0 0 0")

    assert host.read()["iowait_ratio"] == 0.0


def test_no_time_between_two_calls_is_nothing_read(tmp_path):
    write(tmp_path)
    host = HostReader(str(tmp_path))

    assert "cpu_ratio" not in host.read()


@pytest.mark.parametrize("memory", ["", "MemTotal: 1000 kB\n"])
def test_memory_that_the_kernel_does_not_tell_is_not_read(tmp_path, memory):
    write(tmp_path, memory=memory)

    assert HostReader(str(tmp_path)).read() == {}


def test_a_host_without_proc_has_nothing_to_tell(tmp_path):
    nowhere = str(tmp_path / "nowhere")

    assert HostReader(nowhere).read() == {}
    assert (boot_start_ms(nowhere), kernel_boot_id(nowhere), own_rss_bytes(nowhere)) == (None, None, None)


def test_the_boot_is_known_by_the_kernel(tmp_path):
    write(tmp_path)

    assert boot_start_ms(str(tmp_path)) == 1_794_000_000_000
    assert own_rss_bytes() > 1_000_000
