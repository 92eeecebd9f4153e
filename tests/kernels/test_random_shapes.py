"""Kernels at shapes drawn at random, forward and backward against float64, into outputs that are NaN at first.

The other tests here have lists of shapes that someone thought of. These are drawn once, from fixed seeds: awkward ones,
of many kinds, but the same every time. The checks of a shape are in the kernel's own file.
"""

import random

import pytest
import test_attention
import test_convolution_kernel
import test_group_norm_kernel
import test_kernels
import test_pairs_passes
import test_readout_kernel
import test_sphere
import torch

F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
NCHW, LAST = torch.contiguous_format, torch.channels_last


def rounds(count, draw):
    """One test for each of this many cases, which `draw` makes from a random generator."""
    pick = random.Random(draw.__name__)
    return pytest.mark.parametrize("case", [draw(pick) for _ in range(count)], ids=str)


def tokens_or_pictures(pick, channels, most_tokens=60):
    """A shape with this many channels: [B, tokens, C] or [B, C, H, W]."""
    if pick.random() < 0.5:
        return (pick.randint(1, 3), pick.randint(1, most_tokens), channels)
    return (pick.randint(1, 3), channels, pick.randint(1, 9), pick.randint(1, 9))


def attention_sizes(pick):
    batch, heads = pick.choice([(1, 1), (2, 1), (1, 2)])
    sizes = batch, pick.randint(1, 150), heads, 2 * pick.randint(1, 32)
    return *sizes, pick.choice([0, 2, 4]), pick.choice([F32, F32, F32, BF16, F16])


@rounds(6, attention_sizes)
def test_attend_anywhere(device, case):
    batch, tokens, heads, head_dim, sets, dtype = case
    problem = test_attention.problem(batch, tokens, heads, head_dim, sets, dtype, device)
    test_attention.check(problem, heads, test_attention.TOLERANCE[dtype])


def solving_sizes(pick):
    return pick.randint(1, 2), pick.randint(1, 128), pick.randint(1, 2), 2 * pick.randint(1, 32), pick.random() < 0.7


@rounds(3, solving_sizes)
def test_attention_anywhere(device, case):
    test_kernels.test_attention(device, F32, *case)


def output_sizes(pick):
    n, channels = pick.choice([2, 4, 8, 16]), 16 * pick.randint(1, 6)
    rule = pick.random() < 0.5
    return rule, pick.choice([F32, BF16, F16]), n, channels, pick.choice([0.5, 1.0]), pick.random() < 0.5


@rounds(5, output_sizes)
def test_output_update_anywhere(device, case):
    test_kernels.test_output_update(device, *case)


def norm_sizes(pick):
    groups, size = pick.randint(1, 6), 2 ** pick.randint(0, 4)
    shape = tokens_or_pictures(pick, groups * size, 90)
    order = pick.choice(["plain", "last"] if len(shape) == 4 else ["plain", "transposed", "gaps"])
    return shape, groups, order, pick.choice([F64, F32, F16, BF16])


@rounds(16, norm_sizes)
def test_group_norm_anywhere(device, case):
    shape, groups, order, dtype = case
    found, expected = test_group_norm_kernel.both(test_group_norm_kernel.draw(shape, order, device, dtype), groups)
    test_group_norm_kernel.close(found, expected, dtype)


def readout_sizes(pick):
    n = pick.randint(1, 16)
    shape = tokens_or_pictures(pick, n * pick.randint(1, 9))
    return shape, n, pick.choice([NCHW, LAST]) if len(shape) == 4 else NCHW, pick.choice([F64, F32, F16, BF16])


@rounds(16, readout_sizes)
def test_group_lengths_anywhere(device, case):
    shape, n, memory, dtype = case
    arrays = test_readout_kernel.draw(shape, device, dtype, n, memory)
    test_readout_kernel.close(*test_readout_kernel.both(*arrays, n), dtype)


def convolution_sizes(pick):
    batch, channels, out = pick.randint(1, 3), pick.randint(1, 40), pick.randint(1, 40)
    height, width, kernel = pick.randint(1, 12), pick.randint(1, 12), pick.choice([1, 3, 5, 7, 9])
    return (batch, channels, out, height, width, kernel, pick.choice([1, 1, 2])), pick.choice([F32, BF16])


@pytest.mark.parametrize("way", ["library", "mirrored"])
@rounds(10, convolution_sizes)
def test_conv2d_anywhere(device, monkeypatch, case, way):
    from akorn.kernels import convolution

    size, dtype = case
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # its transforms in float32 are no better than 3e-4
    monkeypatch.setattr(convolution, "best", lambda key, ways, launch, ahead: way)
    results, arrays = test_convolution_kernel.results, test_convolution_kernel.draw(size, device, dtype)
    found = results(arrays, size[-1], convolution.conv2d)
    wide = [a.detach().double().requires_grad_() for a in arrays]
    for result, wanted in zip(found, results(wide, size[-1], test_convolution_kernel.plain), strict=True):
        test_attention.near(result, wanted, {F32: 1e-3 if device.type == "cuda" else 3e-6, BF16: 1e-2}[dtype])


def sphere_sizes(pick):
    n, axes = pick.randint(2, 16), pick.randint(2, 4)
    channels = n * pick.randint(1, 9)
    shape = (pick.randint(1, 40), channels) if axes == 2 else tokens_or_pictures(pick, channels, 150)
    return shape, n, pick.choice(["p", "g", "l"] if len(shape) == 4 else ["p", "g"]), pick.choice([F64, F32, F16, BF16])


@rounds(16, sphere_sizes)
def test_normalise_anywhere(device, case):
    test_sphere.test_same_as_float64(device, *case)


def turned_sizes(pick):
    return pick.randint(1, 6), pick.randint(1, 8), pick.randint(1, 3), 2 * pick.randint(1, 9), pick.choice([2, 4])


@rounds(4, turned_sizes)
def test_turn_passes_anywhere(device, case):
    arrays = test_pairs_passes.made(case, device)
    test_pairs_passes.test_turned(arrays)
    test_pairs_passes.test_gradients_turned_back(arrays)
