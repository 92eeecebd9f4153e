"""Any training step as a CUDA graph: one launch instead of thousands, so that small batches keep a GPU busy.

step = graphed(loss_function, model)
loss = step(x, y)       # forward and backward pass; the gradients are in the parameters' .grad
optimiser.step()
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

from akorn.errors import AkornError
from akorn.execution import launches
from akorn.runtime import randomness

Result = TypeVar("Result")
"""What a loss function returns: the loss, or the loss and other tensors."""

Inputs = tuple[Tensor, ...]
Choices = Mapping[str, Hashable]

_WARM_UP = 3  # calls that compile, choose algorithms and size buffers, which must not happen while a graph is recorded


def graphed(
    loss_function: Callable[..., Result],
    *modules: nn.Module,
    parameters: Iterable[Tensor] = (),
    generators: Iterable[torch.Generator] = (),
) -> GraphedStep[Result]:
    """Record the forward and backward pass of a loss as CUDA graphs, one for each shape of its inputs.

    Calling the result as `step(*tensors, **choices)` runs `loss_function(*tensors, **choices)` and its backward pass,
    returns the function's result, detached, and sets `.grad` of each parameter to the gradient of this call, whatever
    was there before; None for an unused parameter. Clipping, the optimiser, averages and communication between
    processes follow outside, as after `loss.backward()`; `zero_grad` is not needed and does no harm.

    The first call with new shapes, dtypes or choices runs the function a few times and records it; later calls replay
    it. The numbers do not change: buffers and random states are restored after the warm-up,
    and generators advance in replays as they would without graphs. On devices other than CUDA the
    function simply runs, with the same results, so the same code works everywhere.

    What can be recorded: the same operations must run for all values in the tensors, and the host must neither wait for
    the GPU (`.item()`, `.cpu()`, `print`, `if` on a tensor) nor communicate with other processes. What the host
    decides, such as a number of steps, is passed by keyword: there is one graph for each value.

    Args:
        loss_function: takes tensors, and choices by keyword; returns the loss, a scalar, or a tuple of the loss and
            other tensors (in dicts, lists or tuples as you like).
        modules: those it uses: their parameters get gradients, their buffers are restored after the warm-up.
        parameters: further tensors that get gradients. All used tensors that require one must be given here or belong
            to a module.
        generators: random generators that the function uses besides torch's global ones.

    """
    return GraphedStep(loss_function, modules, parameters, generators)


class _Replayable(Protocol):
    def replay(self) -> None: ...


@dataclass
class _Recording:
    """A recorded step: the memory of its inputs, results and gradients."""

    graph: _Replayable
    inputs: Inputs
    result: Any
    gradients: list[Tensor | None]


class GraphedStep(Generic[Result]):
    """A training step that is recorded when it is first called with new shapes, and replayed from then on.

    Created by `graphed`, which documents it. Its graphs share one memory pool.
    """

    def __init__(
        self,
        loss_function: Callable[..., Result],
        modules: Sequence[nn.Module] = (),
        parameters: Iterable[Tensor] = (),
        generators: Iterable[torch.Generator] = (),
    ) -> None:
        for module in modules:
            if not isinstance(module, nn.Module):
                raise TypeError(f"expected modules after the loss function, got a {type(module).__name__}")
        self.loss_function, self.modules, self.generators = loss_function, tuple(modules), tuple(generators)
        given = chain(*(module.parameters() for module in modules), parameters)
        self.parameters = list({id(p): p for p in given if p.requires_grad}.values())
        if not self.parameters:
            raise ValueError("no parameter requires a gradient: pass the modules, or their parameters")
        parts = chain(*(module.modules() for module in modules))
        self._with_buffers = [part for part in parts if next(part.buffers(recurse=False), None) is not None]
        self._recordings: dict[Hashable, _Recording] = {}
        self._addresses: list[int] = []
        self._pool: Any = None
        self._stream: Any = None

    def __call__(self, *inputs: Tensor, **choices: Hashable) -> Result:
        """The loss function's result, detached and copied; the gradients are in the parameters."""
        device = self.parameters[0].device
        _check(inputs, device)
        if not _records(device):
            return cast("Result", self._pass(inputs, choices))
        addresses = self._look()
        if addresses != self._addresses:  # the model was moved, or a parameter frozen: graphs refer to fixed addresses
            self.reset()
            self._addresses = addresses
        key = self._key(inputs, choices)
        if key not in self._recordings:
            self._recordings[key] = self._record(inputs, choices, device)
        recorded = self._recordings[key]
        for ours, theirs in zip(recorded.inputs, inputs, strict=True):
            ours.copy_(theirs)
        recorded.graph.replay()
        for parameter, gradient in zip(self.parameters, recorded.gradients, strict=True):
            parameter.grad = gradient
        return cast("Result", _each(recorded.result, Tensor.clone))  # the next replay overwrites the original

    def reset(self) -> None:
        """Delete all graphs and release their memory."""
        self._recordings.clear()
        self._pool = self._stream = None

    @property
    def graphs(self) -> int:
        """How many graphs have been recorded."""
        return len(self._recordings)

    def _pass(self, inputs: Inputs, choices: Choices) -> Any:
        """Forward and backward pass."""
        for parameter in self.parameters:
            parameter.grad = None  # so that gradients are written, not accumulated
        returned = self.loss_function(*inputs, **choices)
        loss = returned[0] if isinstance(returned, tuple) and returned else returned
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            got = list(loss.shape) if isinstance(loss, Tensor) else f"a {type(loss).__name__}"
            raise ValueError(f"the loss function returned {got}, expected a scalar, or a tuple that begins with one")
        loss.backward()
        return _each(returned, Tensor.detach)

    def _record(self, inputs: Inputs, choices: Choices, device: torch.device) -> _Recording:
        static = tuple(part.clone() for part in inputs)
        buffers = [(buffer, buffer.clone()) for module in self.modules for buffer in module.buffers()]
        states = [(generator, generator.get_state()) for generator in self.generators]
        with randomness.undisturbed(device):
            _aside(device, lambda: self._pass(static, choices))
        for generator, state in states:
            generator.set_state(state)
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
        for parameter in self.parameters:
            parameter.grad = None
        if self._stream is None:
            self._stream = _new_stream(device)
        graph, result = _capture(lambda: self._pass(static, choices), self._stream, self.generators, self._pool)
        self._pool = self._pool or graph.pool()
        return _Recording(graph, static, result, [parameter.grad for parameter in self.parameters])

    def _look(self) -> list[int]:
        """The addresses of parameters and buffers, and which are trained."""
        parameters = [tensor.data_ptr() if tensor.requires_grad else -1 for tensor in self.parameters]
        return parameters + [b.data_ptr() for part in self._with_buffers for b in part.buffers(recurse=False)]

    def _key(self, inputs: Inputs, choices: Choices) -> Hashable:
        """Everything that determines which operations run."""
        kind = self.parameters[0].device.type
        key = (
            tuple((part.shape, part.dtype) for part in inputs),
            tuple(sorted(choices.items())),
            tuple(module.training for module in self.modules),
            torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind),
            torch.get_float32_matmul_precision(),
        )
        try:
            hash(key)
        except TypeError:
            wrong = next(name for name, value in choices.items() if not isinstance(value, Hashable))
            raise TypeError(f"the choice {wrong!r} is a {type(choices[wrong]).__name__}, expected a hashable") from None
        return key


def _check(inputs: tuple[object, ...], device: torch.device) -> None:
    """Refuse, on every device, what would be wrong in a graph."""
    for number, part in enumerate(inputs, 1):
        if not isinstance(part, Tensor):
            kind = type(part).__name__
            raise TypeError(f"argument {number} is a {kind}, expected a tensor; pass what the host decides by keyword")
        if part.device != device:
            raise ValueError(f"argument {number} is on {part.device}, the parameters on {device}: move it there")
        if part.requires_grad:
            raise ValueError(f"argument {number} requires a gradient, which only parameters get: detach it")


def _each(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same structure with every tensor changed; TypeError for other values, which replays would not update."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _each(part, change) for name, part in value.items()}
    if isinstance(value, tuple | list):
        parts = [_each(part, change) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    raise TypeError(f"the loss function returned a {type(value).__name__}, expected tensors in dicts, lists or tuples")


def _records(device: torch.device) -> bool:
    return device.type == "cuda"


def _new_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def _aside(device: torch.device, work: Callable[[], object]) -> None:
    """Warm up on a separate stream, as recording requires."""
    here, aside = torch.cuda.current_stream(device), _new_stream(device)
    aside.wait_stream(here)
    with torch.cuda.stream(aside), launches.free():
        for _ in range(_WARM_UP):
            work()
    here.wait_stream(aside)


def _capture(
    work: Callable[[], Any], stream: torch.cuda.Stream, generators: Iterable[torch.Generator], pool: Any
) -> tuple[torch.cuda.CUDAGraph, Any]:
    """Record what `work` does on the GPU of the stream, without running it; returns the graph and `work`'s result."""
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        if generator.device.type == "cuda":
            graph.register_generator_state(generator)
    gc.collect()  # otherwise reference cycles might be freed in the middle of the recording
    torch.clear_autocast_cache()  # replays would not repeat casts from before the recording
    here = torch.cuda.current_stream(stream.device)
    try:
        # "thread_local": threads that read data ahead or monitor other processes may continue meanwhile.
        with (
            launches.free(),
            torch.cuda.device(stream.device),
            torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"),
        ):
            result = work()
    except RuntimeError as error:  # the same work has just run in the warm-up, so the recording is what fails
        torch.cuda.set_stream(here)  # torch stays on the recording stream
        while isinstance(error.__context__, RuntimeError):  # ending a failed recording raises another error
            error = error.__context__
        if isinstance(error, torch.OutOfMemoryError):
            raise error from None
        raise AkornError(
            "the loss function cannot be recorded as a CUDA graph: it waits for the GPU (.item(), .cpu(), print or `if`"
            " on a tensor) or communicates with other processes. Remove that, pass what the host decides as a keyword,"
            f" or do without a graph ({str(error).partition(chr(10))[0]})"
        ) from error
    finally:
        torch.clear_autocast_cache()  # casts from the recording belong to the graph
    return graph, result
