from agent.readings import HolderSource, VersionedSource, WatchfulScheduler
from agent.sources.dcgm import DCGMSource
from agent.sources.nvidia_smi import NvidiaSMI
from agent.sources.nvml import NVMLSource
from agent.sources.simulated import Simulated
from agent.workloads.docker.client import Docker
from agent.workloads.slurm.client import Slurm

SOURCES = (NVMLSource, NvidiaSMI, DCGMSource, Simulated)


def test_an_exporter_and_a_simulation_know_who_holds_their_gpus():
    assert [issubclass(source, HolderSource) for source in SOURCES] == [False, False, True, True]


def test_nvml_knows_more_versions_than_the_drivers():
    assert [issubclass(source, VersionedSource) for source in SOURCES] == [True, *[False] * 3]


def test_slurm_sees_on_its_host_that_a_job_came():
    assert issubclass(Slurm, WatchfulScheduler)
    assert not issubclass(Docker, WatchfulScheduler)
