"""What an installation gets: the three packages, typed, the commands, and nothing else."""

from __future__ import annotations

import configparser
import shutil
import sysconfig
import zipfile
from pathlib import Path

import pytest
from hatchling.build import build_wheel

from combine import __version__
from tests.tree import PACKAGES, ROOT, module_names

HAS_COMPILER = any(map(shutil.which, ("cc", "gcc", "clang")))
PLATFORM = sysconfig.get_platform().replace("-", "_").replace(".", "_")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    directory = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        name = build_wheel(str(directory))
    assert f"combine_system-{__version__}-py3-none-{PLATFORM if HAS_COMPILER else 'any'}.whl" == name
    return zipfile.ZipFile(directory / name)


def test_it_holds_the_three_packages_only(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {*PACKAGES, f"combine_system-{__version__}.dist-info"} == tops


def test_it_holds_every_module(wheel: zipfile.ZipFile) -> None:
    paths = {Path(name) for name in wheel.namelist() if name.endswith(".py")}
    names = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths}
    assert module_names() == names


def test_it_holds_the_accelerator_where_there_is_a_compiler(wheel: zipfile.ZipFile) -> None:
    assert HAS_COMPILER == ("combine/page/native/reader.so" in wheel.namelist())
    assert "combine/page/native/reader.c" in wheel.namelist()


def test_it_says_that_it_is_typed(wheel: zipfile.ZipFile) -> None:
    for package in PACKAGES:
        assert f"{package}/py.typed" in wheel.namelist()


def test_it_brings_the_commands(wheel: zipfile.ZipFile) -> None:
    entries = configparser.ConfigParser()
    entries.read_string(wheel.read(f"combine_system-{__version__}.dist-info/entry_points.txt").decode())
    assert {"combine", "combine-system", "start-cabin", "start-hdb", "start-harvester", "stop-all"} == set(
        entries["console_scripts"]
    )
    assert entries["console_scripts"]["combine"] == entries["console_scripts"]["combine-system"]


def test_every_command_can_be_loaded(wheel: zipfile.ZipFile) -> None:
    entries = configparser.ConfigParser()
    entries.read_string(wheel.read(f"combine_system-{__version__}.dist-info/entry_points.txt").decode())
    for place in entries["console_scripts"].values():
        module, _, function = place.partition(":")
        assert callable(getattr(__import__(module, fromlist=[function]), function)), place
