"""NVML's bindings for a daemon: of their 1,200 functions and classes it calls sixty, and the others
would be a tenth of its memory for as long as it runs.
"""

from types import CodeType, FunctionType, ModuleType
from typing import Any, Dict, Iterator, List, Set

# What agent.sources.nvml calls, by any of its names (a test holds the two together).
CALLED = (
    "NVMLError", "NVMLLibraryMismatchError", "_nvmlCheckReturn", "_nvmlGetFunctionPointer",
    "c_nvmlFieldValue_t", "c_nvmlGpmMetricsGet_t", "c_nvmlSample_t", "nvmlDeviceGetAttributes_v2",
    "nvmlDeviceGetClockInfo", "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetCount", "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetDecoderUtilization",
    "nvmlDeviceGetEncoderUtilization", "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetFieldValues", "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetGraphicsRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetJpgUtilization",
    "nvmlDeviceGetMPSComputeRunningProcesses_v2", "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetMigMode", "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetName", "nvmlDeviceGetNumGpuCores", "nvmlDeviceGetOfaUtilization",
    "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPersistenceMode", "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetProcessUtilization", "nvmlDeviceGetSamples", "nvmlDeviceGetSupportedEventTypes",
    "nvmlDeviceGetTemperature", "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetUUID",
    "nvmlDeviceGetUtilizationRates", "nvmlDeviceRegisterEvents", "nvmlEventSetCreate",
    "nvmlEventSetFree", "nvmlEventSetWait_v2", "nvmlGpmMetricsGet", "nvmlGpmMigSampleGet",
    "nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmSampleFree", "nvmlGpmSampleGet",
    "nvmlInit", "nvmlShutdown", "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion",
)  # fmt: skip


def shrink(bindings: ModuleType) -> None:
    """Takes away what none of CALLED leads to."""
    content = vars(bindings)
    needed = _needed(content)
    for name in list(content):
        if name not in needed and not name.startswith("__"):
            del content[name]


def _needed(content: Dict[str, Any]) -> Set[str]:
    needed: Set[str] = set()
    waiting: List[str] = list(CALLED)
    while waiting:
        name = waiting.pop()
        if name in content and name not in needed:
            needed.add(name)
            for function in _functions(content[name], content["__name__"]):
                waiting.extend(_names(function.__code__))
    return needed


def _functions(value: Any, module: str) -> Iterator[FunctionType]:
    """The function and those that it wraps, or the methods of the class and of those that it is
    made of.
    """
    while isinstance(value, FunctionType):
        yield value
        value = getattr(value, "__wrapped__", None)
    for part in getattr(value, "__mro__", ()):
        if part.__module__ == module:
            yield from filter(lambda method: isinstance(method, FunctionType), vars(part).values())


def _names(code: CodeType) -> Iterator[str]:
    """What the code may ask of its module: more than it does, attributes too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
