"""A program of parts: what torch runs is what the file runs, and steps share their weights."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper
from torch import Tensor, nn

from akorn.export.onnx_file import to_onnx
from akorn.export.program import BATCH, ENERGIES, ENERGY, Part, Port, Program

CHANNELS = 32


class Double(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor]:
        return (2 * x,)


class Turn(nn.Module):
    """A step with weights: x → tanh(Wx), and the sum of x before it."""

    def __init__(self, *, exact: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(CHANNELS, CHANNELS)
        if exact:  # as the weights of a model's folder are
            self.linear.half().float()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.linear(x).tanh(), x.sum(1, keepdim=True)


def made(times: int, *, exact: bool = True) -> Program:
    torch.manual_seed(0)
    return Program(
        [Port("given", "float32", (BATCH, CHANNELS), "what is given")],
        [
            Port("x", "float32", (BATCH, CHANNELS), "what is left"),
            Port(ENERGIES, "float32", (BATCH, times + 1), "sums on the way"),
        ],
        [
            Part(Double(), ("given",), ("x",)),
            Part(Turn(exact=exact), ("x",), ("x", ENERGY), times),
            Part(Turn(exact=exact), ("x",), ("x", ENERGY)),
        ],
        times + 1,
    )


@pytest.mark.parametrize("batch", [1, 3])
def test_the_file_runs_what_torch_runs(batch: int) -> None:
    program = made(4)
    session = onnxruntime.InferenceSession(to_onnx(program, {"name": "toy"}))
    (given,) = program.examples(batch, seed=1)
    got = session.run(None, {"given": given.numpy()})
    for found, wanted in zip(got, program(given), strict=True):
        np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert got[1].shape == (batch, 5)
    np.testing.assert_allclose(got[1][:, 0], 2 * given.sum(1).numpy(), rtol=1e-4)  # before the first step
    assert session.get_modelmeta().custom_metadata_map == {"name": "toy"}


def test_more_steps_need_no_more_weights() -> None:
    few, many = (onnx.load_from_string(to_onnx(made(times), {})) for times in (1, 9))
    assert [weight.name for weight in few.graph.initializer] == [weight.name for weight in many.graph.initializer]
    assert len(many.graph.node) > len(few.graph.node) + 8


@pytest.mark.parametrize("exact", [True, False])
def test_16_bits_are_taken_only_where_nothing_is_lost(exact: bool) -> None:
    program = made(1, exact=exact)
    model = onnx.load_from_string(to_onnx(program, {}))
    large = [weight for weight in model.graph.initializer if np.prod(weight.dims) >= CHANNELS**2]
    assert len(large) == 2
    kind = onnx.TensorProto.FLOAT16 if exact else onnx.TensorProto.FLOAT
    assert {weight.data_type for weight in large} == {kind}
    trained = [part.module.linear.weight for part in program.parts if isinstance(part.module, Turn)]
    for weight, parameter in zip(large, trained, strict=True):
        stored = numpy_helper.to_array(weight).astype(np.float32)
        assert np.array_equal(stored, parameter.detach().numpy()) or np.array_equal(
            stored.T, parameter.detach().numpy()
        )


def test_the_interface_is_in_the_graph() -> None:
    graph = onnx.load_from_string(to_onnx(made(2), {})).graph
    assert [value.name for value in (*graph.input, *graph.output)] == ["given", "x", "energies"]
    axes = graph.input[0].type.tensor_type.shape.dim
    assert (axes[0].dim_param, axes[1].dim_value) == ("batch", CHANNELS)
    assert graph.input[0].doc_string == "what is given"
    assert not any(weight.data_location for weight in graph.initializer)  # all is in the one file
    assert not any("Random" in node.op_type for node in graph.node)


def test_the_outputs_are_the_ports() -> None:
    program = made(2)
    x, energies = program(*program.examples(2))
    assert json.dumps([list(x.shape), list(energies.shape)]) == "[[2, 32], [2, 3]]"
    with pytest.raises(ValueError, match="argument"):
        program(x, x)
