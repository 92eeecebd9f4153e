"""benchmarks/lanes.py: the order of jobs, what is left out, and the plans that are in the repository."""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from akorn.cli import parse
from akorn.cli.eval import parse as parse_eval
from akorn.cli.export import Options as ExportOptions
from akorn.cli.train import parse as parse_train
from akorn.objects.data.sets import GENERATED

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PLANS = sorted(BENCHMARKS.glob("plans/*.toml"))


@pytest.fixture(scope="module")
def lanes() -> ModuleType:
    if not BENCHMARKS.is_dir():
        pytest.skip("the repository's folder benchmarks/ is not here")
    spec = importlib.util.spec_from_file_location("lanes", BENCHMARKS / "lanes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["lanes"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def plan(folder: Path, text: str) -> Path:
    path = folder / "plan.toml"
    path.write_text(text, encoding="utf-8")
    return path


def job(name: str, code: str, **more: object) -> str:
    """A job of a plan that runs Python code; JSON's values are TOML's too."""
    found = {"name": name, "run": [python(code)], **more}
    return "\n".join(["[[job]]", *(f"{key} = {json.dumps(value)}" for key, value in found.items())]) + "\n"


def python(code: str) -> str:
    return f"python -c {shlex.quote(code)}"


def said(code: str) -> str:
    return f"open('said', 'a').write('{code} ')"


def test_lanes_run_side_by_side_and_jobs_wait(lanes: ModuleType, tmp_path: Path) -> None:
    wait = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\n"
    path = plan(
        tmp_path,
        job("first", wait + said("first"), lane="a")  # the other lane lets it go
        + job("go", "open('go', 'w')", lane="b", then=[python(said("then"))])
        + job("last", said("last"), lane="b", after=["first"]),
    )
    ended = lanes.Lanes(lanes.read_plan(path, {}), tmp_path, 60).run()
    assert ended == {"first": True, "go": True, "go, then": True, "last": True}
    words = (tmp_path / "said").read_text().split()
    assert sorted(words) == ["first", "last", "then"]
    assert words.index("first") < words.index("last")
    assert lanes.main([str(path), "--out", str(tmp_path), "--limit", "60"]) == 0
    assert (tmp_path / "said").read_text().split() == words  # nothing is run again


def test_what_failed_leaves_out_what_needs_it(
    lanes: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = plan(
        tmp_path,
        job("bad", "print('the reason'); raise SystemExit(3)", then=[python(said("then"))])
        + job("needs", said("needs"), after=["bad"])
        + job("long", said("long"), seconds=1000)
        + job("other", said("other"), lane="b"),
    )
    assert lanes.main([str(path), "--out", str(tmp_path), "--limit", "60"]) == 1
    told = capsys.readouterr().out
    for words in ("bad FAILED with 3", "needs is left out: bad did not end well", "long is left out: it takes 1000 s"):
        assert words in told
    assert "1 of 5 jobs ended well" in told
    assert "the reason" in (tmp_path / "logs" / "bad.log").read_text()
    assert (tmp_path / "said").read_text() == "other "


def test_at_the_limit_what_runs_is_asked_to_stop(lanes: ModuleType, tmp_path: Path) -> None:
    code = "import signal, time\nsignal.signal(15, lambda *_: exit(open('asked', 'w').close()))\ntime.sleep(60)"
    path = plan(tmp_path, job("sleeps", code) + job("next", said("next")))
    before = time.monotonic()
    assert lanes.Lanes(lanes.read_plan(path, {}), tmp_path, 2).run() == {"sleeps": True, "next": False}
    assert time.monotonic() - before < 20
    assert (tmp_path / "asked").exists()
    assert not (tmp_path / "said").exists()


def test_some_jobs_and_what_they_need(lanes: ModuleType, tmp_path: Path) -> None:
    text = "".join(
        job(name, "pass", after=list(after)) for name, after in (("a", ""), ("b", "a"), ("c", ""), ("d", "b"))
    )
    jobs = lanes.read_plan(plan(tmp_path, text), {})
    assert [each.name for each in lanes.wanted(jobs, None)] == ["a", "b", "c", "d"]
    assert [each.name for each in lanes.wanted(jobs, ["d"])] == ["a", "b", "d"]
    with pytest.raises(ValueError, match="no job is called 'e', expected some of a, b, c, d"):
        lanes.wanted(jobs, ["a", "e"])


@pytest.mark.parametrize(
    ("text", "values", "told"),
    [
        ("", {}, "the plan has no job"),
        ("[[job]", {}, "plan.toml: "),
        ("[[job]]\nname = 'a'", {}, "job a: 'run' is missing"),
        ("[[job]]\nrun = []", {}, "job without a name: 'name' is missing"),
        ("[[job]]\nname = 'a'\nrun = []\nlanes = 'b'", {}, "job a: unknown key 'lanes'"),
        ("[[job]]\nname = 'a'\nrun = []\n[[job]]\nname = 'a'\nrun = []", {}, "job a: there is another of this name"),
        ("[[job]]\nname = 'a'\nrun = []\nafter = ['b']", {}, "it is after 'b', which no earlier job is called"),
        ("[[job]]\nname = 'a'\nrun = ['echo {x}']", {}, "job a: no value is called 'x'"),
        ("[values]\ny = '1'\n[[job]]\nname = 'a'\nrun = []", {"x": "2"}, "no value is called 'x', expected some of y"),
    ],
)
def test_plans_that_mean_nothing(
    lanes: ModuleType, text: str, values: dict[str, str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    with pytest.raises(SystemExit) as ended:
        lanes.main([str(plan(tmp_path, text)), "--out", str(tmp_path), "--limit", "1", *words])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_commands_of_plans_exist(
    lanes: ModuleType, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = lanes.read_plan(path, {})
    assert len({job.lane for job in jobs}) > 1
    monkeypatch.chdir(tmp_path)
    for job in jobs:
        for line in (*job.run, *job.then):
            words = shlex.split(line)
            assert words[0] == "akorn"
            if words[1] == "train":
                options = parse_train(words[2:])
                assert (options.recipe, str(options.out)) == (job.name, f"runs/{job.name}")
            elif words[1] == "eval":
                assert words[2] in (f"runs/{job.name}/{word}" for word in ("model", "average", "last"))
                parse_eval(["sudoku" if job.name.startswith("sudoku") else "clevr", *words[3:]])
            elif words[1] == "export":
                assert words[2] == f"runs/{job.name}"
                assert words[-1] in (f"runs/{job.name}/{word}" for word in ("average", "last"))
                parse(ExportOptions, words[2:], "export")
            else:
                assert words[1:3] == ["data", "make"]
                assert words[3] in GENERATED
