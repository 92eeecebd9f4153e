"""A reader of pickled plain values and NumPy arrays that runs nothing the file asks for.

CIFAR-10 is published as pickles. Python's unpickler calls whatever a file names, and a reader with a list of allowed
names still calls them with arguments of the file's choosing. So this is a separate interpreter: it walks through the
opcodes and builds dicts, lists, tuples, strings and numbers. A handful of names (those with which NumPy writes an
array, a dtype or a scalar, and Python writes bytes in old protocols) are only markers, from which it makes the array
itself. Nothing is imported or called on behalf of the file. Any other name is refused, and the error gives that name.
"""

from __future__ import annotations

import pickletools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from akorn.errors import AkornError

# what a pickle calls it → what it is here; NumPy 2 renamed `numpy.core`
_NAMES = {
    "numpy.core.multiarray _reconstruct": "array",
    "numpy._core.multiarray _reconstruct": "array",
    "numpy.core.numeric _frombuffer": "buffer",
    "numpy._core.numeric _frombuffer": "buffer",
    "numpy.core.multiarray scalar": "scalar",
    "numpy._core.multiarray scalar": "scalar",
    "numpy dtype": "dtype",
    "numpy ndarray": "ndarray",
    "_codecs encode": "encode",
    "__builtin__ bytes": "bytes",
    "builtins bytes": "bytes",
    "__builtin__ bytearray": "bytes",
    "builtins bytearray": "bytes",
}
_DTYPE = re.compile(r"[buif][1248]")
_MOST_VALUES = 5_000_000  # a batch of CIFAR-10 has about 50,000; a small file could ask for far more


class _Unreadable(Exception):
    """What is wrong with the pickle, without the file's name."""


@dataclass(frozen=True)
class _Name:
    """A name in the file that this reader knows; never the object itself."""

    kind: str


class _Mark:
    """The place on the stack where a group of values begins."""


@dataclass
class _DType:
    code: str
    order: str = "|"

    def build(self) -> np.dtype[Any]:
        return np.dtype((self.order if self.order in "<>" else "") + self.code)


@dataclass
class _Array:
    """An array whose contents are still to come."""

    value: np.ndarray[Any, Any] | None = None


@dataclass
class _Machine:
    """The stack and the memory of the pickle language."""

    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)
    count: int = 0

    def push(self, value: Any) -> None:
        self.count += 1
        if self.count > _MOST_VALUES:
            raise _Unreadable(f"it holds more than {_MOST_VALUES:,} values")
        self.stack.append(value)

    def pop(self) -> Any:
        value = self.stack.pop()
        if isinstance(value, _Mark):
            raise _Unreadable("its values do not fit together")
        return value

    def pop_group(self) -> list[Any]:
        group: list[Any] = []
        while not isinstance(self.stack[-1], _Mark):
            group.append(self.stack.pop())
        self.stack.pop()
        return group[::-1]

    def top(self, kind: type) -> Any:
        if not isinstance(self.stack[-1], kind):
            raise _Unreadable("its values do not fit together")
        return self.stack[-1]

    def remember(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    def recall(self, place: int) -> None:
        if place not in self.memo:
            raise _Unreadable("it refers to a value that it does not hold")
        self.push(self.memo[place])


def read_pickle(data: bytes, name: str) -> Any:
    """The plain value in a pickle: dicts, lists, tuples, text, bytes, numbers, None and arrays of numbers.

    Text written by Python 2 comes back as bytes. `name` is for the error message. AkornError if the pickle is cut
    short, damaged, or holds anything else.
    """
    try:
        value = _run(data)
    except _Unreadable as error:
        raise AkornError(f"{name} cannot be read: {error}") from None
    except Exception as error:  # damaged files make pickletools and an empty stack fail in many ways
        raise AkornError(f"{name} cannot be read, it is cut short or not a pickle ({error})") from None
    return value


def _run(data: bytes) -> Any:
    machine = _Machine()
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in ("PROTO", "FRAME"):
            continue
        if opcode.name == "STOP":
            break
        step = _STEPS.get(opcode.name)
        if step is None:
            raise _Unreadable(f"it asks for {opcode.name}, which no file of plain arrays needs")
        step(machine, argument)
    if len(machine.stack) != 1:
        raise _Unreadable("its values do not fit together")
    return _plain(machine.stack[0])


def _plain(value: Any) -> Any:
    """The value with its arrays filled in; values that contain themselves or are incomplete are refused."""
    done: dict[int, Any] = {}

    def fill(item: Any, depth: int) -> Any:
        if depth > 20:
            raise _Unreadable("its values are nested too deeply")
        if isinstance(item, _Array):
            if item.value is None:
                raise _Unreadable("it holds an array without contents")
            return item.value
        if isinstance(item, _Name | _DType | _Mark):
            raise _Unreadable("it holds a name, expected plain values and arrays")
        if isinstance(item, dict | list | tuple) and id(item) not in done:
            if isinstance(item, dict):
                done[id(item)] = {key: fill(part, depth + 1) for key, part in item.items()}
            else:
                done[id(item)] = type(item)(fill(part, depth + 1) for part in item)
        return done.get(id(item), item)

    return fill(value, 0)


# How each opcode changes the stack.


def _push(machine: _Machine, argument: Any) -> None:
    machine.push(argument)


def _constant(value: Any) -> Callable[[_Machine, Any], None]:
    return lambda machine, _: machine.push(value)


def _new(kind: Callable[[], Any]) -> Callable[[_Machine, Any], None]:
    return lambda machine, _: machine.push(kind())


def _push_old_text(machine: _Machine, argument: str) -> None:
    machine.push(argument.encode("latin-1"))  # pickletools has decoded Python 2's bytes in this way


def _tuple(length: int | None) -> Callable[[_Machine, Any], None]:
    def step(machine: _Machine, _: Any) -> None:
        parts = machine.pop_group() if length is None else [machine.pop() for _ in range(length)][::-1]
        machine.push(tuple(parts))

    return step


def _list(machine: _Machine, _: Any) -> None:
    machine.push(machine.pop_group())


def _dict(machine: _Machine, _: Any) -> None:
    group = machine.pop_group()
    machine.push({})
    _set(machine, group)


def _append(machine: _Machine, _: Any) -> None:
    value = machine.pop()
    machine.top(list).append(value)


def _appends(machine: _Machine, _: Any) -> None:
    group = machine.pop_group()
    machine.top(list).extend(group)


def _set(machine: _Machine, group: list[Any]) -> None:
    target = machine.top(dict)
    for key, value in zip(group[::2], group[1::2], strict=True):
        if not isinstance(key, str | bytes | int):
            raise _Unreadable(f"it has a {type(key).__name__} as a key, expected text")
        target[key] = value


def _setitem(machine: _Machine, _: Any) -> None:
    value, key = machine.pop(), machine.pop()
    _set(machine, [key, value])


def _setitems(machine: _Machine, _: Any) -> None:
    _set(machine, machine.pop_group())


def _global(machine: _Machine, argument: str) -> None:
    machine.push(_known(argument))


def _stack_global(machine: _Machine, _: Any) -> None:
    attribute, module = machine.pop(), machine.pop()
    machine.push(_known(f"{module} {attribute}"))


def _known(asked: str) -> _Name:
    if asked not in _NAMES:
        raise _Unreadable(f"it asks for {asked[:100].replace(' ', '.')}, expected plain values and arrays only")
    return _Name(_NAMES[asked])


def _reduce(machine: _Machine, _: Any) -> None:
    arguments, name = machine.pop(), machine.pop()
    if not isinstance(name, _Name) or not isinstance(arguments, tuple):
        raise _Unreadable("its values do not fit together")
    match name.kind, arguments:
        case "array", (_Name("ndarray"), *_):
            machine.push(_Array())
        case "dtype", (str() | bytes() as code, *_):
            machine.push(_DType(_dtype_code(code)))
        case "encode", (str() as text, "latin1" | "latin-1" | b"latin1"):
            machine.push(text.encode("latin-1"))
        case "bytes", ():
            machine.push(b"")
        case "bytes", (bytes() as contents,):
            machine.push(contents)
        case "scalar", (_DType() as dtype, bytes() as contents):
            machine.push(_array(dtype, (1,), contents, "C")[0].item())
        case "buffer", (bytes() | bytearray() as contents, _DType() as dtype, tuple() as shape, "C" | "F" as order):
            machine.push(_Array(_array(dtype, shape, bytes(contents), order)))
        case _:
            raise _Unreadable("it describes an array in a way that NumPy does not")


def _build(machine: _Machine, _: Any) -> None:
    state = machine.pop()
    match machine.stack[-1], state:
        case _Array() as target, (_, tuple() as shape, _DType() as dtype, bool() | int() as fortran, contents):
            if not isinstance(contents, bytes):
                raise _Unreadable("it holds an array of objects, expected an array of numbers")
            target.value = _array(dtype, shape, contents, "F" if fortran else "C")
        case _DType() as target, (_, str() | bytes() as order, *_):
            target.order = order.decode("latin-1") if isinstance(order, bytes) else order
        case _:
            raise _Unreadable("it changes the state of something that is not an array")


def _dtype_code(code: str | bytes) -> str:
    text = code.decode("latin-1") if isinstance(code, bytes) else code
    if not _DTYPE.fullmatch(text):
        raise _Unreadable(f"it holds an array of type {text[:20]!r}, expected numbers")
    return text


def _array(dtype: _DType, shape: tuple[Any, ...], contents: bytes, order: str) -> np.ndarray[Any, Any]:
    built = dtype.build()
    if not all(isinstance(length, int) and length >= 0 for length in shape):
        raise _Unreadable(f"it holds an array of shape {shape}")
    size = built.itemsize
    for length in shape:
        size *= length
    if size != len(contents):
        raise _Unreadable(f"it holds an array of shape {list(shape)} with {len(contents)} bytes, expected {size}")
    return np.frombuffer(contents, built).reshape(shape, order="F" if order == "F" else "C")


_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": _new(_Mark),
    "NONE": _constant(None),
    "NEWTRUE": _constant(True),
    "NEWFALSE": _constant(False),
    "EMPTY_DICT": _new(dict),
    "EMPTY_LIST": _new(list),
    "EMPTY_TUPLE": _constant(()),
    "DICT": _dict,
    "LIST": _list,
    "TUPLE": _tuple(None),
    "TUPLE1": _tuple(1),
    "TUPLE2": _tuple(2),
    "TUPLE3": _tuple(3),
    "APPEND": _append,
    "APPENDS": _appends,
    "SETITEM": _setitem,
    "SETITEMS": _setitems,
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "REDUCE": _reduce,
    "BUILD": _build,
    "MEMOIZE": lambda machine, _: machine.remember(len(machine.memo)),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), lambda machine, place: machine.remember(place)),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda machine, place: machine.recall(place)),
    **dict.fromkeys(("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"), _push),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"), _push),
    **dict.fromkeys(("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"), _push),
    **dict.fromkeys(("STRING", "BINSTRING", "SHORT_BINSTRING"), _push_old_text),
}
