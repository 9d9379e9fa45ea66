"""What names the batches of an agent's spool: which boot of which machine."""

import time

from agent import assembly
from agent.config import Config
from agent.host import boot_start_ms

DAY_MS = 86_400_000


def identity(node: str, *, source: str = "simulated:H100x8,seed=1", spool: str = "spool"):
    return assembly.identity_of(Config("run", node, source=source))(spool)


def test_a_simulated_machine_started_long_before_the_host_that_simulates_it():
    """100 to 199 days ago, and not all of them at one moment."""
    now_ms = int(time.time() * 1000)

    starts_ms = [identity(f"node-{number}").boot_start_ms for number in range(20)]

    assert all(100 * DAY_MS <= now_ms - start_ms <= 200 * DAY_MS for start_ms in starts_ms)
    assert len({start_ms // DAY_MS for start_ms in starts_ms}) > 5


def test_a_simulated_boot_is_its_spools_life_whatever_the_host_does():
    assert identity("node-1").boot_id == identity("node-1").boot_id
    assert identity("node-1").boot_id != identity("node-1", spool="another").boot_id


def test_a_real_machine_started_when_its_kernel_did():
    assert identity("node-1", source="auto").boot_start_ms == boot_start_ms()
