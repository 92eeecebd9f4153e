"""The scripts and the notebook in examples/ run, and find what they say."""

import ast
import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import matplotlib.pyplot as plt
import pytest
import torch

import akorn
from akorn.errors import AkornError
from akorn.robustness.config import AkornConfig
from akorn.robustness.model import build

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOK = EXAMPLES / "energy_of_your_network.ipynb"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _without_a_screen() -> Iterator[None]:
    plt.switch_backend("agg")
    yield
    plt.close("all")


def test_the_table_has_every_example() -> None:
    rows = re.findall(r"^\| \[(.+?)\]\((.+?)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.M)
    there = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    assert {name for name, _ in rows} == there == {link for _, link in rows}


@pytest.mark.slow
def test_digits_are_told_apart() -> None:
    assert load("digits").main(epochs=5) > 85  # chance is 10; the whole run ends above 90


@pytest.mark.slow
def test_a_shipped_model_learns_other_classes() -> None:
    head, whole = load("fine_tune").main(train=48, test=24)
    assert head > 60  # chance is 33
    assert whole > 60


def test_drawn_pictures_are_pictures_of_every_class() -> None:
    pictures, labels = load("fine_tune").draw(9, torch.Generator().manual_seed(0))
    assert pictures.shape == (9, 3, 32, 32)
    assert labels.bincount().tolist() == [3, 3, 3]
    assert 0 <= pictures.min() < pictures.max() <= 1


@pytest.mark.slow
def test_drawings_are_known_and_one_step_changes_answers(tmp_path: Path) -> None:
    example = load("adversarial")
    before, after = example.main(tmp_path / "adversarial.png", steps=1, starts=1)
    assert before == list(example.DRAWINGS)
    assert sum(then != first for then, first in zip(after, before, strict=True)) >= 3
    assert (tmp_path / "adversarial.png").stat().st_size > 1000


def test_the_attack_of_ten_lines_keeps_to_its_bound_and_raises_the_loss() -> None:
    example = load("adversarial")
    torch.manual_seed(0)
    model = build(AkornConfig(channels=(8, 16, 16), kernels=(3, 3, 3), start="stimulus")).eval()
    images, labels = torch.rand(3, 3, 32, 32), torch.tensor([0, 1, 2])
    changed = example.attack(model, images, labels, 8 / 255, 3, 1)
    assert 0 <= changed.min() <= changed.max() <= 1
    assert 0 < (changed - images).abs().max() <= 8 / 255 + 1e-6
    with torch.no_grad():
        losses = [float(torch.nn.functional.cross_entropy(model(seen), labels)) for seen in (images, changed)]
    assert losses[1] > losses[0]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["figure.txt"], "must end in .png"),
        (["nowhere/figure.png"], "there is no folder nowhere"),
        (["--steps", "0"], "must be at least 1, got 0 and 2"),
    ],
)
def test_the_attack_says_what_is_wrong_before_it_starts(
    words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AkornError, match=told):
        load("adversarial").command(words)


def test_the_attack_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        load("adversarial").command(["--help"])
    assert ended.value.code == 0
    assert "OUT.png" in capsys.readouterr().out


def test_a_memory_recalls_its_patterns(capsys: pytest.CaptureFixture[str]) -> None:
    before, after = load("own_coupling").main()
    assert (before < 0.6).all()
    assert (after > 0.9).all()
    printed = capsys.readouterr().out
    assert "the conditions for a falling energy hold" in printed
    assert "it rose in 0 steps" in printed


@pytest.mark.parametrize("gradients", [akorn.nn.Store(), akorn.nn.Recompute(snapshots=2)], ids=["store", "recompute"])
def test_what_is_required_of_a_coupling_is_enough(gradients: akorn.nn.Gradients) -> None:
    """The memory's gradient is that of its matrix written out."""
    torch.manual_seed(0)
    patterns = akorn.oscillators.random_oscillators((3, 24), 4, dtype=torch.float64)
    coupling = load("own_coupling").Memory(patterns, 4).double()
    layer = akorn.nn.KuramotoLayer(24, 4, coupling, gamma=0.5, gradients=gradients).double()
    dense = akorn.nn.DenseCoupling(24).double()
    dense.free_weight.data.copy_(patterns.mT @ patterns * 4 / 24)
    x, c = torch.randn(2, 2, 24, dtype=torch.float64)
    layer(x, c, steps=6)[:, 0].sum().backward()
    akorn.nn.KuramotoLayer(24, 4, dense, gamma=0.5).double()(x, c, steps=6)[:, 0].sum().backward()
    torch.testing.assert_close(coupling.strength.grad, (dense.free_weight.grad * dense.free_weight).sum())


def test_the_energy_falls_where_j_is_symmetric(tmp_path: Path) -> None:
    rises = load("energy_of_your_network").main(out=tmp_path / "energy.png")
    assert rises["J symmetric"] == {"first": 0, "second": 0}
    assert min(rises["J not symmetric"].values()) > 10
    assert (tmp_path / "energy.png").stat().st_size > 1000


def test_recording_leaves_the_network_as_it_was() -> None:
    example = load("energy_of_your_network")
    network = example.Net(symmetric=True)
    pictures = torch.rand(2, 3, 16, 16)

    def seen() -> torch.Tensor:
        torch.manual_seed(1)
        return network(pictures, 3)

    first = seen()
    assert {name: list(e.shape) for name, e in example.record(network, pictures, 3).items()} == {
        "first": [3, 2],
        "second": [3, 2],
    }
    assert not network.first._forward_pre_hooks
    assert torch.equal(first, seen())


def cells() -> list[tuple[str, dict[str, object]]]:
    every = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [("".join(cell["source"]), cell) for cell in every if cell["cell_type"] == "code"]


def test_the_notebook_runs() -> None:
    names: dict[str, object] = {"__name__": "notebook"}
    for text, _ in cells():
        exec(compile(text, NOTEBOOK.name, "exec"), names)
    rises = {
        title: [int((values.diff(dim=0) > 1e-3).sum()) for values in energies.values()]
        for title, energies in names["runs"].items()  # type: ignore[attr-defined]
    }
    assert rises["J symmetric"] == [0, 0]
    assert min(rises["J not symmetric"]) > 10


def test_the_notebook_has_the_scripts_code_and_its_output_is_small() -> None:
    def parts(text: str) -> dict[str, str]:
        body = ast.parse(text).body
        return {part.name: ast.dump(part) for part in body if isinstance(part, ast.ClassDef | ast.FunctionDef)}

    script = parts((EXAMPLES / "energy_of_your_network.py").read_text(encoding="utf-8"))
    notebook = parts("\n".join(text for text, _ in cells()))
    assert set(notebook) == {"Net", "record", "plot"}
    for name, code in notebook.items():
        assert code == script[name], f"{name} of the notebook is not that of the script"
    assert [cell["execution_count"] for _, cell in cells()] == list(range(1, len(cells()) + 1))
    assert any("image/png" in output.get("data", {}) for _, cell in cells() for output in cell["outputs"])  # type: ignore[attr-defined]
    assert NOTEBOOK.stat().st_size < 64 * 1024
