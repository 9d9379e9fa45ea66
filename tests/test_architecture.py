"""The house, as a test: who may import whom, how long files get, what nobody imports."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 600
MAX_TEMPLATE_WIDTH = 120  # djangofmt breaks at 100; a tag of Django stays on one line

# A room and the rooms it may import, besides itself, `lib` and `settings`-free Django.
MAY_IMPORT: dict[str, set[str]] = {
    "lib": set(),
    "operations": set(),
    "accounts": {"operations"},
    "inventory": {"accounts", "operations", "agent.wire"},
    "jobs": {"accounts", "inventory", "operations", "agent.wire"},
    "telemetry": {"accounts", "inventory", "operations", "agent.wire", "agent.packed"},
    "notify": {"accounts", "operations"},
    "ingest": {
        *("accounts", "inventory", "jobs", "telemetry", "operations"),
        *("agent.wire", "agent.packed", "agent.actions.orders"),
    },
    "ledger": {"accounts", "inventory", "jobs", "telemetry", "operations"},
    "figures": {"accounts", "inventory", "jobs", "ledger"},
    "costs": {"accounts", "inventory", "jobs", "ledger", "figures", "operations"},
    "budgets": {"accounts", "jobs", "figures", "costs", "operations"},
    "diagnosis": {
        "accounts",
        "inventory",
        "jobs",
        "telemetry",
        "ledger",
        "figures",
        "costs",
        "operations",
    },
    "alerts": {
        "accounts",
        "inventory",
        "jobs",
        "telemetry",
        "ingest",
        "ledger",
        "figures",
        "costs",
        "budgets",
        "diagnosis",
        "notify",
        "operations",
    },
    "actions": {
        "accounts",
        "alerts",
        "inventory",
        "jobs",
        "telemetry",
        "ingest",
        "notify",
        "operations",
    },
    "reports": {
        "accounts",
        "alerts",
        "inventory",
        "jobs",
        "ledger",
        "figures",
        "costs",
        "budgets",
        "diagnosis",
        "notify",
        "operations",
    },
    "planning": {
        *("accounts", "inventory", "jobs", "ledger", "figures", "costs", "diagnosis"),
    },
    "finance": {
        *("accounts", "inventory", "jobs", "ledger", "figures", "costs", "reports", "operations"),
        "planning",
    },
}
# These read across everything; `demo` is also the only door to the simulator.
ACROSS = {"dashboard", "api", "demo", "stack", "front"}
SIMULATOR = {"demo": {"agent"}}
# What Django, or the house, calls the same in every room; commands and views have the names of what
# they are asked for.
ROLES = {
    "models",
    "views",
    "urls",
    "apps",
    "tasks",
    "middleware",
    "selectors",
    "services",
    "settings",
    "retention",
    "source",
    "__main__",
}
NAMED_FOR_WHO_ASKS = {"commands", "views"}
# Each kind of scheduler has the same doors and books.
SCHEDULERS = {"slurm", "kubernetes", "docker"}
OF_SCHEDULERS = {"detect", "client", "devices", "places"}
# A local's name says what it holds, not what happened to it.
SAYS_NOTHING = {"told", "found", "one", "said", "laid", "taken", "known"}
MAX_CONTENT = 120  # expressions and statements of a function


@pytest.fixture(scope="module", autouse=True)
def _forgotten():
    """The trees of all files are a few hundred megabytes: not kept for the rest of a run."""
    yield
    for kept in (nodes, functions):
        kept.cache_clear()


@cache
def modules() -> list[tuple[str, Path]]:
    """Every module of ours but the migrations, with its file."""
    return [
        (".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path)
        for top in ("fleetwatch", "agent", "cli")
        for path in sorted((ROOT / top).rglob("*.py"))
        if "migrations" not in path.parts
    ]


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Every node of the file's tree: parsed and walked once for all rules."""
    return list(ast.walk(ast.parse(text(path))))


@cache
def imports(path: Path) -> list[str]:
    """Every module that a file names in an import, inside functions and to import_module too."""
    found = texts_of_modules(nodes(path))
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


def texts_of_modules(tree: list[ast.AST]) -> list[str]:
    """What a file may hand to import_module: every text in it that is the name of a module."""
    names = {node.id for node in tree if isinstance(node, ast.Name)}
    attributes = {node.attr for node in tree if isinstance(node, ast.Attribute)}
    if "import_module" not in names | attributes:
        return []
    texts = [node.value for node in tree if isinstance(node, ast.Constant)]
    return [name for name in texts if isinstance(name, str) and is_module(name)]


@cache
def is_module(name: str) -> bool:
    if name == "pynvml":
        return True
    place = ROOT.joinpath(*name.split("."))
    return name.startswith(("agent.", "fleetwatch.")) and (
        place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()
    )


@cache
def graph() -> dict[str, set[str]]:
    """Module -> the modules of ours that it names, but for the packages that it lies in."""
    ours = dict(modules())
    return {
        name: {
            other
            for other in imports(path)
            if other in ours and not f"{name}.".startswith(f"{other}.")
        }
        for name, path in ours.items()
    }


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if parts[0] == "fleetwatch" and len(parts) > 1 else parts[0]


def is_allowed(importer: str, imported: str) -> bool:
    here, there = room(importer), room(imported)
    if imported.startswith("agent"):
        allowed = SIMULATOR.get(here) or {
            name for name in MAY_IMPORT.get(here, set()) if name.startswith("agent")
        }
        return any(
            imported == name or imported.startswith(f"{name}.") or name.startswith(f"{imported}.")
            for name in allowed
        )
    if not imported.startswith("fleetwatch.") or there in (here, "lib"):
        return True
    if here in ACROSS:
        return there in MAY_IMPORT or there in ACROSS
    return there in MAY_IMPORT.get(here, set())


def test_no_modules_need_each_other():
    left = graph()
    while ends := {name for name, needed in left.items() if not needed & left.keys()}:
        left = {name: needed for name, needed in left.items() if name not in ends}

    assert left == {}


def test_a_text_given_to_import_module_is_an_import():
    name = "agent.workloads.slurm.client"
    tree = ast.parse(f"import importlib\nimportlib.import_module('{name}')")

    assert texts_of_modules(list(ast.walk(tree))) == [name]
    assert texts_of_modules(list(ast.walk(ast.parse(f"'{name}'")))) == []


def test_rooms_import_only_what_lies_below_them():
    forbidden = [
        f"{module} imports {imported}"
        for module, path in modules()
        if module.startswith("fleetwatch.") and room(module) in {*MAY_IMPORT, *ACROSS}
        for imported in imports(path)
        if not is_allowed(module, imported)
    ]

    assert forbidden == []


def test_only_pages_the_api_and_the_demo_know_finance():
    rooms = {
        room(module)
        for module, needed in graph().items()
        if any(room(other) == "finance" for other in needed)
    }

    assert rooms == {"finance", "dashboard", "api", "demo"}


def test_every_room_is_in_the_table():
    rooms = {path.parent.name for path in (ROOT / "fleetwatch").glob("*/__init__.py")}

    assert rooms - set(MAY_IMPORT) - ACROSS == set()


def test_the_agent_imports_nothing_of_the_hub_and_nothing_installed_but_pynvml():
    allowed_third_party = {"pynvml"}
    standard = __import__("sys").stdlib_module_names

    foreign = [
        f"{module} imports {imported}"
        for module, path in modules()
        if module.startswith("agent")
        for imported in imports(path)
        if imported.split(".")[0] not in standard | {"agent"} | allowed_third_party
    ]
    pynvml = {
        module
        for module, path in modules()
        if module.startswith("agent") and "pynvml" in set(imports(path))
    }

    assert foreign == []
    # the daemon loads the bindings before all else, for the memory that it costs
    others = {module for module in pynvml if not module.startswith("agent.sources.nvml.")}
    assert others == {"agent.memory"}


def test_the_command_line_imports_nothing_but_itself_and_the_standard_library():
    standard = __import__("sys").stdlib_module_names

    foreign = [
        f"{module} imports {imported}"
        for module, path in modules()
        if module.startswith("cli")
        for imported in imports(path)
        if imported.split(".")[0] not in standard | {"cli"}
    ]

    assert foreign == []


def test_what_runs_on_hosts_keeps_to_the_grammar_of_python_3_8():
    for module, path in modules():
        if module.startswith(("agent", "cli")):
            tree = ast.parse(text(path), feature_version=(3, 8))
            newer = [
                node.lineno for node in ast.walk(tree) if isinstance(node, ast.Match | ast.TryStar)
            ]
            assert newer == [], module


def test_nothing_imports_tasks_or_views_but_the_addresses():
    found = [
        f"{module} imports {imported}"
        for module, path in modules()
        if not module.endswith(("urls", "celery"))
        for imported in imports(path)
        if imported.startswith("fleetwatch.")
        and any(part in ("tasks", "views") for part in imported.split("."))
    ]

    assert found == []


def test_settings_read_the_environment_and_nothing_else_does():
    readers = {
        module
        for module, path in modules()
        if module.startswith("fleetwatch.")
        and not module.startswith(("fleetwatch.stack", "fleetwatch.lib.env"))
        for name in ("os.environ", "os.getenv")
        if name in text(path)
    }

    assert readers <= {"fleetwatch.front.running", "fleetwatch.celery"}


def test_pure_modules_know_no_django():
    pure = [
        *(
            f"{name}/judgement/{path.name}"
            for name in ("ledger", "diagnosis")
            for path in (ROOT / "fleetwatch" / name / "judgement").glob("*.py")
        ),
        "ledger/policy.py",
        "telemetry/codec.py",
        "figures/pricing.py",
        "dashboard/drawing/figures.py",
        "notify/message.py",
    ]

    found = {
        name
        for name in pure
        for imported in imports(ROOT / "fleetwatch" / name)
        if imported.startswith("django")
    }

    assert found == set()


def floors(top: str) -> int:
    """The longest chain of imports inside a room."""
    inside = {name: needed for name, needed in graph().items() if f"{name}.".startswith(f"{top}.")}

    @cache
    def depth(module: str) -> int:
        return 1 + max((depth(other) for other in inside[module] & inside.keys()), default=0)

    return max(depth(module) for module in inside)


def test_the_ledger_has_at_most_nine_floors():
    assert floors("fleetwatch.ledger") <= 9


def test_no_file_passes_the_length_that_one_can_keep_in_mind():
    paths = [path for _, path in modules()] + list((ROOT / "tests").rglob("*.py"))
    lines = {str(path.relative_to(ROOT)): len(text(path).splitlines()) for path in paths}

    assert {path: count for path, count in lines.items() if count > MAX_LINES} == {}


def test_no_line_of_a_template_is_wider_than_a_diff():
    lines = {
        f"{path.relative_to(ROOT)}:{number}": len(line)
        for path in (ROOT / "templates").rglob("*.*")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    }

    assert {place: width for place, width in lines.items() if width > MAX_TEMPLATE_WIDTH} == {}


def test_a_module_name_exists_once():
    named = Counter(
        path.stem
        for _, path in modules()
        if path.stem != "__init__"
        and path.parent.name not in NAMED_FOR_WHO_ASKS
        and not (path.parent.name in SCHEDULERS and path.stem in OF_SCHEDULERS)
    )

    assert {name for name, count in named.items() if count > 1} - ROLES == set()


def test_a_local_says_what_it_is():
    named = [
        f"{module}.{name}"
        for module, name, function in functions()
        if names_of_locals(function) & SAYS_NOTHING
    ]

    assert named == []


def test_a_function_holds_no_more_than_one_takes_in():
    large = {
        f"{module}.{name}": held
        for module, name, function in functions()
        if (held := content(function)) > MAX_CONTENT
    }

    assert large == {}


def test_several_things_are_not_assigned_as_one():
    packed = [
        f"{module}:{node.lineno}"
        for module, path in modules()
        for node in nodes(path)
        if isinstance(node, ast.Assign) and is_packed(node)
    ]

    assert packed == []


@cache
def functions() -> list[tuple[str, str, list[ast.AST]]]:
    """Module, name and all nodes of every function."""
    return [
        (module, node.name, list(ast.walk(node)))
        for module, path in modules()
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def names_of_locals(function: list[ast.AST]) -> set[str]:
    """Of what the function is given and what it stores."""
    stored = {
        node.id
        for node in function
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return stored | {node.arg for node in function if isinstance(node, ast.arg)}


def content(function: list[ast.AST]) -> int:
    """Its expressions and statements."""
    return sum(isinstance(node, ast.expr | ast.stmt) for node in function)


def is_packed(node: ast.Assign) -> bool:
    """Whether it is a, b = c, d."""
    targets = (isinstance(target, ast.Tuple) for target in node.targets)
    return isinstance(node.value, ast.Tuple) and any(targets)
