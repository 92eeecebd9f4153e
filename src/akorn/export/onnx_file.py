"""A program as one ONNX model. Each part is traced once, by torch's exporter, and its nodes are repeated: the time to
export does not grow with the number of steps, and all steps read the same weights.

Weights that fit exactly into 16 bits, as those of models' folders do, are stored as float16 and cast to float32 when
the file is loaded: half the bytes, the same numbers. Those of folders in 8 bits are stored as int8, with their scales.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from akorn._version import __version__
from akorn.export.packages import missing
from akorn.export.program import ENERGIES, ENERGY, Port, Program
from akorn.stored import WORTH, dequantise, quantise

try:
    import onnx
    import onnxscript as _needed_by_torch  # noqa: F401
    from onnx import numpy_helper
except ImportError as error:
    raise missing(error) from error

OPSET = 18
"""Old enough for every runtime of recent years, also in browsers."""
_HALF = 256
"""Arrays of fewer numbers stay float32: a cast would cost more than it saves."""
_TYPES = {"float32": onnx.TensorProto.FLOAT, "int64": onnx.TensorProto.INT64}


def trace(program: Program) -> list[onnx.GraphProto]:
    """Each part as ONNX. Programs of the same model with other numbers of steps have the same parts."""
    pairs = zip(program.parts, program.traced_with(), strict=True)
    return [_traced(part.module, given, part.takes) for part, given in pairs]


def to_onnx(program: Program, facts: Mapping[str, str], traced: Sequence[onnx.GraphProto] | None = None) -> bytes:
    """The file's content; `facts` become its metadata. traced: what `trace` gave, if it has been called before."""
    writer = _Writer(program)
    graphs = trace(program) if traced is None else traced
    for number, (part, graph) in enumerate(zip(program.parts, graphs, strict=True)):
        writer.add(f"part{number}", graph, part.takes, part.gives, part.times)
    model = writer.model()
    for name, text in facts.items():
        model.metadata_props.add(key=name, value=text)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


def _traced(module: nn.Module, given: tuple[torch.Tensor, ...], names: tuple[str, ...]) -> onnx.GraphProto:
    """One part as ONNX, with a free first axis."""
    free = tuple({0: torch.export.Dim.DYNAMIC} for _ in given)
    with _quietly(), torch.no_grad():
        made = torch.onnx.export(
            module, given, dynamo=True, opset_version=OPSET, input_names=list(names), dynamic_shapes=free, verbose=False
        )
    assert made is not None
    model = made.model_proto
    found = [(entry.domain, entry.version) for entry in model.opset_import]
    if found != [("", OPSET)] or model.functions:
        raise RuntimeError(f"torch's exporter made a graph of {found}, expected the standard operators of {OPSET}")
    return model.graph


class _Writer:
    """The nodes and weights of the whole, as parts are added."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.now = {port.name: port.name for port in program.inputs}  # an array of the program → its name in the graph
        self.energies: list[str] = []

    def add(
        self, prefix: str, graph: onnx.GraphProto, takes: tuple[str, ...], gives: tuple[str, ...], times: int
    ) -> None:
        """Add a part this many times."""
        fixed: dict[str, str] = {}  # names of what is the same in every run
        for weight in graph.initializer:
            fixed[weight.name] = f"{prefix}.{weight.name}"
            self._store(weight, fixed[weight.name])
        moving = []
        for node in graph.node:
            if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
                raise RuntimeError(f"{node.op_type} contains a graph, which is not supported here")
            if all(name in fixed for name in node.input):
                self._append(node, fixed, prefix)
            else:
                moving.append(node)
        for run in range(times):
            names = fixed | dict(zip((value.name for value in graph.input), (self.now[t] for t in takes), strict=True))
            for node in moving:
                self._append(node, names, f"{prefix}.{run}")
            self.now.update(zip(gives, (names[value.name] for value in graph.output), strict=True))
            if ENERGY in gives:
                self.energies.append(self.now[ENERGY])

    def model(self) -> onnx.ModelProto:
        """The whole, with the program's inputs and outputs."""
        if self.energies:
            self.now[ENERGIES] = "all_energies"
            self.nodes.append(onnx.helper.make_node("Concat", self.energies, ["all_energies"], axis=1))
        for port in self.program.outputs:
            self.nodes.append(onnx.helper.make_node("Identity", [self.now[port.name]], [port.name]))
        inputs, outputs = ([_value(port) for port in ports] for ports in (self.program.inputs, self.program.outputs))
        graph = onnx.helper.make_graph(self.nodes, "akorn", inputs, outputs, self.weights)
        opset = onnx.helper.make_opsetid("", OPSET)
        return onnx.helper.make_model(
            graph, opset_imports=[opset], ir_version=10, producer_name="akorn", producer_version=__version__
        )

    def _append(self, node: onnx.NodeProto, names: dict[str, str], prefix: str) -> None:
        """A copy of a node under other names, without the exporter's notes about its origin."""
        copy = onnx.NodeProto(op_type=node.op_type, domain=node.domain, name=f"{prefix}.{node.name}")
        copy.attribute.extend(node.attribute)
        copy.input.extend(names[name] if name else "" for name in node.input)
        for name in node.output:
            names[name] = f"{prefix}.{name}" if name else ""
            copy.output.append(names[name])
        self.nodes.append(copy)

    def _store(self, weight: onnx.TensorProto, name: str) -> None:
        """Store an array, in half or a quarter of the bytes if that loses nothing."""
        values = numpy_helper.to_array(weight)
        eight = _eight(values)
        if eight is not None:
            self._store_eight(*eight, name)
            return
        with np.errstate(over="ignore"):
            half = values.astype(np.float16) if values.dtype == np.float32 and values.size >= _HALF else None
        if half is None or not np.array_equal(half.astype(np.float32), values):
            self.weights.append(numpy_helper.from_array(values, name))
            return
        self.weights.append(numpy_helper.from_array(half, f"{name}.half"))
        cast = onnx.helper.make_node("Cast", [f"{name}.half"], [name], f"{name}.cast", to=onnx.TensorProto.FLOAT)
        self.nodes.append(cast)

    def _store_eight(self, whole: NDArray[np.int8], scale: NDArray[np.float32], name: str) -> None:
        """Keep an array as whole numbers times a scale."""
        eight, wide, scales = f"{name}.eight", f"{name}.wide", f"{name}.scale"
        self.weights += [numpy_helper.from_array(whole, eight), numpy_helper.from_array(scale, scales)]
        self.nodes += [
            onnx.helper.make_node("Cast", [eight], [wide], f"{name}.cast", to=onnx.TensorProto.FLOAT),
            onnx.helper.make_node("Mul", [wide, scales], [name], f"{name}.scaled"),
        ]


def _eight(values: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]] | None:
    """Whole numbers and their scales if their product is the array, which may have been transposed; else None."""
    if values.dtype != np.float32 or values.ndim < 2 or values.size < WORTH:
        return None
    for axis in (0, values.ndim - 1):
        rows = torch.tensor(np.moveaxis(values, axis, 0))
        whole, scale = quantise(rows)
        if torch.equal(dequantise(whole, scale), rows):
            shape = [-1 if each == axis else 1 for each in range(values.ndim)]
            back = np.ascontiguousarray(np.moveaxis(whole.numpy(), 0, axis))
            return back, scale.float().numpy().reshape(shape)
    return None


def _value(port: Port) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(port.name, _TYPES[port.dtype], port.shape, doc_string=port.about)


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress what the exporter says about packages that nothing here needs."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
