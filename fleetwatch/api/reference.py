"""The OpenAPI description as a page shows it: operations in groups, each with a call to copy and
the shape of its answer. Pure.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

Described = Mapping[str, Any]

# parameters that most operations take: told once, in a card of their own
COMMON = {
    "Period": ("from", "to", "range"),
    "Filters": (
        "node", "user", "team", "project", "cost_centre", "gpu_model", "kind", "cluster", "label",
        "state",
    ),
    "Paging": ("limit", "cursor"),
}  # fmt: skip
DEPTH = 3  # of an answer's shape that is spelled out
WIDTH = 84  # of a line in a shape
INDENT = "  "
OPENS = '-H "Authorization: Bearer $FLEETWATCH_TOKEN"'
BODY = '-H "Content-Type: application/json" -d @body.json'
EXAMPLES = {"from": "now-7d", "limit": "10"}  # in the address that reads, where they are taken
_TYPES: dict[str, str] = {
    "string": "text",
    "boolean": "true or false",
    "null": "null",
    "object": "object",
}
_FORMATS = {"date-time": "time", "date": "day", "time": "time of day"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """`kind` is its type in words, `default` "" where there is none."""

    name: str
    kind: str
    default: str
    meaning: str
    is_required: bool


@dataclass(frozen=True, slots=True)
class Operation:
    """`meaning` is its paragraphs, `summary` the first sentence of them; `common` names the sets of
    COMMON that it takes whole; `body` is what is sent, "" = nothing; `asked` is its address, with
    variables of a shell for what only the reader knows.
    """

    id: str
    method: str
    path: str
    summary: str
    meaning: list[str]
    parameters: list[Parameter]
    common: dict[str, str]
    body: str
    answer: str
    asked: str

    @property
    def is_write(self) -> bool:
        return self.method != "GET"

    @property
    def address(self) -> str:
        """What opens the answer in a browser; "" where it needs more than that."""
        return "" if self.is_write or "$" in self.asked else self.asked

    @property
    def call(self) -> str:
        """A command line, over two or three lines of a shell."""
        verb = f" -X {self.method}" if self.is_write else ""
        lines = [f'curl -s{verb} "$FLEETWATCH_URL{self.asked}"', OPENS, *([BODY] * bool(self.body))]
        return f" \\\n{INDENT}".join(lines)

    def with_values(self, values: Mapping[str, str]) -> "Operation":
        """What reads, with values that are there for its variables, as far as these name them."""
        if self.is_write:
            return self
        asked = self.asked
        for name in re.findall(r"\$([A-Z_]+)", asked):
            # a number is one of what the path names: /findings/$NUMBER
            of = self.path.split("/")[3].rstrip("s") if name == "NUMBER" else name.lower()
            if of in values:
                asked = asked.replace(f"${name}", quote(values[of], safe="/"))
        return replace(self, asked=asked)


@dataclass(frozen=True, slots=True)
class Group:
    key: str
    title: str
    meaning: str
    operations: list[Operation]


def groups(described: Described) -> list[Group]:
    """Every operation once, in the order of the description's tags."""
    common = _common_parameters(described)
    operations = [
        (each["tags"][0], _operation(described, common, path, method, each))
        for path, methods in described["paths"].items()
        for method, each in methods.items()
    ]
    return [
        Group(
            tag["name"],
            tag["x-displayName"],
            tag["description"],
            [operation for name, operation in operations if name == tag["name"]],
        )
        for tag in described["tags"]
    ]


def common_parameters(described: Described) -> dict[str, list[Parameter]]:
    """The parameters of each set of COMMON, as the first operation that takes them has them."""
    common = _common_parameters(described)
    return {name: [_parameter(common[each]) for each in names] for name, names in COMMON.items()}


def _common_parameters(described: Described) -> dict[str, Described]:
    """By their names."""
    return {
        each["name"]: each
        for methods in reversed(described["paths"].values())
        for operation in methods.values()
        for each in operation["parameters"]
        if any(each["name"] in COMMON[name] for name in _common(operation))
    }


def _common(operation: Described) -> list[str]:
    """The sets of COMMON of which the operation takes every parameter."""
    names = {each["name"] for each in operation["parameters"]}
    return [name for name, of in COMMON.items() if names.issuperset(of)]


def _operation(
    described: Described,
    common: Mapping[str, Described],
    path: str,
    method: str,
    operation: Described,
) -> Operation:
    parameters = operation["parameters"]
    body = _sent(operation)
    meaning = _paragraphs(operation.get("description", ""))
    return Operation(
        id=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=_first_sentence(meaning[0]),
        meaning=meaning,
        parameters=_own_parameters(operation, common),
        common={name: ", ".join(COMMON[name]) for name in _common(operation)},
        body=shape(body, described) if body else "",
        answer=shape(_answer(operation), described),
        asked=_address(path, parameters, EXAMPLES if method == "get" else {}),
    )


def _own_parameters(operation: Described, common: Mapping[str, Described]) -> list[Parameter]:
    """Those that no common set has, or has with other words."""
    elsewhere = {each for name in _common(operation) for each in COMMON[name]}
    return [
        _parameter(each)
        for each in operation["parameters"]
        if each["name"] not in elsewhere or each != common[each["name"]]
    ]


def _paragraphs(text: str) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]


def _first_sentence(text: str) -> str:
    """As far as its first full stop, semicolon or colon."""
    return re.split(r"[.;:](?: |$)", text, maxsplit=1)[0]


def _sent(operation: Described) -> Described | None:
    if "requestBody" not in operation:
        return None
    schema: Described = operation["requestBody"]["content"]["application/json"]["schema"]
    return schema


def _answer(operation: Described) -> Described:
    schema: Described = operation["responses"][200]["content"]["application/json"]["schema"]
    return schema


def _parameter(described: Described) -> Parameter:
    schema = described["schema"]
    default = schema.get("default", "")
    return Parameter(
        described["name"],
        in_words(schema) if described["name"] not in COMMON["Period"][:2] else "moment",
        str(default).lower() if isinstance(default, bool) else str(default),
        schema.get("description", ""),
        described["required"],
    )


def _address(path: str, parameters: Iterable[Described], examples: Mapping[str, str]) -> str:
    """An address that can be asked, but for what only the reader knows: a variable of a shell."""
    query = []
    for each in parameters:
        name = each["name"]
        if each["in"] == "path":
            path = path.replace(f"{{{name}}}", f"${name.upper()}")
        elif each["required"]:
            query.append(f"{name}=${name.upper()}")
        elif name in examples:
            query.append(f"{name}={examples[name]}")
    return f"{path}?{'&'.join(query)}" if query else path


def in_words(schema: Described) -> str:
    """What a value is: "integer, 1 to 1000", "list of text", one of several words."""
    if "$ref" in schema:
        return _name(schema)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(in_words, schema["anyOf"])))
    if "enum" in schema:
        return " | ".join(each or '""' for each in schema["enum"])
    kind: str = schema.get("type", "anything")
    if kind == "array":
        return f"list of {in_words(schema['items'])}"
    if kind in ("integer", "number"):
        return kind + _bounds(schema)
    plain = _TYPES.get(kind, kind)
    return _FORMATS.get(schema.get("format", ""), plain)


def _bounds(schema: Described) -> str:
    """ ", 1 to 1000" where both ends are told."""
    if "minimum" not in schema or "maximum" not in schema or schema["maximum"] > 2**31:
        return ""
    return f", {schema['minimum']:,} to {schema['maximum']:,}"


def shape(schema: Described, described: Described, depth: int = DEPTH, indent: str = "") -> str:
    """A value's shape as text, an object's fields by their names: { "rows": [ { "key": text } ] }.

    What lies deeper than `depth` is {…}.
    """
    if "$ref" in schema:
        schema = described["components"]["schemas"][_name(schema)]
    if "anyOf" in schema:
        parts = (shape(each, described, depth, indent) for each in schema["anyOf"])
        return " | ".join(dict.fromkeys(parts))
    if schema.get("type") == "array":
        return f"[{shape(schema['items'], described, depth, indent)}]"
    if "properties" in schema:
        return _object(schema["properties"], described, depth, indent)
    if isinstance(schema.get("additionalProperties"), dict):
        value = shape(schema["additionalProperties"], described, depth, indent)
        return f"{{name: {value}}}"
    return in_words(schema)


def _object(fields: Described, described: Described, depth: int, indent: str) -> str:
    """On one line where it is short."""
    if depth == 0:
        return "{…}"
    inner = indent + INDENT
    lines = [
        f'"{name}": {shape(each, described, depth - 1, inner)}' for name, each in fields.items()
    ]
    flat = f"{{{', '.join(lines)}}}"
    if len(indent) + len(flat) <= WIDTH and "\n" not in flat:
        return flat
    return "{\n" + "".join(f"{inner}{line},\n" for line in lines) + f"{indent}}}"


def _name(schema: Described) -> str:
    name: str = schema["$ref"].rsplit("/", 1)[-1]
    return name
