"""Parts of solve_gpu.py: a layer of Sudoku's size, and the fused kernels of solving compared with float64."""

from __future__ import annotations

import argparse
import copy
import time
from typing import Any

import torch
import triton
from torch import Tensor

from akorn import nn as akn
from akorn import oscillators as osc
from akorn.kernels import solve, solve_attention, solve_output, update
from akorn.nn.solve import described, prepared


def sudoku_layer(args: argparse.Namespace) -> akn.KuramotoLayer:
    coupling = akn.AttentionCoupling(args.channels, args.heads, grid=(args.grid, args.grid))
    omega = akn.PairwiseFrequency(4, init=0.5)
    rule = akn.Kuramoto() if args.rule == "kuramoto" else akn.WithoutProjection()
    return akn.KuramotoLayer(args.channels, 4, coupling, omega=omega, gamma=0.3, learn_gamma=True, rule=rule)


def fused(layer: akn.KuramotoLayer, x: Tensor, c: Tensor, steps: int, energy: str | None = "eq3", **options: Any):
    """`solve.fused_steps` of a layer."""
    drive, steps = prepared(layer, x, c, steps)
    return solve.fused_steps(described(layer), x, drive, steps, energy, owner=layer, **options)


def draw(batch: int, args: argparse.Namespace, dtype: torch.dtype = torch.float32, width: int = 1) -> Tensor:
    return torch.randn(batch, args.grid**2, width * args.channels, device=args.device).to(dtype)


def worst(result: Tensor, expected: Tensor) -> float:
    return float((result.double() - expected).abs().max())  # NaN stays NaN


def check(layer: akn.KuramotoLayer, args: argparse.Namespace) -> dict[str, float]:
    """The largest differences from float64; raises if one is more than rounding explains."""
    errors: dict[str, float] = {}
    batch, project = 5, args.rule == "kuramoto"
    started = time.perf_counter()
    for dtype, bound in ((torch.float32, 2e-4), (torch.bfloat16, 6e-2)):
        tokens = args.grid**2
        w = {key: value.to(dtype) for key, value in solve.weights_of(described(layer)).items()}
        gamma, rate = w["gamma"].float(), w["rate"].float()
        exact = copy.deepcopy(layer).to(dtype).double()  # float64 with the weights as the kernels see them
        x = osc.ungroup(osc.normalize(osc.group(draw(batch, args), 4))).to(dtype)
        c, qkv = draw(batch, args, dtype), draw(batch, args, dtype, 3)
        want_o = plain_attention(exact, qkv.double())
        several = None if dtype == torch.bfloat16 else 1  # float32 is slow to compile
        for config in solve_attention.CONFIGS[:several]:
            o = torch.full_like(x, float("nan"))
            solve_attention.attention_into(o, qkv, w["matrices"], args.heads, config)
            errors[f"attention {dtype} {config}"] = worst(o, want_o)
        want_jx = o.double() @ w["output"].double().T
        want_x = osc.ungroup(
            exact.rule.step(
                osc.group(x.double(), 4), osc.group(want_jx + c.double(), 4),
                osc.rotate_pairs(osc.group(x.double(), 4), rate.double()), gamma.double(), -1,
            )
        )  # fmt: skip
        want_energy = osc.energy(x.double(), want_jx, c.double())
        for config in dict.fromkeys(
            solve_output.output_config(config, args.channels) for config in solve_output.CONFIGS[:several]
        ):
            out = torch.full_like(x, float("nan"))
            parts = torch.full((batch, tokens * (args.channels // config.columns)), float("nan"), device=x.device)
            try:
                solve_output.output_update_into(out, parts, o, w["output"], x, c, gamma, rate, 4, project, 0.5, config)
            except triton.runtime.errors.OutOfResources as error:
                print(f"output {dtype} {config}: {error}")
                continue
            errors[f"output {dtype} {config}"] = worst(out, want_x)
            errors[f"output energy, relative, {dtype} {config}"] = relative(parts.sum(1), want_energy)
        jx = want_jx.to(dtype)
        out = torch.full_like(x, float("nan"))
        parts = torch.full((batch, update.update_parts(args.channels, tokens, 4)), float("nan"), device=x.device)
        update.update_into(out, parts, x, jx, c, gamma, rate, 4, project, 0.5)
        errors[f"update {dtype}"] = worst(out, want_x)
        for key, error in errors.items():
            if str(dtype) not in key:
                continue
            print(f"{key}: {error:.2e}", flush=True)
            if not error < bound:
                raise SystemExit(f"{key} is off by {error}, more than {bound}")
    print(f"kernels checked, including compilation: {time.perf_counter() - started:.1f} s")

    x, c = draw(batch, args), draw(batch, args)
    steps = min(args.steps, 9)
    want = copy.deepcopy(layer).double().evolve(x.double(), c.double(), steps, energy=osc.energy)
    half = copy.deepcopy(layer).bfloat16().evolve(x.bfloat16(), c.bfloat16(), steps, energy=osc.energy)
    assert want.energies is not None
    assert half.energies is not None
    for lanes in (1, 2):
        state, energies = fused(layer, x, c, steps, lanes=lanes)
        assert energies is not None
        key = f"{steps} steps, bfloat16, lanes {lanes}"
        errors[key] = worst(state, want.x)
        print(f"{key}: state {errors[key]:.2e}, energy (relative) {relative(energies, want.energies):.2e}")
    print(f"{steps} steps, plain bfloat16: state {worst(half.x, want.x):.2e},"
          f" energy (relative) {relative(half.energies, want.energies):.2e}", flush=True)  # fmt: skip
    return errors


def relative(result: Tensor, expected: Tensor) -> float:
    return worst(result, expected) / float(expected.abs().max())


def plain_attention(layer: akn.KuramotoLayer, qkv: Tensor) -> Tensor:
    coupling, place = layer.coupling, layer.coupling.position
    q, k, v = (part.unflatten(-1, (coupling.heads, -1)).transpose(1, 2) for part in qkv.chunk(3, -1))
    q, k, v = place.on_query(q), place.on_key(k), place.on_value(v)
    o = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v
    return place.on_output(o).transpose(1, 2).flatten(2)
