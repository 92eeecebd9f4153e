"""The commands together: help without torch, versions, and mistakes."""

import io
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

import akorn
from akorn.cli import COMMANDS, main
from akorn.cli.common import CommonOptions
from akorn.rooms import parts

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
    with pytest.raises(AttributeError, match="attribute nothing"):
        akorn.nothing  # noqa: B018


MODULES = [module for name, (module, _) in COMMANDS.items() if name not in ("eval", "data")]
MODULES += [module.__name__ for job in ("evaluate", "make") for module in parts(f"commands.{job}").values()]


@pytest.mark.parametrize("module", MODULES)
def test_every_command_has_a_seed_a_device_and_json(module: str) -> None:
    assert issubclass(import_module(module).Options, CommonOptions)


@pytest.mark.parametrize("seed", [-1, 99999999999999999999])
@pytest.mark.parametrize("words", [["solve"], ["eval"], ["data", "make", "sudoku", "x"], ["bench"], ["simulate"]])
def test_a_seed_that_no_generator_takes(akorn_here: Akorn, words: list[str], seed: int) -> None:
    assert_refused(akorn_here(*words, "--seed", seed), "seed", str(seed))


@pytest.mark.slow
def test_mistakes_get_one_line(akorn: Akorn) -> None:
    assert_refused(akorn("nothing"), "unknown command 'nothing'", *COMMANDS)
    assert_refused(akorn("bench", "--nothing", 3), "unknown option --nothing (akorn bench --help)")
    assert_refused(akorn("eval", "tetrominoes", "--votes", 3), "--votes", "akorn eval tetrominoes --help")
    assert_refused(akorn("data", "make", "shapes", "--votes", 3), "--votes", "akorn data make shapes --help")
    assert_refused(akorn("bench", "--batch", "many"), "--batch", "many")
    assert_refused(akorn("bench", "--device", "abacus"), "abacus")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("simulate --steps 2.5", "--steps: expected a whole number, got 2.5"),
        ("simulate fsh", "unexpected argument 'fsh' (akorn simulate --help)"),
        (
            "simulate waves --steps 3",
            "unexpected argument 'waves': did you mean --preset waves? (akorn simulate --help)",
        ),
        ("simulate --gamma x", "--gamma: expected a number, got x"),
        ("simulate --seed x", "--seed: expected a whole number, got x"),
        ("simulate --seed 99999999999999999999", "seed must be at most"),
        ("simulate --device meta", "the device 'meta' cannot be used"),
        ("simulate --gamma 1e300", "gamma must be at most 100"),
        ("bench --channels 1.5", "--channels: expected whole numbers, got 1.5"),
        ("bench --steps 1 x", "--steps: expected whole numbers, got 1 x"),
        ("bench --grid 3 x", "--grid: expected 2 whole numbers, got 3 x"),
        (
            "train cifar10_resnet18 --data.order noise crop augment",
            "--data.order: expected 3 of augment, augmix, noise, got noise crop augment",
        ),
        ("solve --vote most", "--vote: expected confidence or energy, got most"),
        ("data make sudoku x --difficulty no", "--difficulty: expected easy, extreme, hard or medium, got no"),
        ("segment a.png --clusters two", "--clusters: expected a whole number or auto, got two"),
        ("simulate --steps", "--steps needs a value"),
        (f"solve {'1' * 81} {'2' * 81}", f"unexpected argument '{'2' * 81}' (akorn solve --help)"),
        ("data make clevr x --objects 3", "--objects: expected 2 whole numbers, got 1: 3 (akorn"),
        ("train sudoku_akorn --steps 3", "--steps: expected 2 whole numbers, got 1: 3 (akorn train sudoku_akorn"),
        ("train sudoku_akorn --steps", "--steps: expected 2 whole numbers, got none (akorn train sudoku_akorn"),
        ("train cifar10_resnet18 --data.augment.ratio 1 x", "ratio: expected 2 numbers, got 1 x"),
        ("data make clevr x --count 1 --objects 0 0", "from 0 to 0, expected from 0 to 10"),
        ("train nothing_like_it", "more (akorn recipes)"),
        ("export nowhere", "nowhere: there is no such folder, expected a folder with manifest.json"),
        ("curves nowhere", "nowhere: the curves cannot be read (No such file or directory)"),
        ("segment .", ".: this folder contains no pictures"),
        ("classify .", ".: this folder contains no pictures"),
        ("bench --couplings", "--couplings needs at least one value"),
        ("bench --couplings dense --channels 64 --n 3", "64 channels cannot be grouped"),
        ("bench --seed 99999999999999999999", "--seed must be from 0"),
    ],
)
def test_readable_in_one_line(akorn_here: Akorn, words: str, message: str) -> None:
    """Also after the work has begun: without a terminal, a progress bar leaves nothing behind."""
    assert_refused(akorn_here(*words.split()), message)


def test_a_device_that_is_not_there_gets_one_line(akorn_here: Akorn) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    for command in ("simulate", "bench"):
        assert_refused(akorn_here(command, "--device", "cuda"), "the device 'cuda' cannot be used")


def test_simulate_help_is_readable(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["simulate", "--help"])
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "None" not in told
    assert "--steps INT Number of steps. (default: the preset's)" in told
    assert "Replace existing files with these two names" in told


@pytest.mark.parametrize("command", ["solve", "segment", "classify", "train", "data make shapes"])
def test_what_must_be_given_has_no_default(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    given = capsys.readouterr().out.partition("positional arguments")[2].partition("─ options")[0]
    told = " ".join(given.replace("│", " ").split())
    assert ("(default: a bundled puzzle)" if command == "solve" else "(required)") in told


def test_no_command_shows_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert all(name in told.err for name in COMMANDS)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_signs_that_a_stream_lacks(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n") for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])

    def say_much(name: str, words: object) -> int:
        print("a → b ☃")
        print("☃", file=sys.stderr)
        return 0

    monkeypatch.setattr("akorn.cli._run", say_much)
    with pytest.raises(SystemExit) as end:
        main(["segment"])
    assert end.value.code == 0
    assert [stream.encoding for stream in streams] == [encoding, encoding]
    for stream, told in zip(streams, (b"a ? b ?\n", b"?\n"), strict=True):
        stream.flush()
        assert stream.buffer.getvalue() == told


@pytest.mark.parametrize("colours", [False, True])
@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("segment x.png --clusters q", "--clusters: expected a whole number or auto, got q (akorn segment --help)"),
        ("bench --nothing 3", "unknown option --nothing (akorn bench --help)"),
        ("bench --grid 3 x", "--grid: expected 2 whole numbers, got 3 x (akorn bench --help)"),
    ],
)
def test_mistakes_get_one_line_on_every_terminal(
    words: str, message: str, encoding: str, colours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdout, stderr = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    monkeypatch.setattr(stdout, "isatty", lambda: colours, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr(sys, "stderr", stderr)
    with pytest.raises(SystemExit) as end:
        main(words.split())
    stderr.flush()
    assert (end.value.code, stderr.buffer.getvalue().decode()) == (2, f"akorn: {message}{os.linesep}")


def test_without_stdout(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A service has none."""
    monkeypatch.setattr(sys, "stdout", None)
    main(["--version"])
    with pytest.raises(SystemExit) as end:
        main(["bench", "--grid", "3", "x"])
    assert end.value.code == 2
    assert capsys.readouterr().err == "akorn: --grid: expected 2 whole numbers, got 3 x (akorn bench --help)\n"


@pytest.mark.parametrize("there", [False, True])
def test_a_model_that_is_not_there_is_named_before_its_options(akorn_here: Akorn, tmp_path: Path, there: bool) -> None:
    """The options depend on the model's task."""
    folder = tmp_path / "model"
    if there:
        folder.mkdir()
    wanted = "config.json: cannot be read" if there else "neither a model's folder nor the name of shipped weights"
    assert_refused(akorn_here("eval", str(folder), "--attacks", "pgd"), wanted)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("solve --votes 100000000000000000000", "--votes must be at most 1,000,000,000, got 100000000000000000000"),
        ("solve --steps 100000000000000", "--steps must be at most 1,000,000,000"),
        (f"simulate --steps {10**400}", "got a number of 401 digits"),
        ("bench --steps 1 100000000000000", "--steps must be at most 1,000,000,000"),
        ("train sudoku_akorn --train.shard-mb inf", "--train.shard-mb must be a finite number, got inf"),
        ("train sudoku_akorn --train.steps 100000000000000", "--train.steps must be at most"),
        ("train sudoku_akorn --train.shard-mb 1e308", "shard_mb is 1e+308, expected 0.01 or more, and at most 10⁹"),
        ("bench --batch 900000000 --size tiny", "not enough memory"),
        (f"export {'a' * 300}", "File name too long"),
        (f"results --folder {'a' * 300}", "File name too long"),
        (f"eval {'a' * 300}", "shipped weights"),
    ],
)
def test_absurd_values_get_one_line(akorn_here: Akorn, words: str, message: str) -> None:
    assert_refused(akorn_here(*words.split()), message)


def test_names_with_escape_codes_are_shown_escaped(akorn_here: Akorn) -> None:
    for words in (["solve"], ["export"], ["segment"], ["eval"], []):
        assert_refused(akorn_here(*words, "\x1b[31mred"), "\\x1b[31mred")


def test_what_fails_because_of_ctrl_c_is_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted import leaves half a module, which cleaning up may stumble over."""

    def interrupted(name: str, words: list[str]) -> int:
        try:
            raise KeyboardInterrupt
        finally:
            raise AttributeError("partially initialised module")

    monkeypatch.setattr("akorn.cli._run", interrupted)
    with pytest.raises(SystemExit) as end:
        main(["models"])
    assert end.value.code == 130
    monkeypatch.setattr("akorn.cli._run", lambda name, words: [][0])
    with pytest.raises(IndexError):  # a mistake of ours is shown as one
        main(["models"])
