"""The simulator: what its pictures show is measured, and mistakes are named in time."""

from dataclasses import fields

import numpy as np
import pytest
import torch

import akorn
import akorn.simulate as sim
from akorn import oscillators as osc
from akorn import theory
from akorn.errors import AkornError
from akorn.nn import ConvCoupling, KuramotoLayer
from akorn.simulate import lattice
from akorn.simulate.frames import colours
from akorn.simulate.result import EnergyChange

SMALL = {"size": 16, "steps": 12, "kernel_size": 5}


def test_fish_energy_falls_and_conditions_hold() -> None:
    fish = sim.simulate("fish")
    assert fish.report.holds
    assert fish.frames.shape == (101, 64, 64, 4)
    assert fish.energies.shape == fish.order.shape == (201,)
    assert fish.energy_change.rises == 0
    assert fish.energies[-1] < 5 * fish.energies[0] < 0
    assert "never rose" in fish.describe()
    still = EnergyChange.of(np.array([-0.0, -0.0]), 1e-6)
    assert still.describe(9) == "the energy was the same before and after, 0, in 9 steps, in which it never rose"
    white = fish.stimulus[..., 0] > 0
    assert (fish.stimulus[white] == 1).all()
    assert (fish.stimulus[~white] == 0).all()
    # The white region is held; the fish still moves, turned by Ω.
    assert fish.movement_white[-50:].mean() < 0.02 * fish.movement_black[-50:].mean()


@pytest.mark.parametrize("seed", range(4))
def test_waves_on_black_stillness_on_white(seed: int) -> None:
    """Fig. osc_timeevo: aligned with c and almost constant where c = 1, waves where c = 0."""
    waves = sim.simulate("waves", seed=seed)
    assert waves.movement_black[100:].mean() > 0.01  # goes on moving
    assert waves.movement_white[100:].mean() < 0.15 * waves.movement_black[100:].mean()
    white = waves.stimulus[..., 0] > 0
    last = waves.frames[-1]
    assert (last[white].sum(-1) / 2).mean() > 0.95  # the cosine to c
    # Waves: inside the fish neighbours agree, those half a wave away do not, so the region as a whole has no
    # direction, though it started as noise.
    centre = np.zeros_like(white)
    centre[26:38, 16:36] = True
    alike = (last * np.roll(last, 1, 1)).sum(-1)
    across = (last * np.roll(last, 1, 0)).sum(-1)
    assert max(alike[centre].mean(), across[centre].mean()) > 0.5
    assert np.linalg.norm(last[centre].mean(0)) < 0.5
    assert theory.SYMMETRIC in waves.report.failed


def test_waves_move_because_the_kernel_is_not_symmetric(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same random kernel made symmetric: the energy falls and the pattern comes to rest."""
    drawn = lattice.random_kernel

    def symmetric(*args: object) -> torch.Tensor:
        kernel = drawn(*args)
        return 0.5 * (kernel + kernel.transpose(0, 1).flip(2, 3))

    free = sim.simulate("waves")
    monkeypatch.setattr(lattice, "random_kernel", symmetric)
    tied = sim.simulate("waves")
    assert tied.report.holds
    assert tied.energy_change.rises == 0
    assert tied.movement_black[150:].mean() < 0.3 * free.movement_black[150:].mean()


def test_strength_is_the_largest_eigenvalue() -> None:
    """Of the symmetric part of J as a matrix; on a torus of 16, whose waves are among those of 64."""
    kernel = lattice.random_kernel(2, 5, 0.5, 1.3, torch.Generator().manual_seed(0))
    coupling = ConvCoupling(2, 5, periodic=True).double()
    coupling.free_weight.data = kernel
    with torch.no_grad():
        j = coupling(torch.eye(512, dtype=torch.float64).reshape(512, 2, 16, 16)).flatten(1)
    largest = float(torch.linalg.eigvalsh((j + j.mT) / 2)[-1])
    assert 0.95 * 1.3 < largest <= 1.3 + 1e-9
    gaussian = lattice.gaussian_kernel(3, 9, 1.0, 2.0)
    assert lattice.growth_rate(gaussian) == pytest.approx(2.0)
    assert lattice.growth_rate(lattice.gaussian_kernel(3, 9, 1.0, -2.0)) < 0.1
    assert kernel.sum((2, 3)).abs().max() < 1e-12


def test_is_the_layers_update() -> None:
    """The whole run is `KuramotoLayer` from the same start; frames are its states, energies its energies."""
    waves = sim.simulate("waves", dtype="float64", frames=4, omega=0.3, **SMALL)
    assert waves.frame_steps.tolist() == [0, 3, 6, 9, 12]
    coupling = ConvCoupling(4, 5, periodic=True).double()
    coupling.free_weight.data = torch.from_numpy(waves.kernel)
    omega = akorn.nn.NaturalFrequency.from_matrix(lattice.rotation(4, 0.3))
    layer = KuramotoLayer(4, 4, coupling, omega=omega).double()
    layer.gamma = torch.tensor(waves.settings.gamma, dtype=torch.float64)
    x, c = (torch.from_numpy(a).movedim(-1, 0)[None] for a in (waves.frames[0], waves.stimulus))
    with torch.no_grad():
        run = layer.evolve(x, c, 12, energy=osc.energy, trajectory=True)
    expected = run.trajectory[waves.frame_steps, 0].movedim(1, -1).numpy()
    np.testing.assert_allclose(waves.frames, expected, atol=1e-12)
    np.testing.assert_allclose(waves.energies[:-1], run.energies[:, 0].numpy(), atol=1e-9)


@pytest.mark.parametrize("preset", ["fish", "waves"])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_other_dimensions(preset: str, n: int) -> None:
    result = sim.simulate(preset, n=n, **SMALL)
    np.testing.assert_allclose(np.linalg.norm(result.frames, axis=-1), 1, atol=1e-5)
    assert result.report.holds is (preset == "fish")
    assert colours(result.frames).shape == (*result.frames.shape[:-1], 3)


def test_a_frequency_that_moves_c_is_reported() -> None:
    assert sim.simulate("fish", n=2, omega=1.0, **SMALL).report.failed == (theory.KERNEL,)


@pytest.mark.parametrize("preset", list(sim.PRESETS))
def test_same_seed_same_arrays(preset: str) -> None:
    options = SMALL if preset != "classic" else {"oscillators": 30, "steps": 20, "network": "small-world"}
    first, again, other = (sim.simulate(preset, seed=seed, **options) for seed in (3, 3, 4))
    for field in fields(first):
        value = getattr(first, field.name)
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, getattr(again, field.name))
    assert (first.frames != other.frames).any()


def test_package_and_function_have_one_name() -> None:
    for _ in range(2):
        assert akorn.simulate("fish", **SMALL).preset == "fish"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "bird"}, "unknown preset 'bird'; the presets are: fish, waves, classic"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"steps": 2.5}, "steps must be a whole number, got 2.5"),
        ({"n": 1}, "n must be at least 2, got 1"),
        ({"kernel_size": 8}, "kernel_size must be odd, got 8"),
        ({"kernel_size": 61, "size": 16}, "does not fit"),
        ({"size": 4}, "size must be at least 8"),
        ({"gamma": float("nan")}, "gamma must be a finite number, got nan"),
        ({"gamma": 0.0}, "gamma must be above 0"),
        ({"strength": float("inf")}, "strength must be a finite number"),
        ({"kernel_width": 0.0}, "kernel_width of a Gaussian must be above 0"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"frames": 0}, "frames must be at least 1"),
        ({"dtype": "int8"}, "dtype must be one of float32, float64; got 'int8'"),
        ({"device": "abacus"}, "the device 'abacus' cannot be used"),
        ({"network": "ring"}, "the preset 'fish' has no option 'network'; it has: steps"),
        ({"step": 3}, "did you mean 'steps'"),
        ({"preset": "classic", "n": 3}, "the preset 'classic' has no option 'n'"),
        ({"preset": "classic", "network": "tree"}, "network must be one of all, ring, small-world, random"),
        ({"preset": "classic", "frequencies": "cauchy"}, "frequencies must be one of lorentzian, gaussian"),
        ({"preset": "classic", "oscillators": 2}, "oscillators must be at least 3"),
        ({"preset": "classic", "k_min": 3.0, "k_max": 1.0}, "k_max must not be below k_min"),
        ({"preset": "classic", "network": "ring", "degree": 3}, "degree must be even"),
        ({"preset": "classic", "network": "ring", "degree": 2000}, "degree must be below"),
        ({"preset": "classic", "network": "small-world", "rewiring": 1.5}, "rewiring must be at most 1"),
        ({"preset": "classic", "spread": 0.0}, "spread must be at least 1e-06"),
        ({"preset": "classic", "spread": 1e300}, "spread must be at most"),
        ({"preset": "classic", "k_max": 1e300}, "k_max must be at most"),
        ({"preset": "classic", "k_min": -1e300}, "k_min must be at least"),
        ({"preset": "classic", "k_count": 10**6, "oscillators": 10**6}, "more than 4: choose fewer of either"),
        ({"seed": 99999999999999999999}, "seed must be at most 9223372036854775807"),
        ({"gamma": 1e38}, "gamma must be at most 100"),
        ({"gamma": 1e300}, "gamma must be at most 100"),
        ({"kernel_width": 1e-200}, "kernel_width must be at least 0.01"),
        ({"preset": "waves", "kernel_width": 1e-200}, "kernel_width must be at least 0.01"),
        ({"kernel_width": 1e300}, "kernel_width must be at most 9"),
        ({"kernel_size": 65}, "kernel_size must be at most 63"),
        ({"strength": -1e300}, "strength must be at least"),
        ({"omega": 1e300}, "omega must be at most"),
        ({"size": 2000}, "101 frames of 2000×2000 oscillators with n = 4 need 6.0 GiB"),
        ({"steps": 10**30}, "steps must be at most"),
        ({"device": "meta"}, "the device 'meta' cannot be used"),
    ],
)
def test_mistakes_are_named(options: dict, message: str) -> None:
    with pytest.raises(AkornError) as error:
        sim.simulate(**options)
    assert message in str(error.value)


@pytest.mark.parametrize("preset", ["fish", "waves"])
def test_the_widest_settings_are_still_numbers(preset: str) -> None:
    for width in (0.01, 5.0):
        result = sim.simulate(preset, gamma=100.0, kernel_width=width, strength=1e6, seed=2**63 - 1, **SMALL)
        assert np.isfinite(result.energies).all()
        assert np.isfinite(result.kernel).all()


def test_conditions_of_a_large_torus_are_asked_on_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answer as on the whole, at a cost that does not grow with it."""
    asked = []
    check = lattice.layer_conditions
    monkeypatch.setattr(lattice, "layer_conditions", lambda layer, c: asked.append(c.shape) or check(layer, c))
    options = {"size": 40, "steps": 2, "kernel_size": 5}
    for preset, n in (("fish", 4), ("waves", 4), ("fish", 2)):
        whole = sim.simulate(preset, n=n, omega=1.0, **options)
        monkeypatch.setattr(lattice, "CHECKED", 10)
        small = sim.simulate(preset, n=n, omega=1.0, **options)
        monkeypatch.undo()
        monkeypatch.setattr(lattice, "layer_conditions", lambda layer, c: asked.append(c.shape) or check(layer, c))
        assert whole.report.failed == small.report.failed
    assert {shape[-1] for shape in asked} == {10, 40}
