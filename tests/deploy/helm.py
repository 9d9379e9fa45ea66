"""Renders a chart: with helm where it is installed, else here, in the few words of its
language that the chart uses.

Anything else in a template is an error, so that the chart stays within what is rendered here.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

NAMESPACE = "fleetwatch"
_ACTION = re.compile(r"(\{\{-?)\s*(.*?)\s*(-?\}\})", re.DOTALL)
_STRING = re.compile(r'required "([^"]*)" (\S+)')


class ChartError(Exception):
    """The chart refuses these values."""


def render(chart: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects of the chart with these values over its own, released under its own name."""
    helm = shutil.which("helm")
    text = _by_helm(helm, chart, values) if helm else _here(chart, values)
    return [one for one in yaml.safe_load_all(text) if one is not None]


def _by_helm(helm: str, chart: Path, values: dict[str, Any]) -> str:
    command = [
        helm,
        "template",
        chart.name,
        str(chart),
        "--namespace",
        NAMESPACE,
        "--values",
        "-",
    ]
    done = subprocess.run(
        command, input=json.dumps(values), capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        raise ChartError(done.stderr)
    return done.stdout


def _here(chart: Path, values: dict[str, Any]) -> str:
    known = {
        "Values": {**yaml.safe_load((chart / "values.yaml").read_text()), **values},
        "Release": {"Name": chart.name, "Namespace": NAMESPACE},
    }
    return "\n---\n".join(
        text_of(path.read_text(), known) for path in sorted((chart / "templates").glob("*.yaml"))
    )


def text_of(template: str, known: dict[str, Any]) -> str:
    """The template with its actions done."""
    tokens = _tokens(template)
    text, end = _block(tokens, known)
    assert end == "", f"{end} without if"
    return text


def _tokens(template: str) -> Iterator[tuple[str, str]]:
    """("text", …) and ("action", …), white space beside `{{-` and `-}}` gone."""
    position, trims = 0, False
    for found in _ACTION.finditer(template):
        text = template[position : found.start()]
        text = text.lstrip() if trims else text
        yield "text", text.rstrip() if found.group(1) == "{{-" else text
        yield "action", found.group(2)
        position, trims = found.end(), found.group(3) == "-}}"
    yield "text", template[position:].lstrip() if trims else template[position:]


def _block(tokens: Iterator[tuple[str, str]], known: dict[str, Any]) -> tuple[str, str]:
    """(text, the `else` or `end` that closed it; "" at the template's end)."""
    parts: list[str] = []
    for kind, content in tokens:
        if kind == "text":
            parts.append(content)
        elif content in ("else", "end"):
            return "".join(parts), content
        elif content.startswith("if "):
            parts.append(_chosen(tokens, known, content.removeprefix("if ")))
        elif not content.startswith("/*"):
            parts.append(_value(content, known))
    return "".join(parts), ""


def _chosen(tokens: Iterator[tuple[str, str]], known: dict[str, Any], condition: str) -> str:
    is_true = bool(_look_up(condition, known))
    first, end = _block(tokens, known)
    second, end = _block(tokens, known) if end == "else" else ("", end)
    assert end == "end", "an if without end"
    return first if is_true else second


def _value(expression: str, known: dict[str, Any]) -> str:
    """Of a path, `required`, `toYaml`, `quote` and `nindent`."""
    first, *filters = [part.strip() for part in expression.split(" | ")]
    required = _STRING.fullmatch(first)
    if first.startswith("toYaml "):
        value: Any = yaml.safe_dump(_look_up(first.removeprefix("toYaml "), known)).rstrip("\n")
    elif required is not None:
        value = _look_up(required.group(2), known)
        if value in (None, ""):
            raise ChartError(required.group(1))
    else:
        value = _look_up(first, known)
    for name in filters:
        value = _filtered(value, name)
    return str(value)


def _filtered(value: Any, name: str) -> str:
    if name == "quote":
        return json.dumps(str(value))
    assert name.startswith("nindent "), f"unknown filter {name}"
    space = " " * int(name.removeprefix("nindent "))
    return "\n" + "\n".join(space + line for line in str(value).splitlines())


def _look_up(path: str, known: dict[str, Any]) -> Any:
    assert re.fullmatch(r"(\.\w+)+", path), f"unknown expression {path}"
    value: Any = known
    for name in path.split(".")[1:]:
        # a name that values.yaml does not have is an error here, where helm would say nothing
        value = value[name]
    return value
