"""Plain values come back as Python's own unpickler gives them; anything else is refused by name, and never run."""

import collections
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akorn.errors import AkornError
from akorn.robustness.data.safe_pickle import read_pickle

BATCH = {
    b"batch_label": b"training batch 1 of 5",
    b"labels": [0, 9, 3, 300, 70_000, -1, 2**40],
    b"data": np.arange(24, dtype=np.uint8).reshape(4, 6),
    b"filenames": [b"one.png", b"two.png", b"one.png"],
    "text": "ü",
    "more": (None, True, False, 1.5, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], {}),
    "wide": np.arange(6, dtype=np.int64).reshape(2, 3) - 3,
    "fortran": np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3)),
    "one": np.int64(-7),
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_and_arrays_of_every_protocol(protocol: int) -> None:
    found = read_pickle(pickle.dumps(BATCH, protocol), "batch")
    assert list(found) == list(BATCH)
    for key, value in BATCH.items():
        if isinstance(value, np.ndarray):
            assert found[key].dtype == value.dtype
            assert np.array_equal(found[key], value)
        else:
            assert found[key] == value
            assert type(found[key]) in (type(value), int)


def test_a_file_of_python_2() -> None:
    # A dict with one array, as NumPy wrote it under Python 2: names in numpy.core, text and contents as old strings.
    data = (
        b"\x80\x02}q\x01U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b\x87R"
        b"(K\x01K\x02K\x03\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89U\x06\x00\x01\x02\xfd\xfe\xfftbs."
    )
    found = read_pickle(data, "old")
    assert found[b"data"].tolist() == [[0, 1, 2], [253, 254, 255]]


class Evil:
    """What unpickling would run."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch pwned",)


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize(
    ("value", "asked"),
    [
        (Evil(), "posix.system" if os.name == "posix" else "system"),
        ({b"data": [Evil()]}, "system"),
        (collections.OrderedDict(a=1), "collections.OrderedDict"),
        (eval, "eval"),
        (Path("x"), "Path"),
    ],
    ids=["call", "inside", "dict", "function", "path"],
)
def test_anything_else_is_refused_by_its_name(
    value: object, asked: str, protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AkornError, match=rf"^some file cannot be read: it asks for .*{asked}"):
        read_pickle(pickle.dumps(value, protocol), "some file")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps({"a": np.array([{}, None], dtype=object)}),  # objects in an array
        pickle.dumps({"a": np.array(["text"])}),  # text in an array
        pickle.dumps(np.zeros(1, dtype=[("a", "u1")])),
        pickle.dumps({(1, 2): 3}),  # a key that is no text
        pickle.dumps({"a": np.zeros(2)}).replace(b"f8", b"O8"),
        pickle.dumps({1, 2}),  # a set
        pickle.dumps(np.ndarray),  # a name alone
        b"",
        b"plain text, no pickle",
        b"N",  # no end
        b".",  # nothing
        b"NN.",  # two values
        b"(.",  # a mark
        b"K\x01a.",  # appending to a number
        b"cnumpy\ndtype\n(U\x02u1tRb.",  # a state that is missing
        b"h\x05.",  # a memory that is empty
        b"]q\x00h\x00a.",  # a list inside itself
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\ntR.",  # an array without contents
        b"cbuiltins\nbytes\n(K\x05tR.",  # bytes of a length
        b"csys\nexit\n(tR.",
        b"\x8a\xffabc",  # a number that is cut short
    ],
)
def test_damaged_and_foreign_pickles_are_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(AkornError, match=r"^batch cannot be read.{5,}") as caught:
        read_pickle(data, "batch")
    assert "\n" not in str(caught.value)


def test_cut_anywhere_it_is_refused() -> None:
    data = pickle.dumps(BATCH, 4)
    for end in range(0, len(data), 7):
        with pytest.raises(AkornError, match="batch cannot be read"):
            read_pickle(data[:end], "batch")


def test_an_array_whose_bytes_do_not_fill_its_shape_is_refused() -> None:
    data = pickle.dumps(np.zeros((4, 6), dtype=np.uint8), 2)
    changed = data.replace(b"K\x04K\x06\x86", b"K\x04K\x07\x86")
    assert changed != data
    with pytest.raises(AkornError, match=r"shape \[4, 7\] with 24 bytes, expected 28"):
        read_pickle(changed, "batch")
