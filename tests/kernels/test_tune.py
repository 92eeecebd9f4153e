"""How the form of a kernel is chosen, with made-up times."""

import pytest
import torch

from akorn.kernels import choices, tune


@pytest.fixture
def timing(monkeypatch):
    """As on a GPU, where nothing has been chosen yet; a launch takes as long as the choice says."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(tune, "_CHOSEN", {})
    monkeypatch.setenv("AKORN_CACHE", "")
    monkeypatch.setattr(tune, "time_launches", lambda launch, count: launch())


def test_the_fastest_is_chosen_once(timing):
    tried = []
    assert tune.fastest("key", ["a", "bb", ""], lambda choice: tried.append(choice) or len(choice)) == ""
    assert tune.fastest("key", ["a", "bb", ""], lambda choice: tried.append(choice) or -len(choice)) == ""
    assert tried == ["a", "bb", ""]
    assert tune.chosen() == {"key": ""}


def test_of_equals_the_earlier(timing):
    """Otherwise noise would decide, and results would differ in their last bits from run to run."""
    assert tune.fastest("key", [1.0, 0.995, 0.99], lambda choice: choice) == 1.0
    assert tune.fastest("other", [1.0, 0.9, 0.895], lambda choice: choice) == 0.9


def test_what_has_no_room_or_other_results_is_left_out(timing, caplog):
    result = torch.zeros(3)

    def launch(choice):
        taken, value = choice
        result.fill_(value)
        return taken

    choices = [(3.0, 1.0), (float("inf"), 1.0), (1.0, 2.0), (1.0, float("nan")), (2.0, 1.001)]
    assert tune.best("key", choices, launch, result) == (2.0, 1.001)
    assert caplog.text.count("different results") == 2


def test_the_first_where_nothing_can_be_timed(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert tune.best("unseen", [2, 1], lambda choice: pytest.fail("launched")) == 2
    assert "unseen" not in tune.chosen()


class Kernel:
    """Stands in for one of Triton's: notes what is compiled and what runs."""

    def __init__(self):
        self.calls = []

    def warmup(self, choice, grid):
        self.calls.append(("compile", choice, grid))

    def __getitem__(self, grid):
        return lambda choice: self.calls.append(("run", choice, grid)) or choice


def test_all_are_compiled_before_the_first_is_timed(timing):
    """And so are the choices within a choice, which are timed later."""
    pytest.importorskip("triton", reason="Triton compiles the kernels")
    outer, inner = Kernel(), Kernel()

    def launch(choice):
        tune.call(inner, (5,))(tune.best("inner", [2, 1], lambda choice: tune.call(inner, (5,))(choice)))
        return tune.call(outer, (7,))(choice)

    assert tune.best("outer", [4, 3, 4], launch) == 3
    assert tune.chosen() == {"inner": 1, "outer": 3}
    assert outer.calls == [("compile", 4, (7,)), ("compile", 3, (7,)), ("run", 4, (7,)), ("run", 3, (7,))]
    kinds = [kind for kind, *_ in inner.calls]
    assert kinds == sorted(kinds)
    assert {choice for kind, choice, _ in inner.calls if kind == "compile"} == {1, 2}
    tune.call(outer, (9,))(1)
    assert outer.calls[-1] == ("run", 1, (9,))


def test_what_has_no_room_is_still_timed(timing):
    """It may have room then; and what was compiled stays compiled."""
    pytest.importorskip("triton", reason="Triton compiles the kernels")
    kernel = Kernel()

    def launch(choice):
        if choice == 2 and not any(kind == "run" for kind, *_ in kernel.calls):
            raise torch.cuda.OutOfMemoryError
        return tune.call(kernel, (1,))(choice)

    assert tune.best("key", [3, 2, 1], launch) == 1
    assert [kind for kind, *_ in kernel.calls] == ["compile", "compile", "run", "run", "run"]


@pytest.fixture
def later(timing, monkeypatch, tmp_path):
    """A function that starts from scratch, as another process on the same machine would."""
    monkeypatch.setenv("AKORN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(choices, "_machine", lambda: "a-gpu")

    def begin():
        choices._read.cache_clear()
        tune._CHOSEN.clear()

    begin()
    yield begin
    choices._read.cache_clear()


def test_later_processes_choose_alike(later):
    configs = [tune.Config(64, 4, 1), tune.Config(128, 8, 1)]
    assert tune.fastest(("k", 1), configs, lambda choice: -choice.block) == configs[1]
    tune.fastest(("k", 2), configs, lambda choice: choice.block)
    later()
    assert tune.fastest(("k", 1), configs, lambda choice: pytest.fail("timed again")) == configs[1]
    later()
    assert tune.fastest(("k", 1), configs[:1], lambda choice: 1.0) == configs[0]  # it is no choice any more


@pytest.mark.parametrize("content", ["no json", "[1]", "{\"('k', 1)\": 7}"])
def test_a_damaged_file_is_as_good_as_none(later, tmp_path, content):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "choices-a-gpu.json").write_text(content)
    assert tune.fastest(("k", 1), [2, 1], lambda choice: choice) == 1
    later()
    assert tune.fastest(("k", 1), [2, 1], lambda choice: pytest.fail("timed again")) == 1


def test_choices_do_not_outlive_the_kernels(monkeypatch, tmp_path):
    """Nor the versions: each has its own file."""
    triton = pytest.importorskip("triton")
    monkeypatch.setenv("AKORN_CACHE", str(tmp_path / "cache"))
    names = []
    for version, source in (("0.1.0", "x = 1"), ("0.1.0", "x = 2"), ("0.1.1", "x = 2"), ("0.1.0", "x = 1")):
        (tmp_path / "kernel.py").write_text(source)
        monkeypatch.setattr(choices, "__version__", version)
        monkeypatch.setattr(choices, "__file__", str(tmp_path / "choices.py"))
        choices._machine.cache_clear()
        names.append(choices._file().name)
    choices._machine.cache_clear()
    assert len(set(names)) == 3
    assert names[0] == names[3]
    assert f"torch{torch.__version__.replace('+', '-')}-triton{triton.__version__}-akorn0.1.1-" in names[2]


def test_a_folder_that_cannot_be_written_does_no_harm(later, tmp_path):
    (tmp_path / "cache").write_text("a file in its place")
    assert tune.fastest(("k", 1), [2, 1], lambda choice: choice) == 1
