"""What a file of torch.save holds besides tensors is found without loading it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
import torch

from akorn.errors import AkornError
from akorn.runtime.torch_files import check_dense, foreign_objects


def test_foreign_objects_are_named(tmp_path: Path) -> None:
    file = tmp_path / "a.pth"
    torch.save({"x": torch.ones(2), "n": [1, "a", None]}, file)
    assert foreign_objects(file) == []
    torch.save({"x": torch.ones(2), "args": Namespace(a=1), "path": Path("b")}, file)
    assert "argparse.Namespace" in foreign_objects(file)


@pytest.mark.parametrize("content", [b"", b"no weights", b"{}", b"\x80\x02c"])
def test_what_is_no_such_file_holds_nothing(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.pth"
    file.write_bytes(content)
    assert foreign_objects(file) == []
    assert foreign_objects(tmp_path / "nowhere.pth") == []


@pytest.mark.parametrize("kind", ["sparse", "meta", "complex"])
def test_only_dense_numbers_pass(kind: str) -> None:
    dense = torch.ones(2, 3)
    check_dense(dense, Path("a.pt"))
    tensors = {"sparse": dense.to_sparse(), "meta": dense.to("meta"), "complex": dense.to(torch.complex64)}
    with pytest.raises(AkornError, match=rf"a\.pt holds a tensor that is .*{kind}.*, expected a dense one"):
        check_dense(tensors[kind], Path("a.pt"))
