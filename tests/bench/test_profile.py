"""benchmarks/profile_gpu.py, tiny on a CPU: every part of a step is counted once, in a group, and recorded."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "profile_gpu.py"


@pytest.fixture(scope="module")
def script():
    spec = spec_from_file_location("profile_gpu", SCRIPT)
    module = module_from_spec(spec)
    sys.modules["profile_gpu"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["profile_gpu"]


@pytest.mark.parametrize("work", ["sudoku", "vote", "shapes", "clevrtex", "cifar"])
def test_every_work(script, tmp_path, capsys, work):
    script.main([work, "--device", "cpu", "--size", "tiny", "--steps", "1", "--record", str(tmp_path)])
    (path,) = tmp_path.iterdir()
    record = json.loads(path.read_text(encoding="utf-8"))
    metrics, plain = record["metrics"], record["extra"][work]["plain"]
    for kind in ("groups", "kernels"):
        assert sum(part["share"] for part in plain[kind]) == pytest.approx(1)
        assert sum(part["milliseconds"] for part in plain[kind]) == pytest.approx(metrics[f"{work}/plain/kernels/ms"])
    groups = {part["name"] for part in plain["groups"]}
    assert {part["group"] for part in plain["kernels"]} == groups
    assert groups >= {"products", "copies, casts", "norms, readout", "convolution" if work == "cifar" else "products"}
    assert ("optimiser" in groups) == (work != "vote")
    assert ("attention backward" in groups) == (work in ("sudoku", "shapes", "clevrtex"))
    assert metrics[f"{work}/plain/ms"] > 0
    assert metrics[f"{work}/floor/products/ms"] > 0
    assert metrics[f"{work}/floor/bytes/ms"] > 0
    assert f"{work}, " in capsys.readouterr().out


def test_counts_are_of_one_step(script):
    a = torch.randn(8, 8)
    for count, per in ((1, 1), (3, 1), (2, 2)):
        found = script.by_kernel(lambda: [a @ a for _ in range(4)], torch.device("cpu"), count, per)
        (product,) = [part for part in found if part.name == "aten::mm"]
        assert product.count == 4 / per
        assert product.group == "products"


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_cublas", "products"),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT", "products"),
        ("sm90_xmma_wgrad_implicit_gemm_indexed_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize", "convolution"),
        ("void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true>", "convolution"),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<32, 128>>", "attention forward"),
        ("fmha_cutlassB_f32_aligned(PyTorchMemEffAttention::AttentionBackwardKernel<float>)", "attention backward"),
        ("_attend_kernel", "attention forward"),
        ("_keys_kernel", "attention backward"),
        ("_update_kernel", "update forward"),
        ("_update_backward_kernel", "update backward"),
        ("_output_update_kernel", "products"),
        ("_lengths_backward_kernel", "norms, readout"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, NormTwoOps<float>>>", "norms, readout"),
        ("void at::native::RowwiseMomentsCUDAKernel<float>(long, float)", "norms, readout"),
        ("void at::native::elementwise_kernel<128, 4, direct_copy_kernel_cuda>", "copies, casts"),
        ("Memcpy DtoD (Device -> Device)", "copies, casts"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>", "element-wise, sums"),
        ("void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>", "optimiser"),
        ("something new", "other"),
    ],
)
def test_groups_of_kernels(script, name, group):
    assert script.group_of(name) == group


def test_short_names(script):
    name = "void at::native::(anonymous namespace)::reduce_kernel<512, 1>(at::native::ReduceOp<float>)"
    assert script.short(name) == "reduce_kernel<512, 1>"
    assert len(script.short("x" * 200)) == 76


def test_an_unknown_work(script, capsys):
    with pytest.raises(SystemExit):
        script.main(["chess"])
    assert "unknown work 'chess'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_the_sweep(tmp_path):
    """In a separate process, since the interpreter is chosen when kernels are first imported."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, SCRIPT, "--sweep", "--device", "cpu", "--size", "tiny", "--record", tmp_path]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    (path,) = tmp_path.iterdir()
    rows = json.loads(path.read_text(encoding="utf-8"))["extra"]["sweep"]
    assert {(row["case"], row["jx"], row["way"]) for row in rows} == {
        (case, jx, way)
        for case in ("tokens", "pictures")
        for jx in ("float32", "bfloat16")
        for way in ("forward", "backward")
    }
    for row in rows:
        assert row["us"] > 0
        assert row["gb_s"] > 0
        assert row["share"] > 0


def test_the_sweep_tries_the_blocks_in_use(script):
    pytest.importorskip("triton")
    from akorn.kernels import update, update_backward

    for way, used in (("forward", update.BLOCK), ("backward", update_backward.BLOCK)):
        blocks = list(script._blocks("full", way))
        assert len(set(blocks)) == len(blocks) > 5
        assert used in blocks
