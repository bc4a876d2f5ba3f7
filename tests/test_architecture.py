"""The rules of the code that a machine can check. CONTRIBUTING.md says why; a new limit needs a decision record."""

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
import types
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest

import headcount

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "headcount"
MODULES = sorted(SOURCE.rglob("*.py"))

MODULE_LINES = 400
FUNCTION_LINES = 60
VAGUE_NAMES = {"util", "common", "base", "core", "type", "manager", "handler", "service", "context", "helper", "misc"}
FOREIGN_UNITS = re.compile(r"_(ms|msec|millis|us|ns|percent|pct|perc|kb|mb|gb|kib|mib|gib|minutes|hours|mw|kw)$")
STATISTIC = re.compile(r"_(mean|median|min|max|p\d+)$")
UNITS = re.compile(r"(^|_)(s|hz|w|c|j|bytes|tokens|requests|users|fraction|share|factor|ratio|price|per_[a-z]+)$")
UNITLESS = {
    *("n_effective", "in_flight", "server_running", "server_waiting", "turns", "adapters_in_use"),  # counts
    *("percentile", "resolution", "headroom", "speed", "jitter", "output_spread"),  # shares and multiples
    *("p50", "p95", "max", "value", "bound", "first", "second"),  # in the unit of what holds them
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    """The path as the messages show it."""
    return str(path.relative_to(ROOT))


every_module = pytest.mark.parametrize("path", MODULES, ids=name_of)


@cache
def tree_of(path: Path) -> ast.Module:
    """The module, parsed."""
    return ast.parse(path.read_text())


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function and method, nested ones included."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def is_public(name: str) -> bool:
    """Whether others may use the name."""
    return not name.startswith("_")


def test_imports_follow_the_layers() -> None:
    """Top imports bottom, never the reverse; the judging half never reaches the measuring half."""
    lint_imports = Path(sys.executable).with_name("lint-imports")
    checked = subprocess.run([str(lint_imports), "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout + checked.stderr


@every_module
def test_modules_are_short_and_named_after_what_they_hold(path: Path) -> None:
    """At most 400 lines, and no name that could hold anything."""
    assert len(path.read_text().splitlines()) <= MODULE_LINES
    assert path.stem.strip("_").removesuffix("s") not in VAGUE_NAMES
    assert path.parent.name.removesuffix("s") not in VAGUE_NAMES


@every_module
def test_functions_are_short(path: Path) -> None:
    """At most 60 lines, docstring included."""
    long = [
        f"{function.name}: {lines} lines"
        for function in functions(tree_of(path))
        if function.end_lineno and (lines := function.end_lineno - function.lineno + 1) > FUNCTION_LINES
    ]

    assert long == []


def time_readers(tree: ast.Module) -> list[str]:
    """Imports of the ``time`` module and calls of ``loop.time()`` on anything."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(alias.name == "time" for alias in node.names):
            found.append(f"line {node.lineno}: import time")
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            found.append(f"line {node.lineno}: from time import")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "time":
            found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


@every_module
def test_there_is_one_clock(path: Path) -> None:
    """Only ``virtual.py`` reads a clock; all others ask it (docs/decisions/0003)."""
    if path == SOURCE / "virtual.py":
        return

    assert time_readers(tree_of(path)) == []


@every_module
def test_no_error_is_swallowed_unseen(path: Path) -> None:
    """Everything may be caught only to note it, clean up and raise it again."""
    broad = []
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = ast.unparse(node.type) if node.type else "BaseException"
        if caught in {"Exception", "BaseException"} and not isinstance(node.body[-1], ast.Raise):
            broad.append(f"line {node.lineno}: except {caught}")

    assert broad == []


def defined_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every name a module gives to something: functions, arguments, variables, attributes."""
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


@every_module
def test_names_carry_base_units_only(path: Path) -> None:
    """Milliseconds, percent and megabytes exist only where text for people is made."""
    if path == SOURCE / "report" / "format.py":
        return
    foreign = [f"line {line}: {name}" for name, line in defined_names(tree_of(path)) if FOREIGN_UNITS.search(name)]

    assert foreign == []


def structs() -> Iterator[type[msgspec.Struct]]:
    """Every Struct the package defines."""
    for module_info in pkgutil.walk_packages(headcount.__path__, "headcount."):
        module = importlib.import_module(module_info.name)
        for thing in vars(module).values():
            if isinstance(thing, type) and issubclass(thing, msgspec.Struct) and thing.__module__ == module.__name__:
                yield thing


def holds_floats(kind: object) -> bool:
    """Whether a field's type is a float, None or several of them aside."""
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) in {typing.Union, tuple, list}:
        return any(holds_floats(part) for part in typing.get_args(kind))
    return kind is float


def says_its_unit(name: str) -> bool:
    """Whether the name ends in a unit, or needs none."""
    return name in UNITLESS or UNITS.search(name) is not None


def test_measured_fields_say_their_unit() -> None:
    """A Struct's float carries its unit in its name, since names travel into files and other people's scripts."""
    unnamed = [
        f"{struct.__module__}.{struct.__name__}.{field.name}"
        for struct in structs()
        for field in msgspec.structs.fields(struct)
        if holds_floats(field.type) and not says_its_unit(STATISTIC.sub("", field.name))
    ]

    assert unnamed == []


def declared_names(tree: ast.Module) -> set[str]:
    """What ``__all__`` lists; empty where there is none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def public_definitions(tree: ast.Module) -> set[str]:
    """The functions and classes at the module's top that have no underscore."""
    return {node.name for node in tree.body if isinstance(node, Function | ast.ClassDef) and is_public(node.name)}


@every_module
def test_all_lists_the_public_names(path: Path) -> None:
    """``__all__`` lists every public function and class, and nothing that is not there."""
    tree = tree_of(path)
    declared = declared_names(tree)

    assert public_definitions(tree) - declared == set()
    assert [name for name in declared if not hasattr(importlib.import_module(module_of(path)), name)] == []


def module_of(path: Path) -> str:
    """The dotted name under which a source file is imported."""
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


@every_module
def test_only_listed_names_are_imported_from_elsewhere(path: Path) -> None:
    """What one part takes of another is in the other's ``__all__``."""
    listed = {module_of(other): declared_names(tree_of(other)) for other in MODULES}
    unlisted = [
        f"line {node.lineno}: {node.module}.{alias.name}"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and node.module in listed
        for alias in node.names
        if alias.name not in listed[node.module] and f"{node.module}.{alias.name}" not in listed
    ]

    assert unlisted == []


@every_module
def test_public_things_say_what_they_are(path: Path) -> None:
    """Modules, public classes, functions and methods have a docstring."""
    tree = tree_of(path)
    silent = [] if ast.get_docstring(tree) or not tree.body else ["the module"]
    for node in tree.body:
        if not isinstance(node, Function | ast.ClassDef) or not is_public(node.name):
            continue
        inner = node.body if isinstance(node, ast.ClassDef) else []
        methods = [method for method in inner if isinstance(method, Function) and is_public(method.name)]
        silent += [f"{thing.name}, line {thing.lineno}" for thing in (node, *methods) if not ast.get_docstring(thing)]

    assert silent == []


def test_decisions_are_numbered() -> None:
    """Decision records count from 0001 without a gap, and each says its number in its title."""
    records = sorted((ROOT / "docs" / "decisions").glob("*.md"))

    assert [record.name[:5] for record in records] == [f"{number:04}-" for number in range(1, len(records) + 1)]
    assert [record.read_text()[:6] for record in records] == [f"# {record.name[:4]}" for record in records]
