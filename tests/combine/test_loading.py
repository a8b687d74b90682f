"""Nothing is searched for garbage while modules are loaded, and afterwards it is as it was before."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from combine.loading import loading


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    was_enabled = gc.isenabled()
    yield
    gc.unfreeze()
    (gc.enable if was_enabled else gc.disable)()


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_collector_rests_and_goes_on_as_before(was_enabled: bool) -> None:
    (gc.enable if was_enabled else gc.disable)()
    with loading(), loading():
        assert not gc.isenabled()
    assert was_enabled == gc.isenabled()


@pytest.mark.parametrize("names", [(), ("loaded_by_a_test",)])
def test_what_was_loaded_is_searched_no_more(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    gc.unfreeze()
    with loading():
        for name in names:
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert bool(names) == bool(gc.get_freeze_count())


def test_it_goes_on_after_a_fault_too() -> None:
    gc.enable()
    with pytest.raises(ImportError), loading():
        raise ImportError
    assert gc.isenabled()
