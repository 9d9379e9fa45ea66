"""What a process keeps of what it read, while that is of the same version."""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar


class Sized(Protocol):
    """What is kept knows how large it is."""

    @property
    def size(self) -> int:
        """Bytes."""


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value", bound=Sized)


class Kept(Generic[Key, Value]):
    """By key a value with the version of what it is made of; those that nobody asked for make
    way.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._values: OrderedDict[Key, tuple[Any, Value]] = OrderedDict()  # asked for last: last
        self._bytes = 0
        self._lock = Lock()

    def read(self, key: Key, version: object) -> Value | None:
        """None where it is not kept, or was of another version."""
        with self._lock:
            kept_of, value = self._values.get(key, (None, None))
            if value is None or kept_of != version:
                return None
            self._values.move_to_end(key)
            return value

    def keep(self, key: Key, version: object, value: Value) -> None:
        """From now on, while there is room."""
        with self._lock:
            self._forget(key)
            self._values[key] = (version, value)
            self._bytes += value.size
            while self._bytes > self._most_bytes:
                self._forget(next(iter(self._values)))

    def forget(self) -> None:
        """All of it."""
        with self._lock:
            self._values.clear()
            self._bytes = 0

    def _forget(self, key: Key) -> None:
        _, value = self._values.pop(key, (None, None))
        self._bytes -= 0 if value is None else value.size
