"""The registry of attacks: one entry is enough for options, scores, JSON and records."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from robustness_toy import TINY, write_cifar

from akorn.cli import main
from akorn.errors import AkornError
from akorn.robustness.attack_suite import ATTACKS, Figures
from akorn.robustness.attacked import Attempt
from akorn.robustness.commands import evaluate as command
from akorn.robustness.data import load_cifar10
from akorn.robustness.evaluate import EvalSettings, score
from akorn.robustness.model import build
from akorn.robustness.protocol import EOT, QUERIES, STEPS, Request
from akorn.robustness.report import evaluate


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    """A toy attack, registered while the test runs: mirrored pictures, darker by ε."""
    monkeypatch.setattr(ATTACKS, "_entries", dict(ATTACKS))

    @ATTACKS.add("dark-mirror", label="mirrored pictures", about="a toy", facts=lambda request: {"darker": 0.5})
    def dark_mirror(attempt: Attempt) -> Figures:
        return attempt.scored(lambda model, images, labels, generator: images.flip(3) - attempt.request.epsilon)


@pytest.mark.usefixtures("mirror")
def test_a_new_attack_needs_one_entry(model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "dark-mirror (a toy)" in ATTACKS.help()
    words = f"eval {model_folder} --data {write_cifar(tmp_path / 'data')} --attacks dark-mirror --attack-limit 8"
    with pytest.raises(SystemExit) as end:
        main([*words.split(), "--epsilon", "0.25", "--device", "cpu", "--json", "--results", str(tmp_path / "results")])
    assert end.value.code == 0
    found = json.loads(capsys.readouterr().out)
    behind = found["scores"]["dark_mirror"]
    assert (behind["accuracy"], behind["pictures"]) == (found["dark_mirror"], 8)
    assert found["darker"] == 0.5
    (kept,) = (json.loads(path.read_text()) for path in (tmp_path / "results").iterdir())
    assert kept["metrics"]["dark_mirror"] == found["dark_mirror"]


@pytest.mark.usefixtures("mirror")
def test_the_figure_is_that_of_the_pictures_it_makes(tmp_path: Path) -> None:
    pictures = load_cifar10(write_cifar(tmp_path), "test")
    torch.manual_seed(0)
    model = build(TINY)
    seen: list[torch.Tensor] = []
    handle = model.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    found = evaluate(model, pictures, Request(("dark-mirror",), epsilon=0.25), EvalSettings(starts=2, seed=4))
    handle.remove()
    changed = pictures.images.flip(3) / 255 - 0.25
    torch.testing.assert_close(seen[-1], changed)
    expected = score(model, changed, pictures.labels, EvalSettings(starts=2, seed=4), purpose="attack")
    assert found.details["scores"]["dark_mirror"] == expected.as_json()


def test_the_toy_is_gone() -> None:
    assert "dark-mirror" not in ATTACKS
    with pytest.raises(AkornError, match="--attacks: there is no 'dark-mirror', expected some of fgsm, pgd, "):
        command.run(command.Options(attacks="dark-mirror"))


def test_an_unknown_attack_is_refused_before_anything_is_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("akorn.robustness.report.score", lambda *words, **options: pytest.fail("scored"))
    pictures = load_cifar10(write_cifar(tmp_path), "test")
    with pytest.raises(AkornError, match="unknown attack 'pgb': did you mean pgd"):
        evaluate(build(TINY), pictures, Request(("pgb",)), EvalSettings())
    with pytest.raises(AkornError, match="transfer needs a source"):
        evaluate(build(TINY), pictures, Request(("transfer",)), EvalSettings())


def test_no_name_is_taken_twice() -> None:
    with pytest.raises(ValueError, match="the attack 'pgd' is already registered"):
        ATTACKS.add("pgd", label="another")(ATTACKS["pgd"].run)
    assert len({attack.key for attack in ATTACKS.values()}) == len({a.label for a in ATTACKS.values()}) >= 9


def test_what_a_record_must_have() -> None:
    """As much of each setting as the tables require, with a random start and without one."""
    starts, steps, queries = {"eot": EOT}, {"attack_steps": STEPS}, {"queries": QUERIES}
    wanted = {
        "fgsm": (starts, {}),
        "pgd": (starts | steps, steps),
        "pgd-smooth": (starts | steps | {"smooth_eot": EOT}, steps | {"smooth_eot": EOT}),
        "pgd-adaptive": (starts | steps, steps),
        "square": (queries, queries),
        "autoattack": (starts, queries),
        "autoattack-adaptive": (starts, queries),
        "autoattack-standard": (queries, queries),
        "transfer": (starts | steps, steps),
    }
    assert {name: (ATTACKS[name].budget(True), ATTACKS[name].budget(False)) for name in wanted} == wanted


def test_the_registry_needs_no_torch() -> None:
    code = "import sys, akorn.robustness.attack_suite; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
