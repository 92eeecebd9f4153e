"""The commands together: help without torch, versions, and mistakes."""

import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

import akorn
from akorn.cli import COMMANDS, main
from akorn.cli.common import CommonOptions

from .conftest import Akorn, assert_refused


def run_without_torch(*words: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process that fails if anything imports torch."""
    code = """
import sys
class Refuse:
    def find_spec(name, path=None, target=None):
        assert name != "torch", "torch was imported"
sys.meta_path.insert(0, Refuse)
from akorn.cli import main
main()
"""
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=60)


def test_the_check_for_torch_works() -> None:
    assert "torch was imported" in run_without_torch("bench", "--couplings", "dense").stderr


@pytest.mark.parametrize("words", [["--version"], ["--help"], *([name, "--help"] for name in COMMANDS)], ids=" ".join)
def test_help_is_quick_and_needs_no_torch(words: list[str]) -> None:
    started = time.monotonic()
    result = run_without_torch(*words)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()
    assert time.monotonic() - started < 20  # two seconds on an idle machine; this only finds what hangs


def test_both_ways_of_calling(akorn: Akorn) -> None:
    assert akorn("--version").stdout == f"akorn {version()}\n"
    script = Path(sys.executable).parent / "akorn"
    if not script.exists():
        pytest.skip("akorn is not installed, so there is no akorn script")
    assert subprocess.run([script, "--version"], capture_output=True, text=True).stdout == f"akorn {version()}\n"


def version() -> str:
    return akorn.__version__


def test_importing_akorn_imports_no_torch() -> None:
    code = "import sys, akorn; assert 'torch' not in sys.modules; akorn.nn; assert 'torch' in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    for name in akorn.__all__:
        assert getattr(akorn, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        akorn.nothing  # noqa: B018


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_seed_a_device_and_json(name: str) -> None:
    assert issubclass(import_module(COMMANDS[name][0]).Options, CommonOptions)


def test_mistakes_get_one_line(akorn: Akorn) -> None:
    assert_refused(akorn("nothing"), "unknown command 'nothing'", *COMMANDS)
    assert_refused(akorn("bench", "--nothing", 3), "--nothing", "akorn bench --help")
    assert_refused(akorn("bench", "--batch", "many"), "--batch", "many")
    assert_refused(akorn("bench", "--device", "abacus"), "abacus")


def test_no_command_shows_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert all(name in told.err for name in COMMANDS)
