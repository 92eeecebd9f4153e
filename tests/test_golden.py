"""Numbers of the published implementation, reproduced in float64.

Every case is taken from the files in tests/golden, which hold only numbers: sizes, N, steps, γ, heads, whether Proj is
applied, and which parameters exist.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from akorn import oscillators as osc
from akorn.nn import (
    GTA,
    AttentionCoupling,
    ChannelAffine,
    ConvCoupling,
    GroupNorm,
    Kuramoto,
    KuramotoLayer,
    PairwiseFrequency,
    Readout,
    WithoutProjection,
)

FOLDER = Path(__file__).parent / "golden"
LAYERS = sorted([*FOLDER.glob("conv_*.npz"), *FOLDER.glob("attention_*.npz")])
READOUTS = sorted(FOLDER.glob("readout_*.npz"))
TOLERANCE = {"rtol": 0, "atol": 1e-9}


def test_there_is_something_to_reproduce() -> None:
    assert (len(LAYERS), len(READOUTS)) == (6, 1)


def load(path: Path) -> dict[str, Tensor]:
    with np.load(path) as arrays:
        return {key: torch.from_numpy(np.asarray(arrays[key])) for key in arrays.files}


def conv(case: dict[str, Tensor]) -> tuple[nn.Module, Tensor | None]:
    """The coupling, and its bias, which here belongs to the layer."""
    weight = case["param.connectivity.weight"]
    coupling = ConvCoupling(weight.shape[0], weight.shape[-1]).double()
    coupling.free_weight.data = weight
    return coupling, case.get("param.connectivity.bias")


def attention(case: dict[str, Tensor]) -> tuple[nn.Module, Tensor | None]:
    """Their heads interleave, channel = d·heads + head; ours are contiguous, channel = head·D + d."""
    heads, (_, channels, *grid) = int(case["heads"]), case["x0"].shape
    theirs = torch.arange(channels).reshape(-1, heads).T.flatten()
    position = None
    if "param.connectivity.mat_q" in case:
        q, k, v, o = (case[f"param.connectivity.mat_{name}"] for name in "qkvo")
        position = GTA.from_matrices(tuple(grid), q, v, k, o)
    has_bias = "param.connectivity.W_qkv.bias" in case
    coupling = AttentionCoupling(channels, heads, position=position, bias=has_bias).double()
    rows = torch.cat([theirs + part * channels for part in range(3)])
    coupling.maps.qkv.weight.data = case["param.connectivity.W_qkv.weight"].flatten(1)[rows]
    if has_bias:
        coupling.maps.qkv.bias.data = case["param.connectivity.W_qkv.bias"][rows]
    coupling.maps.output.weight.data = case["param.connectivity.W_o.weight"].flatten(1)[:, theirs]
    return coupling, case.get("param.connectivity.W_o.bias")


def stimulus(case: dict[str, Tensor], channels: int, n: int) -> nn.Module | None:
    if "param.c_norm.weight" in case:
        norm = GroupNorm(channels // n, channels)
        norm.weight.data = case["param.c_norm.weight"]
    elif "param.c_norm.scale" in case:
        norm = ChannelAffine(channels)
        norm.scale.data = case["param.c_norm.scale"]
    else:
        return None
    norm.bias.data = case["param.c_norm.bias"]
    return norm


def omega(case: dict[str, Tensor], n: int) -> nn.Module | None:
    """Their rate is the norm of the parameter's last axis."""
    if "param.omg.omg_param" not in case:
        return None
    rate = case["param.omg.omg_param"].norm(dim=-1)
    module = PairwiseFrequency(n, 2 * len(rate) // n if rate.ndim else None)
    module.rate.data = rate.reshape(module.rate.shape)
    return module


def build(case: dict[str, Tensor]) -> KuramotoLayer:
    channels, n = case["x0"].shape[1], int(case["n"])
    coupling, bias = attention(case) if int(case["heads"]) else conv(case)
    layer = KuramotoLayer(
        channels,
        n,
        coupling,
        omega=omega(case, n),
        gamma=case["gamma"].double(),
        rule=Kuramoto() if case["projection"] else WithoutProjection(),
        stimulus=stimulus(case, channels, n),
        bias=bias is not None,
    ).double()
    if bias is not None:
        layer.bias.data = bias
    return layer


@pytest.mark.parametrize("path", LAYERS, ids=lambda path: path.stem)
@pytest.mark.parametrize("layout", ["pictures", "tokens"])
def test_layer(path: Path, layout: str) -> None:
    case = load(path)
    if layout == "tokens" and not int(case["heads"]):
        pytest.skip("a 2-D convolution takes pictures alone")
    layer = build(case)
    x, c, states = case["x0"], case["c"], case["states"]
    if layout == "tokens":
        x, c, states = (a.flatten(-2).transpose(-1, -2) for a in (x, c, states))
    result = layer.evolve(x, c, int(case["steps"]), energy=osc.published_energy, trajectory=True)
    torch.testing.assert_close(result.trajectory[1:], states, **TOLERANCE)
    torch.testing.assert_close(result.energies, case["energies"], **TOLERANCE)


@pytest.mark.parametrize("path", READOUTS, ids=lambda path: path.stem)
def test_readout(path: Path) -> None:
    case = load(path)
    weight, n = case["param.invconv.weight"], int(case["n"])
    readout = Readout(weight.shape[1], len(weight) // n, n_out=n, kernel_size=weight.shape[-1]).double()
    readout.weight.data = weight
    readout.bias.data = case.get("param.bias", torch.zeros(len(weight) // n, dtype=torch.float64))
    readout.inner_bias.data = case.get("param.invconv.bias", torch.zeros(len(weight), dtype=torch.float64))
    torch.testing.assert_close(readout(case["x"]), case["y"], **TOLERANCE)
