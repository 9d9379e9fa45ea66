"""Parts of JSON that somebody else wrote: what is missing, null or of another type is nothing."""

import json
import re
from datetime import datetime
from typing import Any, List, Mapping, Optional, Type, TypeVar, Union

Object = Mapping[str, Any]  # of JSON
Value = TypeVar("Value")
MAX_COUNT = 2**20
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


def object_of(text: Union[str, bytes]) -> Object:
    """The object in the text; {} where it is none."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def part(answer: Any, name: str) -> Object:
    """The object of that name in an object."""
    return _value(answer, name, dict)


def parts(answer: Any, name: str) -> List[Object]:
    """The objects in the list of that name."""
    return [item for item in _value(answer, name, list) if isinstance(item, dict)]


def texts(answer: Any, name: str) -> List[str]:
    """The texts in the list of that name."""
    return [item for item in _value(answer, name, list) if isinstance(item, str)]


def count(answer: Object, name: str) -> int:
    """The small number of that name, such as of restarts; 0 where it is none."""
    value = answer.get(name)
    return value if isinstance(value, int) and 0 <= value < MAX_COUNT else 0


def time_ms(value: Any) -> Optional[int]:
    """`2026-11-06T05:48:53.266176036Z` in milliseconds since the epoch; None for the year 1, which
    is "never".
    """
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    seconds, fraction, zone = match.groups("0")
    try:
        moment = datetime.strptime(seconds + zone, "%Y-%m-%dT%H:%M:%S%z")
    except ValueError:
        return None
    whole_s = round(moment.timestamp())
    return whole_s * 1000 + int(fraction.ljust(3, "0")[:3]) if whole_s > 0 else None


def _value(answer: Any, name: str, kind: Type[Value]) -> Value:
    value = answer.get(name) if isinstance(answer, dict) else None
    return value if isinstance(value, kind) else kind()
