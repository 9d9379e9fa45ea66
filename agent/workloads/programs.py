"""Whether a program is one that a person sits at, or one that waits for requests, by its command
line.

The command line is looked at here and forgotten: it holds tokens and passwords.
"""

import os
import re
from typing import Optional, Sequence

MAX_BYTES = 4096  # of a command line
_PYTHON = re.compile(r"python[\d.]*$|pypy[\d.]*$")
# By what is run (the program, the module or the script), never by its arguments: a path may hold
# any of these words.
_KINDS = (
    (
        "interactive",
        re.compile(
            r"ipykernel|jupyter|rstudio|rsession|code-server|(?:open)?vscode-server|marimo|ipython"
        ),
    ),
    (
        "service",
        re.compile(
            r"vllm|tritonserver|text-generation|ollama|ray::serve|rayserve|sglang|llama-server|"
            r"lmdeploy"
        ),
    ),
)


def kind_of(arguments: Sequence[str]) -> Optional[str]:
    """interactive or service; None where the command line says neither."""
    whole = arguments[0].lower() if arguments else ""
    if ".vscode-server/" in whole or ".cursor-server/" in whole:
        return "interactive"
    names = _names([argument.lower() for argument in arguments])
    kinds = (kind for kind, pattern in _KINDS if any(map(pattern.match, names)))
    return next(kinds, None)


def _names(arguments: Sequence[str]) -> Sequence[str]:
    """The program's name, and what an interpreter was told to run."""
    if not arguments:
        return []
    # a title that the program gave itself holds spaces: "VLLM::EngineCore",
    # "ray::ServeReplica:app:LLM"
    program = os.path.basename(arguments[0].split(" ")[0])
    rest = list(arguments[1:])
    if _PYTHON.match(program) is None:
        return [program, "ray" + rest[0]] if program == "ray" and rest else [program]
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "-m" and rest:
            return [program, rest[0]]
        if option == "-c":  # code, and then arguments of its own
            return [program]
        if option in ("-w", "-x") and rest:  # small letters by now
            rest.pop(0)
    return [program, os.path.basename(rest[0])] if rest else [program]
