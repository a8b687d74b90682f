"""The rules of this codebase that a machine can see: imports go down, calls go right, and nothing grows unnoticed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from combine.services import EVERYONE, SERVICES, UNITS, WORKERS
from tests.tree import PACKAGES, ROOT, Module, modules

ROOMS = ("web", "schedule", "page", "keep")

#: What lies below the rooms, whatever else stands at the root of the library.
GROUND = ("config", "errors", "services", "urls", "supervise")

#: A library and the only place that may import it.
HOMES = {
    "daemon": ("combine.daemonise",),
    "sqlitedict": ("combine.schedule.site_visits",),
    "aiohttp": ("combine.web.aiohttp_parts",),
    "lxml": ("combine.page", "combine.web"),
    "selectolax": ("combine.page",),
    "ada_url": ("combine.urls",),
    "publicsuffixlist": ("combine.urls",),
    "click": ("combine.cli",),
}

#: The places in which an unforeseen error of one verb, job, page or case is caught, told and answered.
CATCHERS = ("combine.ipc.server", "daemons.harvester", "daemons.parser", "combine.cli.check")

#: Where a fork ends: whatever happened in the child, it must not go on as a second parent.
FORKS = ("combine.spawn",)

FORBIDDEN_NAMES = {"utils", "helpers", "common", "misc", "base", "manager", "handler"}


def place_of(name: str) -> str:
    """The room, or the module at the library's root, that a module belongs to."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "combine" else parts[0]


def crossing(of: str) -> Iterator[tuple[Module, str]]:
    """Each import of one of our modules by a module of the package."""
    for module in modules():
        if module.name.split(".")[0] == of:
            for name in module.imports:
                if name.split(".")[0] in PACKAGES:
                    yield module, name


def broken(rule: str, found: list[str]) -> None:
    """Fail with all that breaks a rule."""
    assert not found, f"{rule}:\n  " + "\n  ".join(sorted(found))


# Imports ------------------------------------------------------------------------------------------------------------


def test_imports_go_down_from_daemons_to_combine_to_formats() -> None:
    order = {name: place for place, name in enumerate(PACKAGES)}
    broken(
        "formats ← combine ← daemons",
        [
            f"{module.name} imports {name}"
            for package in PACKAGES
            for module, name in crossing(package)
            if order[name.split(".")[0]] > order[package]
        ],
    )


def test_daemons_never_import_one_another() -> None:
    broken(
        "daemons are thin shells side by side",
        [
            f"{module.name} imports {name}"
            for module, name in crossing("daemons")
            if name.startswith("daemons.") and name != module.name
        ],
    )


def test_rooms_do_not_import_one_another() -> None:
    broken(
        "web, schedule, page and keep stand side by side",
        [
            f"{module.name} imports {name}"
            for module, name in crossing("combine")
            if place_of(module.name) in ROOMS and place_of(name) in ROOMS and place_of(name) != place_of(module.name)
        ],
    )


def test_only_the_command_and_the_daemons_stand_above_the_rooms() -> None:
    broken(
        "nothing below imports cli",
        [
            f"{module.name} imports {name}"
            for package in PACKAGES
            for module, name in crossing(package)
            if place_of(name) == "cli" and place_of(module.name) != "cli"
        ],
    )


def test_the_ground_knows_no_room() -> None:
    broken(
        f"{', '.join(GROUND)} lie below the rooms",
        [
            f"{module.name} imports {name}"
            for module, name in crossing("combine")
            if place_of(module.name) in GROUND and place_of(name) in (*ROOMS, "ipc", "cli")
        ],
    )


def test_no_room_imports_itself_round_about() -> None:
    graph: dict[str, set[str]] = {}
    for module, name in crossing("combine"):
        here, there = place_of(module.name), place_of(name)
        if here != there and "combine" not in (here, there):
            graph.setdefault(here, set()).add(there)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"imports in a circle: {' → '.join(error.args[1])}")


def test_formats_need_the_standard_library_only() -> None:
    broken(
        "formats/ is pure",
        [
            f"{module.name} imports {name}"
            for module in modules()
            if module.name.startswith("formats")
            for name in module.imports
            if name.split(".")[0] not in sys.stdlib_module_names | {"formats"}
        ],
    )


@pytest.mark.parametrize("library", HOMES)
def test_a_library_has_one_home(library: str) -> None:
    broken(
        f"{library} is imported in {' and '.join(HOMES[library])} only",
        [
            module.name
            for module in modules()
            if any(name.split(".")[0] == library for name in module.imports)
            and not any(module.name == home or module.name.startswith(f"{home}.") for home in HOMES[library])
        ],
    )


# Calls --------------------------------------------------------------------------------------------------------------


def test_calls_go_right_only() -> None:
    for caller in SERVICES.values():
        for other in SERVICES.values():
            assert not (caller.may_call(other) and other.may_call(caller)), (caller.name, other.name)
    assert SERVICES["harvester"].may_call(SERVICES["scheduler"])
    assert SERVICES["parser"].may_call(SERVICES["idbd"])
    assert SERVICES["scheduler"].may_call(SERVICES["idbd"])
    assert not SERVICES["idbd"].may_call(SERVICES["scheduler"])
    assert not SERVICES["parser"].may_call(SERVICES["logd"])


def calls_of(module: Module) -> Iterator[str]:
    """The services for which a module makes itself a client."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            words = [word.value for word in node.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
            if name in ("Client", "AsyncClient"):
                yield from words[:1]


def test_daemons_make_clients_of_those_they_may_call() -> None:
    found = []
    for module in modules():
        package, _, name = module.name.partition(".")
        for called in calls_of(module):
            if package == "daemons" and (name not in SERVICES or not SERVICES[name].may_call(SERVICES[called])):
                found.append(f"{module.name} calls {called}")
            elif package == "combine" and place_of(module.name) != "cli":
                found.append(f"{module.name} makes itself a client of {called}: rooms are handed theirs")
    broken("calls go right", found)


def test_every_verb_that_is_called_exists() -> None:
    known = {verb for service in SERVICES.values() for verb in service.verbs}
    found = []
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "call":
                verb = node.args[0] if node.args else None
                if isinstance(verb, ast.Constant) and verb.value not in known:
                    found.append(f"{module.name}:{node.lineno} {ast.unparse(verb)}")
    broken("a verb stands in combine/services.py", found)


def test_verbs_are_few() -> None:
    verbs = [verb for service in SERVICES.values() for verb in service.verbs if verb not in EVERYONE]
    assert len(verbs) + len(EVERYONE) <= 20
    assert all(set(EVERYONE) <= set(service.verbs) for service in SERVICES.values() if service.verbs)
    assert set(SERVICES) == {name for names in UNITS.values() for name in names}
    assert all(not SERVICES[name].socket for name in WORKERS)


def test_every_service_is_a_daemon_of_its_name() -> None:
    names = {module.name for module in modules()}
    assert {f"daemons.{name}" for name in (*SERVICES, "keepalive")} | {"daemons"} == {
        name for name in names if name.split(".")[0] == "daemons"
    }


# Form ---------------------------------------------------------------------------------------------------------------


def test_modules_have_names_that_say_something() -> None:
    names = {part for module in modules() for part in module.name.split(".")}
    assert names & FORBIDDEN_NAMES == set()


def test_packages_that_only_hold_hold_nothing() -> None:
    for package in ("daemons", "formats"):
        tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
        assert 1 == len(tree.body), f"{package}/__init__.py holds a docstring and nothing else"


def test_no_module_runs_away() -> None:
    broken(
        "over the size (400 lines, 200 in daemons/) a docstring says why, in a line that begins with Size:",
        [
            f"{module.name} has {lines} lines"
            for module in modules()
            if (lines := module.text.count("\n")) > (200 if module.name.startswith("daemons") else 400)
            and not re.search(r"^\s*Size:? +\S", module.docstring, re.MULTILINE)
        ],
    )


def test_unforeseen_errors_are_caught_in_few_places() -> None:
    found = []
    for module in modules():
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ExceptHandler):
                continue
            caught = "" if node.type is None else ast.unparse(node.type)
            goes_on = not any(isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(node))
            if caught in ("", "Exception", "BaseException") and goes_on and module.name not in CATCHERS + FORKS:
                found.append(f"{module.name}:{node.lineno}")
    broken(f"except Exception stands in {', '.join(CATCHERS)} only", found)


def test_tests_do_not_sleep() -> None:
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "sleep"):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    broken("a test waits for a line, a file or an event, with a deadline", found)


# The tree -----------------------------------------------------------------------------------------------------------

#: Homes of people and machines; a service's own places (/var/lib/combine) are none.
MACHINE_PATH = re.compile(r"(?<![\w.}/-])/(?:root|work|home/\w+|Users/\w+)/\w")
ADDRESS = re.compile(r"(?<![\w:/.+-])[\w.+-]+@((?:[\w-]+\.)+[a-z]{2,})(?![\w@])")
NOBODY = re.compile(r"(?:^|\.)(?:example(?:\.(?:org|com|net))?|invalid|test|localhost|service|socket|target|timer)$")


def texts() -> Iterator[tuple[Path, str]]:
    """Every text file of the tree, as git lists them, or as they lie where there is no git."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    names = [name.decode() for name in listed.stdout.split(b"\0") if name]
    if listed.returncode:
        names = [
            str(path.relative_to(ROOT))
            for place in (*PACKAGES, "bench", "bin", "docs", "etc", "tests", ".ci")
            for path in (ROOT / place).rglob("*")
        ]
    for name in names:
        path = ROOT / name
        if path.is_file() and b"\0" not in (data := path.read_bytes()):
            yield path, data.decode("utf-8", "replace")


def test_the_tree_names_no_machine_and_nobody() -> None:
    found = []
    for path, text in texts():
        for number, line in enumerate(text.split("\n"), 1):
            people = [match[0] for match in ADDRESS.finditer(line) if not NOBODY.search(match[1])]
            for name in [*MACHINE_PATH.findall(line), *people]:
                found.append(f"{path.relative_to(ROOT)}:{number} {name}")
    broken("no path of a machine and no address of a person", found)
