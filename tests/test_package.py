"""What help(akorn) says."""

import re

import torch

import akorn


def test_the_layer_of_the_docstring_works() -> None:
    doc = akorn.__doc__ or ""
    code = [line.strip() for line in doc.splitlines() if re.match(r" {4}\w+ = ", line)]
    assert len(code) == 3
    x = torch.randn(2, 64, 64)
    names = {"akorn": akorn, "x": x, "c": torch.randn(2, 64, 64)}
    exec("\n".join(code), names)
    assert isinstance(names["x"], torch.Tensor)
    assert names["x"].shape == x.shape
    assert not torch.equal(names["x"], x)


def test_the_names_of_the_docstring_exist() -> None:
    doc = akorn.__doc__ or ""
    listed = re.findall(r"^ {4}akorn\.(\w+) +(.*)$", doc, re.M)
    assert {"nn", "sudoku", "objects", "robustness", "simulate", "create_model", "list_models"} == {
        n for n, _ in listed
    }
    for name, about in listed:
        part = getattr(akorn, name)
        for word in re.findall(r"\b(Solver|Segmenter|Classifier|benchmark)\b", about):
            assert hasattr(part, word)
    assert "sudoku" in akorn.list_models(pretrained=True)
