"""Every case runs tiny on a CPU, in every form; shares, errors and counts mean what they say."""

import json
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from akorn import kernels
from akorn.bench import CASES, Ceilings, Setup, bench, measure_ceilings, nets, parts
from akorn.bench.commands.bench import CASES as NAMES
from akorn.bench.commands.bench import Options, run
from akorn.bench.convolutions import WAYS, _fast
from akorn.bench.measure import measure
from akorn.bench.runtime import PAIRS
from akorn.bench.work import Form, Piece, Recording, Runner, step_traffic, usual_forms
from akorn.nn import AttentionCoupling, ConvCoupling, KuramotoLayer, Store

CPU = torch.device("cpu")
TINY = Setup("tiny", CPU, 4, compiled=False, recompute=False, precision="float32")
CEILINGS = Ceilings(1e9, 1e9)


def pieces(case, setup=TINY):
    torch.manual_seed(0)
    return list(CASES[case](setup))


@pytest.mark.parametrize("case", CASES)
def test_every_case_runs_tiny(case):
    was = kernels.enabled()
    rows = list(bench(pieces(case), device=CPU, ceilings=CEILINGS, repeats=1))
    assert kernels.enabled() == was
    assert {row.case for row in rows} == {case}
    for row in rows:
        assert row.milliseconds > 0
        assert row.peak_mib > 0
        if case == "runtime":  # starts are random, and a baseline's least traffic is not counted
            assert row.error is None
            assert row.bandwidth_share is None
        else:
            assert 0 <= row.error < 1e-4  # float32's rounding; NaN fails
            assert row.bandwidth_share > 0
        assert (row.matmul_share is None) == (case == "update")
    firsts = [row for row in rows if row.variant == rows[0].variant]
    assert all(row.speedup == 1.0 for row in firsts)


def test_run_times_are_of_pairs_of_one_size():
    """One training step and one answer each; batch, steps and products are the same with and without oscillators."""
    found = {}
    for piece in pieces("runtime"):
        size = (piece.size, piece.steps, [tuple(part.shape) for part in piece.inputs])
        found.setdefault(piece.name, {})[piece.mode] = (size, Runner(piece, CPU, "float32").flops())
    pairs = list(zip(list(found)[::2], list(found)[1::2], strict=True))
    assert len(pairs) == 3  # one per task
    assert set(pairs) < set(PAIRS)
    for one, other in pairs:
        assert set(found[one]) == {"training", "forward"}
        for mode in found[one]:
            (size, work), (same, less) = found[one][mode], found[other][mode]
            assert size == same
            assert 0.25 < work / less < 4


def test_the_command_knows_the_cases():
    assert ("layers", *CASES) == NAMES


# Gradients of untrained convolutions differ by their own size in bfloat16: docs/speed.md says why.
@pytest.mark.parametrize(("case", "most"), [("sudoku", 1), ("shapes", 1), ("cifar", 2)])
def test_recomputation_and_half_precision(case, most):
    setup = replace(TINY, recompute=True, precision="bf16")
    (piece,) = pieces(case, setup)
    assert all(form.recompute for form in piece.forms.values())
    runner = Runner(piece, CPU, "bf16")
    error = runner.error(piece.forms["plain"])
    assert 1e-4 < error < most  # bfloat16 was at work, and was not far off
    assert all(layer.gradients == Store() for layer in runner.layers)


def test_errors_are_seen():
    """A form that computes something else is reported."""
    (piece,) = pieces("solve")
    wrong = Form(lambda net, inputs, steps: 1.1 * piece.forms["plain"].forward(net, inputs, steps))
    runner = Runner(piece, CPU, "float32")
    assert runner.error(wrong) == pytest.approx(0.1, rel=0.01)
    training = pieces("attention")[1]
    assert training.mode == "training"
    wrong = Form(lambda net, inputs, steps: 1.1 * training.forms["plain"].forward(net, inputs, steps))
    assert Runner(training, CPU, "float32").error(wrong) > 0.05


def test_operations_are_counted():
    """T steps of attention: 8BLC² for the four maps and 4BL²C for the two products of a step."""
    (piece,) = pieces("solve")
    batch, tokens, channels = piece.inputs[0].shape
    expected = piece.steps * (8 * batch * tokens * channels**2 + 4 * batch * tokens**2 * channels)
    assert Runner(piece, CPU, "float32").flops() == expected
    forward, training = pieces("convolution")
    batch, channels, side, _ = forward.inputs[0].shape
    products = 2 * batch * side**2 * channels**2 * 9
    assert Runner(forward, CPU, "float32").flops() == products
    assert Runner(training, CPU, "float32").flops() == 3 * products


def test_bytes_are_counted():
    attention = KuramotoLayer(8, 2, AttentionCoupling(8, 2))
    weights = sum(parameter.numel() for parameter in attention.parameters())
    assert step_traffic(attention, 1000, 4, "forward") == 4 * (12 * 1000 + weights)
    convolution = KuramotoLayer(8, 2, ConvCoupling(8, 3))
    assert step_traffic(convolution, 1000, 2, "training") == 3 * 2 * (6 * 1000 + 8 * 8 * 9)


def test_shares():
    (piece,) = pieces("solve")
    row = next(bench([piece], device=CPU, ceilings=CEILINGS, repeats=1))
    seconds = row.milliseconds / 1e3
    assert row.matmul_share == pytest.approx(Runner(piece, CPU, "float32").flops() / seconds / 1e9)
    assert row.bandwidth_share == pytest.approx(piece.traffic / seconds / 1e9)


def test_the_vote_is_timed_by_the_board():
    (piece,) = pieces("vote")
    assert piece.per == 2
    calls = []
    piece = replace(piece, whole=lambda form: calls.append(form), per=1000)
    row = next(bench([piece], device=CPU, repeats=2))
    assert calls
    assert row.milliseconds < 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("kernel", "shape"), [(5, (2, 3, 6, 7)), (9, (1, 4, 5, 4)), (3, (2, 2, 8, 8))])
def test_convolutions_are_the_couplings(way, kernel, shape):
    coupling = ConvCoupling(shape[1], kernel).double()
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(WAYS[way](x, coupling.weight), coupling(x))
    got, want = (torch.autograd.grad(f.square().sum(), x)[0] for f in (WAYS[way](x, coupling.weight), coupling(x)))
    torch.testing.assert_close(got, want)


def test_fast_lengths():
    assert [_fast(length) for length in (1, 7, 11, 40, 22)] == [2, 8, 12, 40, 24]


def test_the_contrastive_loss_prefers_pairs():
    features = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    paired = torch.cat((features, features))
    assert nets.nt_xent(paired, ()) < nets.nt_xent(paired.roll(1, 0) + torch.randn(12, 5), ())
    two = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    unit = F.normalize(two, dim=-1)
    scores = (unit @ unit.T / 0.1).exp()
    by_hand = [-torch.log(scores[i, (i + 2) % 4] / (scores[i].sum() - scores[i, i])) for i in range(4)]
    torch.testing.assert_close(nets.nt_xent(two, ()), torch.stack(by_hand).mean())


def test_forms():
    def forward(net, inputs, steps):
        return inputs[0]

    cuda = torch.device("cuda")
    assert list(usual_forms(forward, CPU, "training", compiled=False, recompute=False)) == ["plain"]
    assert list(usual_forms(forward, CPU, "forward", compiled=True, recompute=False, solving=True)) == [
        "plain", "compiled", "fused",
    ]  # fmt: skip
    forms = usual_forms(forward, cuda, "training", compiled=True, recompute=True)
    assert list(forms) == ["plain", "compiled", "fused", "graph"]
    assert all(form.recompute for form in forms.values())
    assert [form.kernels for form in forms.values()] == [False, False, True, True]


def test_the_update_sends_gradients_to_all_it_reads():
    piece = pieces("update")[1]
    assert piece.mode == "training"
    x, jx, c = (part.detach().clone().requires_grad_() for part in piece.inputs)
    piece.forms["plain"].forward(piece.net, (x, jx, c), 1).square().sum().add(0).backward()
    assert all(part.grad is not None for part in (x, jx, c))


def test_ceilings():
    found = measure_ceilings(CPU, torch.float32, tiny=True, repeats=1)
    assert found.flops > 1e6
    assert found.bandwidth > 1e6
    assert "TFLOP/s" in str(found)


def test_memory_that_was_counted_elsewhere():
    works = {"graph": lambda: None, "work": lambda: torch.zeros(1000)}
    found = measure(works, CPU, 1, peaks={"graph": 7})
    assert found["graph"].peak_bytes == 7
    assert found["work"].peak_bytes >= 4000
    assert measure(works, CPU, 1, peaks={"graph": 7}, memory=False)["graph"].peak_bytes == 0
    assert measure({"work": lambda: torch.zeros(1000)}, CPU, 1, memory=False)["work"].peak_bytes == 0


def sums(net, inputs, steps):
    """At most three arrays like the first at a time."""
    a = inputs[0] + 1
    b = 2 * a
    return a + b


def a_sum(device):
    forms = {"plain": Form(sums), "fused": Form(sums, kernels=True), "graph": Form(sums, kernels=True, graph=True)}
    inputs = (torch.randn(1 << 20, device=device),)
    return Piece("sum", "of two", "1M", 2, 1, "forward", torch.nn.Identity(), inputs, forms)


def test_a_row_has_the_memory_of_its_own_form(monkeypatch):
    """For a graph, the memory of its recording counts, not that of eager calls."""
    monkeypatch.setattr(Runner, "recorded", lambda self, form: Recording(lambda: None, 99 << 20))
    found = {row.variant: row.peak_mib for row in bench([a_sum(CPU)], device=CPU, repeats=1)}
    assert found["graph"] == 99
    assert 12 <= found["fused"] < 13


def test_only_the_recording_counts(monkeypatch):
    """With a fake allocator, whose calls hold 70 bytes while they are eager and 40 while they are recorded."""
    held = {"now": 100, "most": 0, "recording": False}

    @contextmanager
    def recording(graph):
        held["recording"] = True
        yield
        held["recording"] = False

    def call(runner, form):
        held["most"] = max(held["most"], held["now"] + (40 if held["recording"] else 70))
        held["now"] += 5  # kept, such as a workspace

    made_up = {
        "Stream": lambda device: SimpleNamespace(wait_stream=lambda other: None),
        "current_stream": lambda device: SimpleNamespace(wait_stream=lambda other: None),
        "stream": lambda stream: nullcontext(),
        "synchronize": lambda device: None,
        "memory_allocated": lambda device: held["now"],
        "reset_peak_memory_stats": lambda device: held.update(most=held["now"]),
        "max_memory_allocated": lambda device: held["most"],
        "CUDAGraph": lambda: SimpleNamespace(replay=lambda: None),
        "graph": recording,
    }
    for name, value in made_up.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(Runner, "call", call)
    piece = a_sum(CPU)
    assert Runner(piece, CPU, "float32").recorded(piece.forms["graph"]).peak_bytes == 40


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_memory_of_a_graph():
    device = torch.device("cuda", torch.cuda.current_device())
    found = {row.variant: row.peak_mib for row in bench([a_sum(device)], device=device, repeats=1)}
    assert all(12 <= found[variant] < 16 for variant in ("plain", "fused", "graph"))


def test_several_cases_and_their_record(tmp_path, capsys):
    options = Options(case=("update", "layers", "update"), size="tiny", couplings=("dense",), batch=1, channels=(8,),
                      grid=(2, 2), steps=(1,), repeats=1, json=True, device="cpu", record=tmp_path)  # fmt: skip
    assert run(options) == 0
    out = json.loads(capsys.readouterr().out)
    assert [row["case"] for row in out["rows"]] == ["update", "update", *["layers"] * 5]
    (record,) = tmp_path.glob("bench-kernels-*.json")
    metrics = json.loads(record.read_text())["metrics"]
    assert metrics["update/N=4/2×9×32/T1/forward/plain/ms"] > 0
    assert metrics["ceiling/bandwidth"] == out["ceilings"]["bandwidth"]


def test_the_table(capsys):
    assert run(Options(case=("attention",), size="tiny", repeats=1, device="cpu")) == 0
    printed = capsys.readouterr()
    assert "attention: 2 heads, 2×9×32, T = 1, training" in printed.out
    assert printed.out.count("% memory") == 2
    assert printed.out.count("first s") == 2
    lines = printed.out.splitlines()
    assert all(len(line) <= 80 and "…" not in line for line in lines)
    numbers = [line.split() for line in lines if line.startswith("plain ")]
    assert len(numbers) == 2
    assert all(len(line) == 8 and float(line[-1]) >= 0 for line in numbers)
    assert "ceilings: " in printed.err
    assert len(parts.PICTURES["full"]) == 3
