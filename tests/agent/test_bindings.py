import re
from pathlib import Path
from types import ModuleType

from agent import bindings

SOURCES = Path(bindings.__file__).parent / "sources" / "nvml"
OF_THE_BINDINGS = re.compile(r'[."](_?nvml[A-Z]\w+|c_nvml\w+|NVML(?:Error|Library)\w*)')
CODE = """
CONSTANT = 1
UNUSED = 2
class Base:
    def text(self): return helper()
class c_nvmlSample_t(Base):
    pass
class Other(Base):
    pass
def helper(): return CONSTANT
def wrap(function):
    from functools import wraps
    @wraps(function)
    def wrapper(): return function()
    return wrapper
def within(): return 3
def nvmlDeviceGetCount(): return [within() for _ in range(2)]
@wrap
def nvmlDeviceGetName(): return nvmlDeviceGetCount()
@wrap
def nvmlDeviceSetFanSpeed(): return UNUSED
"""


def test_whatever_the_source_calls_is_kept():
    text = "\n".join(path.read_text() for path in SOURCES.glob("*.py"))

    called = set(OF_THE_BINDINGS.findall(text))

    assert called <= set(bindings.CALLED)


def test_what_a_kept_function_leads_to_is_kept_and_nothing_else():
    module = ModuleType("some_bindings")
    exec(CODE, vars(module))

    bindings.shrink(module)

    kept = {name for name in vars(module) if not name.startswith("__")}
    assert kept == {
        "CONSTANT",
        "c_nvmlSample_t",
        "helper",
        "nvmlDeviceGetCount",
        "nvmlDeviceGetName",
        "within",
    }
    assert module.nvmlDeviceGetName() == [3, 3]
    assert module.c_nvmlSample_t().text() == 1
