"""Weights in 8 bits: how far they are from before, what is left as it is, and which files are refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from safetensors.torch import load_file, save
from torch import Tensor

import akorn
from akorn.errors import AkornError
from akorn.hub import HubModel, read_folder
from akorn.models import load_model
from akorn.robustness.config import AkornConfig as CifarConfig
from akorn.robustness.model import build as build_classifier
from akorn.stored import SCALE, WORTH, dequantise, from_stored, quantise, to_stored

SHAPES = st.lists(st.integers(1, 7), min_size=2, max_size=4).map(tuple)
TINY = torch.finfo(torch.bfloat16).tiny


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """Rows of very different sizes, some of them zero."""
    shape, generator = draw(SHAPES), torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    values = torch.randn(shape, generator=generator)
    powers = draw(st.lists(st.one_of(st.none(), st.integers(-130, 100)), min_size=shape[0], max_size=shape[0]))
    factor = torch.tensor([0.0 if power is None else 2.0**power for power in powers])
    return values * factor.reshape(-1, *[1] * (len(shape) - 1))


@given(tensors())
@settings(deadline=None)
def test_no_number_is_off_by_more_than_half_its_scale(tensor: Tensor) -> None:
    whole, scale = quantise(tensor)
    assert (whole.dtype, whole.shape) == (torch.int8, tensor.shape)
    assert scale.shape == tensor.shape[:1]
    error = (dequantise(whole, scale).double() - tensor.double()).abs().flatten(1)
    assert bool((error <= (scale.double() / 2).clamp(min=127 * TINY)[:, None]).all())  # below, rows are zeros
    largest = tensor.double().abs().flatten(1).amax(1)
    assert bool((whole.abs().flatten(1).amax(1)[largest > 128 * TINY] == 127).all())  # all of the range is used
    assert bool((dequantise(whole, scale)[largest == 0] == 0).all())


@given(tensors())
@settings(deadline=None)
def test_what_was_read_is_written_as_it_was(tensor: Tensor) -> None:
    whole, scale = quantise(tensor)
    again, same = quantise(dequantise(whole, scale))
    assert torch.equal(again, whole)
    assert torch.equal(same, scale)


def test_a_kernel_has_a_scale_for_each_output_channel() -> None:
    kernel = torch.tensor([1.0, 100.0, 0.0])[:, None, None, None] * torch.ones(3, 2, 5, 5)
    whole, scale = quantise(kernel)
    assert scale.float() * 127 == pytest.approx(torch.tensor([1.0, 100.0, 0.0]), rel=2**-8)
    assert whole.flatten(1).unique(dim=1).flatten().tolist() == [127, 127, 0]


def test_only_large_matrices_and_kernels_are_rounded() -> None:
    generator = torch.Generator().manual_seed(0)
    state = {
        "matrix": torch.randn(128, 128, generator=generator),
        "kernel": torch.randn(64, 32, 3, 3, generator=generator),
        "small": torch.randn(128, 127, generator=generator),
        "bias": torch.randn(WORTH, generator=generator),
        "narrow": torch.randn(WORTH // 2, 2, generator=generator),  # scales would take as much as is saved
        "norm.running_var": torch.rand(128, 128, generator=generator) * 1e6,
        "norm.num_batches_tracked": torch.tensor(3),
    }
    stored = to_stored(state, "int8")
    assert {name for name, tensor in stored.items() if tensor.dtype == torch.int8} == {"matrix", "kernel"}
    assert {name for name in stored if name.endswith(SCALE)} == {f"matrix{SCALE}", f"kernel{SCALE}"}
    assert {stored[name].dtype for name in ("small", "bias", "narrow")} == {torch.float16}
    back = from_stored(stored, Path("model.safetensors"))
    assert back.keys() == state.keys()
    assert torch.equal(back["norm.running_var"], state["norm.running_var"])
    assert {back[name].dtype for name in ("matrix", "kernel")} == {torch.float32}
    halves = to_stored(state, "float16")
    assert all(torch.equal(halves[name], stored[name]) for name in ("small", "bias", "narrow"))


def test_an_unknown_type() -> None:
    with pytest.raises(ValueError, match="dtype is 'int4', expected one of float16, bfloat16, float32, int8"):
        to_stored({}, "int4")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def solver() -> HubModel:
    return akorn.create_model("sudoku-akorn", channels=128, heads=4, seed=0).eval()


@pytest.fixture
def folder(solver: HubModel, tmp_path: Path) -> Path:
    solver.save_pretrained(tmp_path / "eight", dtype="int8")
    return tmp_path / "eight"


@torch.no_grad()
def test_a_folder_in_8_bits_gives_a_model_with_nearly_the_same_answers(solver: HubModel, folder: Path) -> None:
    again = load_model(folder)
    puzzle = torch.randint(10, (4, 81), generator=torch.Generator().manual_seed(0))
    first, second = (model(puzzle, 4, generator=torch.Generator().manual_seed(0)) for model in (solver, again))
    assert 0 < (second - first).norm() / first.norm() < 0.05
    again.save_pretrained(folder.parent / "again", dtype="int8")
    for name in ("model.safetensors", "config.json"):
        assert (folder.parent / "again" / name).read_bytes() == (folder / name).read_bytes()
    solver.save_pretrained(folder.parent / "half")
    sizes = [(folder.parent / name / "model.safetensors").stat().st_size for name in ("eight", "half")]
    assert sizes[0] < 0.6 * sizes[1]


@torch.no_grad()
def test_a_classifier_in_8_bits(tmp_path: Path) -> None:
    model = build_classifier(CifarConfig(channels=(64, 64, 64), kernels=(3, 3, 3))).eval()
    with torch.no_grad():
        model.get_buffer("body.blocks.0.readout.g.1.0.running_var").fill_(1e6)  # too large for 16 bits
    model.save_pretrained(tmp_path / "eight", dtype="int8")
    again = load_model(tmp_path / "eight")
    for name, tensor in model.state_dict().items():
        assert again.state_dict()[name].dtype == tensor.dtype
        limit = tensor.abs().max() / 127 if tensor.numel() else 0
        torch.testing.assert_close(again.state_dict()[name], tensor, rtol=0, atol=float(limit))


def test_values_that_are_not_finite_are_not_written(solver: HubModel, tmp_path: Path) -> None:
    model = load_copy(solver)
    name = next(name for name, tensor in model.named_parameters() if tensor.ndim == 2 and tensor.numel() >= WORTH)
    with torch.no_grad():
        model.get_parameter(name)[3, 5] = torch.nan
    with pytest.raises(AkornError, match=rf"{name}.* not finite, .*: nothing was written"):
        model.save_pretrained(tmp_path / "m", dtype="int8")
    assert not (tmp_path / "m").exists()


def load_copy(model: HubModel) -> HubModel:
    again = akorn.create_model("sudoku-akorn", channels=128, heads=4)
    again.load_state_dict(model.state_dict())
    return again


NAME = "blocks.0.layer.coupling.maps.qkv.weight"
Change = Callable[[dict[str, Tensor]], object]


def with_scale(change: Callable[[Tensor], Tensor]) -> Change:
    return lambda stored: stored.update({NAME + SCALE: change(stored[NAME + SCALE])})


def one(value: float) -> Change:
    return with_scale(lambda scale: scale.index_fill(0, torch.tensor([3]), value))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda stored: stored.pop(NAME + SCALE), f"tensor '{NAME}' is stored in 8 bits, but its scale .* is missing"),
        (lambda stored: stored.pop(NAME), f"'{NAME + SCALE}' is a scale, but there is no tensor '{NAME}' of 8-bit"),
        (lambda stored: stored.update({NAME: stored[NAME].float()}), "is a scale, but there is no tensor .* of 8-bit"),
        (lambda stored: stored.update({"head.bias" + SCALE: torch.ones(9)}), "'head.bias.int8_scale' is a scale, but"),
        (
            with_scale(lambda scale: scale[:-1]),
            r"is bfloat16 \[383\], expected one floating-point scale per row, \[384\]",
        ),
        (with_scale(lambda scale: scale[:, None]), r"\[384, 1\], expected one floating-point scale per row, \[384\]"),
        (with_scale(lambda scale: scale[0]), r"bfloat16 \[\], expected one floating-point scale per row"),
        (with_scale(lambda scale: scale.int()), r"is int32 \[384\], expected one floating-point scale per row"),
        (one(float("nan")), "has scales that are negative or not finite"),
        (one(float("inf")), "has scales that are negative or not finite"),
        (one(-0.5), "has scales that are negative or not finite"),
        (with_scale(lambda scale: torch.full_like(scale, 3e38)), f"tensor '{NAME}' has values that are not finite"),
        (
            lambda stored: stored.update({NAME: stored[NAME][:, 1:]}),
            rf"tensor '{NAME}' is \[384, 127\] in the file and",
        ),
    ],
)
def test_wrong_scales_are_refused_in_one_line(folder: Path, change: Change, words: str) -> None:
    stored = load_file(folder / "model.safetensors")
    change(stored)
    content = save({name: tensor.contiguous() for name, tensor in stored.items()})
    (folder / "model.safetensors").write_bytes(content)
    config = json.loads((folder / "config.json").read_text())
    config["sha256"] = hashlib.sha256(content).hexdigest()
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(AkornError, match=words) as refused:
        load_model(folder)
    assert "\n" not in str(refused.value)


def test_scales_may_have_other_precisions(folder: Path) -> None:
    stored = load_file(folder / "model.safetensors")
    wide = {name: tensor.float() if name.endswith(SCALE) else tensor for name, tensor in stored.items()}
    plain, other = from_stored(stored, folder), from_stored(wide, folder)
    assert plain.keys() == other.keys() == read_folder(folder).weights.keys()
    assert all(torch.equal(plain[name], other[name]) for name in plain)
