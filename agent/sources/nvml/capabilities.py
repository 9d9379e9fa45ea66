"""What one GPU can be asked: a refusal is kept for an hour, so that nothing is asked in vain each
second.
"""

from typing import Any, Callable, Dict, Iterable, Mapping, NamedTuple, Sequence, Tuple

from agent.sources.nvml.library import NOT_AVAILABLE, NOTHING_NEW, WHY_UNREAD, raise_grave
from agent.wire import WINDOW_COLUMNS

RETRY_UNREAD_MS = 3_600_000
STRIKES = 3  # unknown errors in a row before a metric counts as unreadable
FOREVER_MS = 2**62
OFF = "off"  # the reason that the operator gave
_TOLD = frozenset(
    (*WINDOW_COLUMNS, "model", "memory_total_bytes", "power_limit_w", "sm_count", "persistence")
)


class Quantity(NamedTuple):
    """What one call answers of a GPU; `key` is a field of Reading or GPUInfo or a column of the
    wire, `in_base_units` makes its value of the answer.
    """

    key: str
    call: str
    in_base_units: Callable[[Any], Any]
    arguments: Tuple[int, ...] = ()


def thousandth(number: int) -> float:
    """Watts of milliwatts, joules of millijoules."""
    return number / 1000


def hertz(megahertz: int) -> float:
    """Hertz of megahertz."""
    return megahertz * 1e6


def column_of(key: str) -> str:
    """The wire's column to which the key leads."""
    return key.partition("@")[0]


class Capabilities:
    """What can't be read of one GPU, and why.

    A key is a column of the wire, or `column@door` where several calls lead to the column; `doors`
    says how many, for a column is unread only when all are shut. `groups` says which keys stand and
    fall with one call.
    """

    def __init__(
        self,
        nvml: Any,
        *,
        groups: Mapping[str, Sequence[str]],
        doors: Mapping[str, int],
        now_ms: int = 0,
    ) -> None:
        self.nvml = nvml
        self._groups = groups
        self._doors = doors
        self._shut: Dict[str, Tuple[str, int]] = {}  # key -> (why, asked again at)
        self._strikes: Dict[str, int] = {}
        # not an NVMLError: an old driver without the versioned call
        self._mismatch = getattr(nvml, "NVMLLibraryMismatchError", ())
        self.now_ms = now_ms

    def read(self, quantities: Iterable[Quantity], handle: Any) -> Dict[str, Any]:
        """The quantities by key, in base units, without what this GPU can't tell. Raises as ask."""
        values = {}
        for key, call, in_base_units, arguments in quantities:
            answer = self.ask(key, call, handle, *arguments)
            if answer is not None:
                values[key] = in_base_units(answer)
        return values

    def ask(self, key: str, name: str, *arguments: Any, empty: Any = None) -> Any:
        """What the call answers; None where this GPU can't tell it, `empty` where there is just
        nothing new.

        Raises GPULostError and DriverAwayError.
        """
        call = getattr(self.nvml, name, None)  # an older binding may not have it
        if call is None:
            return self.shut(key, "not_supported")
        return self.tried(key, call, *arguments, empty=empty)

    def tried(self, key: str, call: Callable[..., Any], *arguments: Any, empty: Any = None) -> Any:
        """As ask, of a call that is at hand."""
        if key in self._shut and not self.is_open(key):
            return None
        try:
            answer = call(*arguments)
        except self._mismatch:
            return self.shut(key, "not_supported")
        except self.nvml.NVMLError as error:
            return empty if self.failed(key, error.value, str(error)) else None
        if self._shut or self._strikes:
            self.succeeded(key)
        return None if answer.__class__ is int and answer in NOT_AVAILABLE else answer

    def failed(self, key: str, code: int, text: str) -> bool:
        """Notes an error; True where it only says that there is nothing new.

        Raises GPULostError and DriverAwayError.
        """
        if code in NOTHING_NEW:  # pynvml raises a bare NVMLError with value 0 for an empty success
            return True
        raise_grave(code, text)
        self._strikes[key] = self._strikes.get(key, 0) + 1
        if code in WHY_UNREAD:
            self.shut(key, WHY_UNREAD[code])
        elif self._strikes[key] >= STRIKES:
            self.shut(key, "error")
        return False

    def succeeded(self, key: str) -> None:
        """Forgets what stood against the key."""
        self._shut.pop(key, None)
        self._strikes.pop(key, None)

    def shut(self, key: str, why: str, *, until_ms: int = 0) -> None:
        """The key can't be read: for an hour, or until then."""
        self._shut[key] = (why, until_ms or self.now_ms + RETRY_UNREAD_MS)

    def is_open(self, key: str) -> bool:
        """True where it is worth asking."""
        if key not in self._shut:
            return True
        left_ms = self._shut[key][1] - self.now_ms
        # more than an hour to go: the clock was set back since
        return left_ms <= 0 or (left_ms > RETRY_UNREAD_MS and self._shut[key][1] != FOREVER_MS)

    def fresh(self) -> "Capabilities":
        """Of another GPU, or an instance: of it no more is known than what the operator switched
        off.
        """
        other = Capabilities(self.nvml, groups=self._groups, doors=self._doors, now_ms=self.now_ms)
        other._shut.update(self._shut)
        other.forget()
        return other

    def forget(self) -> None:
        """Everything but what the operator switched off may be asked again: the GPU is another one
        now, or in another mode.
        """
        self._shut = {key: held for key, held in self._shut.items() if held[0] == OFF}
        self._strikes.clear()

    def unread(self) -> Dict[str, str]:
        """Columns of the wire, and facts of the GPU, that can't be read -> why."""
        if not self._shut:
            return {}
        shut: Dict[str, Dict[str, str]] = {}
        for key, (why, _) in self._shut.items():
            for metric in self._groups.get(key, (key,)):
                shut.setdefault(column_of(metric), {})[metric] = why
        return {
            column: OFF if OFF in reasons.values() else next(iter(reasons.values()))
            for column, reasons in shut.items()
            if column in _TOLD and len(reasons) >= self._doors.get(column, 1)
        }
