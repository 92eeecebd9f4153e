"""Old names of modules that moved."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from akorn._moved import MOVED, NAMES


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_name_gives_the_new_module_and_says_so(old: str) -> None:
    new = import_module(MOVED[old])
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=MOVED[old]):
        assert import_module(old) is new
    assert new.__spec__ is not None
    assert new.__spec__.name == MOVED[old]


@pytest.mark.parametrize(("package", "name"), [(package, name) for package, names in NAMES.items() for name in names])
def test_a_name_that_left_its_package_still_imports(package: str, name: str) -> None:
    with pytest.warns(DeprecationWarning, match=NAMES[package][name]):
        assert getattr(import_module(package), name) is getattr(import_module(NAMES[package][name]), name)


def test_names_in_an_old_module_import() -> None:
    code = "from akorn.engine.ledger import write_record; from akorn.files import replacing; import akorn.cli.solve"
    done = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("DeprecationWarning") == 3
    assert "akorn.ledger.records" in done.stderr
