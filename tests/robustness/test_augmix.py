"""AugMix mixes as defined, repeats with its generator, and its operations are Pillow's."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from akorn import kernels
from akorn.robustness import augmix as module
from akorn.robustness.augmix import OPERATIONS, augmix
from akorn.robustness.recipes import AugmixOperations


def pictures(count: int = 32, height: int = 32, width: int = 32) -> Tensor:
    """Smooth random pictures with a little noise, one of them flat, one with two grey levels only; uint8."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, 3, 5, 5, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic")
    noisy = smooth * 200 + 20 * torch.rand(count, 3, height, width, generator=generator)
    images = noisy.clamp(0, 255).to(torch.uint8)
    images[0] = 77
    images[1] = torch.where(images[1] > 100, 200, 40).to(torch.uint8)
    return images


def apply(images: Tensor, name: str, amount: float) -> np.ndarray:
    """One operation on all pictures, as uint8 [B, H, W, 3]; through the same functions as a chain."""
    count, _, height, width = images.shape
    operation = torch.full((1, count), OPERATIONS.index(name))
    amounts = torch.full((1, count), amount)
    grids, inside = module._places(operation, amounts, height, width)
    levels = module._move(images.float(), grids[0], inside[0])
    kinds = (operation[0] == OPERATIONS.index(other) for other in ("autocontrast", "equalize"))
    state = module._replace(levels, module._fixed_tables(operation, amounts)[0], *kinds).view(images.shape)
    state = module._blend(state, operation[0], amounts[0])
    assert torch.equal(state, state.floor())
    return state.permute(0, 2, 3, 1).to(torch.uint8).numpy()


def amounts(operations: str, name: str, level: float, sign: int, severity: float = 3, side: int = 32) -> float:
    """The amount of an operation, for a level in 0–1."""
    levels = torch.tensor([[[level], [0.2 if sign < 0 else 0.7]]])
    draws = module.Draws(torch.tensor([[OPERATIONS.index(name)]]), levels, *(torch.zeros(1) for _ in range(3)))
    form = module._of_thirteen if operations == "thirteen" else module._of_nine
    return float(form(draws, severity, side, side))


def transform(*numbers: float):
    return lambda image: image.transform(image.size, Image.Transform.AFFINE, numbers, Image.Resampling.BILINEAR)


ENHANCED = {
    "brightness": ImageEnhance.Brightness,
    "colour": ImageEnhance.Color,
    "contrast": ImageEnhance.Contrast,
    "sharpness": ImageEnhance.Sharpness,
}


def enhanced(kind, amount: float):
    return lambda image: kind(image).enhance(1 + amount)


@pytest.mark.parametrize("size", [(32, 32), (24, 40)])
@pytest.mark.parametrize(
    ("name", "amount", "pillow"),
    [
        ("autocontrast", 1.0, ImageOps.autocontrast),
        ("equalize", 1.0, ImageOps.equalize),
        ("posterize", 4.0, lambda image: ImageOps.posterize(image, 4)),
        ("posterize", 5.0, lambda image: ImageOps.posterize(image, 3)),
        ("solarize", 205.0, lambda image: ImageOps.solarize(image, 205)),
        ("solarize", 198 + 1 / 3, lambda image: ImageOps.solarize(image, 198 + 1 / 3)),
        ("solarize", 256.0, lambda image: image),
        ("rotate", 7.0, lambda image: image.rotate(7, Image.Resampling.BILINEAR)),
        ("rotate", -20 / 3, lambda image: image.rotate(-20 / 3, Image.Resampling.BILINEAR)),
        ("shear_x", 0.06, transform(1, 0.06, 0, 0, 1, 0)),
        ("shear_y", -0.09, transform(1, 0, 0, -0.09, 1, 0)),
        ("translate_x", 3.0, transform(1, 0, 3, 0, 1, 0)),
        ("translate_y", -2.0, transform(1, 0, 0, 0, 1, -2)),
        *((name, amount, enhanced(kind, amount)) for name, kind in ENHANCED.items() for amount in (0.1, -0.2, 0.9, -1)),
    ],
)
def test_operations_are_those_of_pillow_within_a_grey_level(name: str, amount: float, pillow, size) -> None:
    images = pictures(32, *size)
    found = apply(images, name, amount).astype(int)
    original = images.permute(0, 2, 3, 1).numpy()
    wanted = np.stack([np.asarray(pillow(Image.fromarray(np.ascontiguousarray(picture)))) for picture in original])
    assert np.abs(found - wanted).max() <= 1
    assert (found == wanted).mean() > 0.98
    if (name, amount) != ("solarize", 256.0):
        assert (wanted != original).mean() > 0.02  # it did something


def test_the_thirteen_are_the_nine_and_four_blends() -> None:
    assert len(OPERATIONS) == len(set(OPERATIONS)) == 13
    assert set(OPERATIONS[9:]) == set(ENHANCED)
    assert module.COUNTS == {"thirteen": 13, "nine": 9}


@pytest.mark.parametrize(
    ("name", "expected", "signed"),
    [
        ("shear_x", (0, 0.3 / 9, 0.6 / 9), True),
        ("shear_y", (0, 0.3 / 9, 0.6 / 9), True),
        ("translate_x", (0, 1, 2), True),  # of 32/3: 1.19 and 2.37, in whole pixels
        ("translate_y", (0, 1, 2), True),
        ("rotate", (0, 30 / 9, 60 / 9), True),
        ("posterize", (4, 4, 5), False),  # bits cleared of eight: 4, 4 and 3 are left
        ("solarize", (255, 255 - 255 / 9, 255 - 510 / 9), False),
        *((name, (0, 0.1, 0.2), True) for name in OPERATIONS[9:]),
    ],
)
def test_magnitudes_of_the_thirteen_are_the_first_three_of_ten_steps(name: str, expected, signed: bool) -> None:
    for step, value in enumerate(expected):
        for level in (step / 3 + 0.01, (step + 1) / 3 - 0.01):
            assert amounts("thirteen", name, level, 1) == pytest.approx(value)
            assert amounts("thirteen", name, level, -1) == pytest.approx(-value if signed else value)
    largest = {"shear": 0.3, "translate": 10, "rotate": 30, "posterize": 8, "solarize": 0}.get(name.split("_")[0], 0.9)
    assert amounts("thirteen", name, 0.99, 1, severity=10) == pytest.approx(largest)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("shear_x", -0.087), ("translate_y", -3), ("rotate", -8), ("posterize", 5), ("solarize", 256 - 74)],
)
def test_magnitudes_of_the_nine_are_those_of_their_paper(name: str, expected: float) -> None:
    assert amounts("nine", name, 2.8 / 2.9, -1) == pytest.approx(expected)  # level 2.9


@pytest.mark.parametrize("operations", ["thirteen", "nine"])
def test_range_shape_and_repetition(operations: AugmixOperations) -> None:
    images = pictures()

    def augmix(images: Tensor, generator: torch.Generator) -> Tensor:
        return module.augmix(images, generator, operations=operations)

    draws = [augmix(images, torch.Generator().manual_seed(seed)) for seed in (5, 5, 6)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert draws[0].dtype == torch.float32
    assert draws[0].shape == images.shape
    assert draws[0].min() >= 0
    assert draws[0].max() <= 1
    assert torch.equal(augmix(images / 255, torch.Generator().manual_seed(5)), draws[0])
    grey = augmix(images[:, :1], torch.Generator().manual_seed(5))
    assert grey.shape == (32, 1, 32, 32)


def test_pictures_are_changed_each_in_its_own_way_and_stay_alike() -> None:
    image = pictures()[5:6]
    many = augmix(image.expand(300, -1, -1, -1), torch.Generator().manual_seed(0))
    distance = (many - image / 255).square().mean((1, 2, 3)).sqrt()
    assert len(torch.unique(distance)) > 290
    assert (distance > 0.001).float().mean() > 0.9
    assert distance.median() < 0.2


def test_a_mixture_lies_between_the_picture_and_its_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    # With chains that end in black the mixture is (1 − m)·x: so m can be seen, and is uniform.
    monkeypatch.setattr(module, "_replace", lambda levels, *_: torch.zeros(levels.shape))
    monkeypatch.setattr(module, "_blend", lambda state, *_: state)
    image = torch.ones(4000, 1, 2, 2)
    share = 1 - augmix(image, torch.Generator().manual_seed(1))
    assert torch.equal(share.amax((1, 2, 3)), share.amin((1, 2, 3)))
    counts = torch.histc(share[:, 0, 0, 0], 10, 0, 1) / 4000
    assert (counts - 0.1).abs().max() < 0.025  # standard deviation 0.0047


def test_chain_weights_are_uniform_on_the_simplex(monkeypatch: pytest.MonkeyPatch) -> None:
    # Chains that keep the first of each three and blacken the others: x·(1 − m + m·w₁), with m uniform, w₁ Beta(1, 2).
    def first_only(levels: Tensor, *_: object) -> Tensor:
        keep = torch.arange(len(levels)) % 3 == 0
        return torch.where(keep[:, None, None], 255.0, 0.0).expand(levels.shape)

    monkeypatch.setattr(module, "_replace", first_only)
    monkeypatch.setattr(module, "_blend", lambda state, *_: state)
    value = augmix(torch.ones(20_000, 1, 1, 1), torch.Generator().manual_seed(2)).flatten()
    lost = 1 - value  # m·(1 − w₁)
    assert float(lost.mean()) == pytest.approx(1 / 2 * 2 / 3, abs=0.01)
    assert float(lost.square().mean()) == pytest.approx(1 / 3 * 1 / 2, abs=0.01)  # E m² · E (1 − w₁)²


@pytest.mark.parametrize(("operations", "count"), [("thirteen", 13), ("nine", 9)])
def test_operations_and_depths_come_equally_often(operations, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []
    places = module._places

    def spy(operation: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
        seen.append(operation)
        return places(operation, *rest)

    monkeypatch.setattr(module, "_places", spy)
    augmix(torch.ones(3000, 1, 1, 1), torch.Generator().manual_seed(3), operations=operations)
    active = seen[0] >= 0  # [3, 9000]
    assert active[0].all()
    assert float(active[1].float().mean()) == pytest.approx(2 / 3, abs=0.02)
    assert float(active[2].float().mean()) == pytest.approx(1 / 3, abs=0.02)
    assert not (active[2] & ~active[1]).any()
    counts = torch.bincount(seen[0][0], minlength=count) / 9000
    assert len(counts) == count
    assert (counts - 1 / count).abs().max() < 0.015  # 0.0033


def test_translation_moves_as_far_on_both_sides() -> None:
    operation = torch.full((2,), OPERATIONS.index("translate_x"))
    grid, inside = module._places(operation, torch.tensor([3.0, -3.0]), 32, 32)
    centres = (grid + 1) * 16 - 0.5  # back to pixels, [2, 32, 32, 2]
    assert torch.equal(centres[0, :, :, 0] - 3, centres[1, :, :, 0] + 3)
    assert centres[0, 4, 5].tolist() == [8.0, 4.0]
    assert inside[0, 0].sum(1).unique().tolist() == [29]


def test_nothing_waits_for_the_device() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():  # tensors without values: looking at one is an error
        assert augmix(torch.empty(8, 3, 32, 32)).shape == (8, 3, 32, 32)


def test_gradients_and_the_batch_are_left_alone() -> None:
    images = pictures() / 255
    before = images.clone()
    augmix(images, torch.Generator().manual_seed(0))
    assert torch.equal(images, before)


@pytest.mark.parametrize(
    "options",
    [
        {"width": 0},
        {"depth": 0},
        {"severity": 0.0},
        {"severity": 11.0},
        {"severity": 2.5},
        {"severity": 0.05, "operations": "nine"},
        {"operations": "ten"},
    ],
)
def test_impossible_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        augmix(pictures(), **options)  # type: ignore[arg-type]


def test_other_arrays_are_refused() -> None:
    for images in (pictures()[0], pictures().long(), pictures()[:, :2]):
        with pytest.raises(ValueError, match="pictures must be"):
            augmix(images)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("operations", ["thirteen", "nine"])
@pytest.mark.parametrize(("shape", "options"), [((16, 3, 32, 32), {}), ((5, 1, 16, 32), {"width": 2, "depth": 4})])
@pytest.mark.usefixtures("poisoned")
def test_the_kernel_makes_the_plain_forms_pictures(
    shape, options, operations: AugmixOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    from akorn.robustness import augmix_kernel

    device = "cuda" if torch.cuda.is_available() else "cpu"  # there in Triton's interpreter
    images = pictures(shape[0], *shape[2:])[:, : shape[1]] / 255
    count, generator = module.COUNTS[operations], torch.Generator().manual_seed(4)
    draws = module._draw(images, options.get("width", 3), options.get("depth", 3), count, generator)
    for severity in (3, 10):
        amounts = (module._of_thirteen if count == 13 else module._of_nine)(draws, severity, *shape[2:])
        wanted = module._mix(images, draws, amounts)
        there = module.Draws(*(part.to(device) for part in draws))
        found = augmix_kernel.fused_augmix(images.to(device), there, amounts.to(device)).cpu()
        assert not found.isnan().any()
        # A rounding may put a moved pixel on the other side of a grey level, or of the picture's border.
        off = (found - wanted).abs() > 1e-5
        assert off.float().mean() < (0.01 if device == "cuda" else 0.002)

    called: list[Tensor] = []
    monkeypatch.setattr(kernels, "_interpreted", True)
    monkeypatch.setattr(augmix_kernel, "fused_augmix", lambda x, *_: called.append(x) or x)
    augmix(images.to(device), **options)
    assert len(called) == 1
    augmix(pictures(2, 24, 40).to(device))  # not a power of two
    augmix(images[:, :, :8, :8].to(device))  # too small
    assert len(called) == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_graph_records_it() -> None:
    images = pictures(128).cuda()
    generator = torch.Generator("cuda").manual_seed(0)
    augmix(images, generator)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    generator.manual_seed(7)
    with torch.cuda.graph(graph):
        recorded = augmix(images, generator)
    generator.manual_seed(7)
    graph.replay()
    one = recorded.clone()
    graph.replay()
    assert not torch.equal(one, recorded)  # the generator goes on
    assert torch.equal(one, augmix(images, torch.Generator("cuda").manual_seed(7)))
