"""CIFAR-10 and CIFAR-10-C are read from their usual files; anything missing, cut short or of another kind is reported
in one line.
"""

import hashlib
import json
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from akorn.errors import AkornError
from akorn.robustness.config import CLASSES
from akorn.robustness.corruptions.constants import ALL, COMMON, EXTRA
from akorn.robustness.data import Pictures, find_cifar10c, load_cifar10, load_cifar10c, load_split, made_by_us
from akorn.robustness.data.cifar_c import stored_corruptions
from akorn.robustness.data.held_out import held_out

RNG = np.random.default_rng(0)
DATA = RNG.integers(0, 256, (60, 3072), dtype=np.uint8)
LABELS = RNG.integers(0, 10, 60).tolist()


def write_batch(path: Path, part: slice, **changes: Any) -> None:
    content = {b"data": DATA[part], b"labels": LABELS[part], b"filenames": [b"x.png"] * len(LABELS[part])}
    content |= {key.encode(): value for key, value in changes.items()}
    path.write_bytes(pickle.dumps(content, protocol=2))


@pytest.fixture
def cifar(tmp_path: Path) -> Path:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for number in range(5):
        write_batch(folder / f"data_batch_{number + 1}", slice(10 * number, 10 * number + 10))
    write_batch(folder / "test_batch", slice(50, 60))
    meta = {b"label_names": [name.encode() for name in CLASSES], b"num_vis": 3072}
    (folder / "batches.meta").write_bytes(pickle.dumps(meta, protocol=2))
    return folder


def test_both_splits_in_their_order(cifar: Path) -> None:
    train, test = load_cifar10(cifar, "train"), load_cifar10(cifar, "test")
    assert train.images.dtype == torch.uint8
    assert train.labels.dtype == torch.int64
    assert np.array_equal(train.images.numpy(), DATA[:50].reshape(50, 3, 32, 32))
    assert np.array_equal(test.images.numpy(), DATA[50:].reshape(10, 3, 32, 32))
    assert train.labels.tolist() + test.labels.tolist() == LABELS
    assert train.classes == CLASSES
    assert train.fingerprint() != test.fingerprint()
    assert test.fingerprint() == load_cifar10(cifar, "test").fingerprint()
    assert len(test.take(slice(3))) == 3
    assert test.take(torch.tensor([2, 0])).labels.tolist() == [LABELS[52], LABELS[50]]
    assert test.to("cpu").images.dtype == torch.uint8


def test_a_tenth_of_each_class_is_held_out_whatever_the_order() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(10).repeat_interleave(30)[torch.randperm(300, generator=generator)]
    images = torch.randint(0, 256, (300, 3, 4, 4), generator=generator, dtype=torch.uint8)
    pictures = Pictures(images, labels, CLASSES)
    out = held_out(pictures)
    assert torch.equal(torch.bincount(labels[out], minlength=10), torch.full((10,), 3))
    order = torch.randperm(300, generator=generator)
    assert torch.equal(held_out(pictures.take(order)), out[order])  # the same pictures
    first = [hashlib.sha256(image.numpy().tobytes()).hexdigest() for image in images[labels == 4]]
    assert [first[k] for k in out[labels == 4].nonzero().flatten()] == sorted(sorted(first)[:3], key=first.index)


def test_parts_of_the_training_pictures(cifar: Path) -> None:
    parts = {split: load_split(cifar, split) for split in ("all", "train", "valid", "test")}  # type: ignore[arg-type]
    assert parts["all"].fingerprint() == load_cifar10(cifar, "train").fingerprint()
    assert parts["test"].fingerprint() == load_cifar10(cifar, "test").fingerprint()
    assert len(parts["train"]) + len(parts["valid"]) == 50
    assert len(parts["valid"]) == len({label for label in LABELS[:50] if LABELS[:50].count(label) > 1})
    pixels = {split: {bytes(image.numpy().tobytes()) for image in part.images} for split, part in parts.items()}
    assert not pixels["train"] & pixels["valid"]
    assert pixels["train"] | pixels["valid"] == pixels["all"]
    with pytest.raises(ValueError, match="split must be one of all, train, valid, test"):
        load_split(cifar, "validation")  # type: ignore[arg-type]


def test_the_folder_above_and_the_archive_do_as_well(cifar: Path, tmp_path: Path) -> None:
    wanted = load_cifar10(cifar, "train").fingerprint()
    assert load_cifar10(tmp_path, "train").fingerprint() == wanted
    other = tmp_path / "archive"
    other.mkdir()
    with tarfile.open(other / "cifar-10-python.tar.gz", "w:gz") as archive:
        archive.add(cifar, "cifar-10-batches-py")
    for path in (other, other / "cifar-10-python.tar.gz"):
        assert load_cifar10(path, "train").fingerprint() == wanted
    assert [entry.name for entry in other.iterdir()] == ["cifar-10-python.tar.gz"]  # nothing was unpacked


def test_without_the_names_of_the_classes_the_usual_ones_hold(cifar: Path) -> None:
    (cifar / "batches.meta").unlink()
    assert load_cifar10(cifar, "test").classes == CLASSES


def test_labels_may_be_an_array(cifar: Path) -> None:
    write_batch(cifar / "test_batch", slice(50, 60), labels=np.array(LABELS[50:], dtype=np.uint8))
    assert load_cifar10(cifar, "test").labels.tolist() == LABELS[50:]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": DATA[50:60].tolist()}, "its data is a list, expected an array of bytes"),
        ({"data": b"bytes"}, "its data is a bytes"),
        ({"data": DATA[50:60].astype(np.float32)}, r"float32 \[10, 3072\], expected bytes"),
        ({"data": DATA[50:60, :784]}, r"uint8 \[10, 784\], expected .* pictures of 32 × 32 in three colours"),
        ({"data": DATA[50:59]}, "9 pictures and 10 labels"),
        ({"data": DATA[:0], "labels": []}, r"uint8 \[0, 3072\]"),
        ({"labels": [*LABELS[50:59], 10]}, "a label is 10, expected 0 to 9"),
        ({"labels": [*LABELS[50:59], -1]}, "a label is -1, expected 0 to 9"),
        ({"labels": [*LABELS[50:59], 2**70]}, f"a label is {2**70}, expected 0 to 9"),
        ({"labels": np.full(10, 99)}, "a label is 99, expected 0 to 9"),
        ({"labels": [*LABELS[50:59], 1.0]}, "labels are not all whole numbers"),
        ({"labels": np.zeros(10)}, r"labels are float64 \[10\]"),
        ({"labels": np.zeros((10, 1), dtype=int)}, r"labels are int64 \[10, 1\]"),
        ({"labels": "cat"}, "its labels are a str"),
    ],
)
def test_batches_with_something_else_are_refused(cifar: Path, changes: dict[str, Any], message: str) -> None:
    write_batch(cifar / "test_batch", slice(50, 60), **changes)
    with pytest.raises(AkornError, match=rf"test_batch.*{message}"):
        load_cifar10(cifar, "test")


def test_missing_and_damaged_batches_are_refused(cifar: Path, tmp_path: Path) -> None:
    (cifar / "data_batch_3").unlink()
    with pytest.raises(AkornError, match=r"has no data_batch_3: .* data_batch_1, data_batch_2"):
        load_cifar10(cifar, "train")
    whole = (cifar / "test_batch").read_bytes()
    (cifar / "test_batch").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(AkornError, match="test_batch cannot be read, it is cut short"):
        load_cifar10(cifar, "test")
    (cifar / "test_batch").write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(AkornError, match="test_batch holds a list, expected a dictionary"):
        load_cifar10(cifar, "test")
    (cifar / "test_batch").write_bytes(pickle.dumps({b"fine_labels": [1]}))
    with pytest.raises(AkornError, match="has no 'data', it holds fine_labels"):
        load_cifar10(cifar, "test")
    (cifar / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"cat"]}))
    (cifar / "test_batch").write_bytes(whole)
    with pytest.raises(AkornError, match=r"batches.meta: its label_names are not ten words"):
        load_cifar10(cifar, "test")
    with pytest.raises(AkornError, match="does not exist"):
        load_cifar10(tmp_path / "nowhere", "test")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(AkornError, match="holds no CIFAR-10"):
        load_cifar10(empty, "test")
    with pytest.raises(ValueError, match="split must be train or test"):
        load_cifar10(cifar, "valid")  # type: ignore[arg-type]


def test_bad_archives_are_refused(cifar: Path, tmp_path: Path) -> None:
    path = tmp_path / "cifar.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(cifar, "cifar-10-batches-py")
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises(AkornError, match="cannot be read as an archive of CIFAR-10"):
        load_cifar10(path, "train")
    path.write_bytes(b"no archive")
    with pytest.raises(AkornError, match="cannot be read as an archive of CIFAR-10"):
        load_cifar10(path, "train")
    with tarfile.open(path, "w:gz") as archive:  # a link out of the archive is no batch
        link = tarfile.TarInfo("cifar-10-batches-py/test_batch")
        link.type, link.linkname = tarfile.SYMTYPE, str(cifar / "test_batch")
        archive.addfile(link)
    with pytest.raises(AkornError, match="has no test_batch"):
        load_cifar10(path, "test")


def test_pictures_refuse_other_arrays() -> None:
    images, labels = torch.zeros(4, 3, 8, 8, dtype=torch.uint8), torch.zeros(4, dtype=torch.int64)
    for left, right in (
        (images.float(), labels),
        (images[:, :1], labels),
        (images, labels[:3]),
        (images, labels.int()),
    ):
        with pytest.raises(ValueError, match=r"must be (uint8|int64)"):
            Pictures(left, right, ("a",))


# CIFAR-10-C


@pytest.fixture
def corrupted(tmp_path: Path) -> Path:
    """Four pictures at five severities, as published: the value of a pixel encodes picture and severity."""
    folder = tmp_path / "CIFAR-10-C"
    folder.mkdir()
    pixels = np.arange(20, dtype=np.uint8)[:, None, None, None] + np.zeros((1, 32, 32, 3), dtype=np.uint8)
    pixels[:, 0, 1, 2] = 255
    np.save(folder / "fog.npy", pixels)
    np.save(folder / "labels.npy", np.tile(np.array([3, 1, 4, 1], dtype=np.uint8), 5))
    return folder


def test_the_part_of_one_severity(corrupted: Path) -> None:
    found = load_cifar10c(corrupted, "fog", 3)
    assert found.images.shape == (4, 3, 32, 32)
    assert found.images[:, 0, 0, 0].tolist() == [8, 9, 10, 11]
    assert (found.images[:, 2, 0, 1] == 255).all()  # [B, H, W, C] became [B, C, H, W]
    assert found.labels.tolist() == [3, 1, 4, 1]
    assert stored_corruptions(corrupted) == ["fog"]
    assert not made_by_us(corrupted)


def test_a_set_of_ours_may_have_fewer_severities(corrupted: Path) -> None:
    (corrupted / "README.json").write_text(json.dumps({"maker": "akorn", "severities": [3, 5]}))
    assert made_by_us(corrupted)
    assert load_cifar10c(corrupted, "fog", 5).images[:, 0, 0, 0].tolist() == list(range(10, 20))
    with pytest.raises(AkornError, match="has severities 3, 5, not 1"):
        load_cifar10c(corrupted, "fog", 1)
    (corrupted / "README.json").write_text(json.dumps({"severities": [5, 6]}))
    with pytest.raises(AkornError, match="different numbers from 1 to 5"):
        load_cifar10c(corrupted, "fog", 5)
    (corrupted / "README.json").write_text("{")
    with pytest.raises(AkornError, match=r"README.json: damaged"):
        load_cifar10c(corrupted, "fog", 5)


def test_a_folder_holds_what_is_there(corrupted: Path) -> None:
    one = find_cifar10c(corrupted, 3)
    assert (one.names, one.common, one.pictures, one.ours) == (("fog",), ("fog",), 4, False)
    assert one.missing == tuple(name for name in COMMON if name != "fog")
    assert not one.complete
    assert torch.equal(one.load("fog").images, load_cifar10c(corrupted, "fog", 3).images)
    whole = (corrupted / "fog.npy").read_bytes()
    for name in reversed(EXTRA):
        (corrupted / f"{name}.npy").write_bytes(whole)
    few = find_cifar10c(corrupted, 5)
    assert (few.names, few.common) == (("fog", *EXTRA), ("fog",))  # in the usual order, whatever the folder's
    for name in COMMON:
        (corrupted / f"{name}.npy").write_bytes(whole)
    (corrupted / "rain.npy").write_bytes(whole)
    everything = find_cifar10c(corrupted, 1)
    assert (everything.names, everything.common, everything.missing) == (ALL, COMMON, ())
    assert everything.complete
    np.save(corrupted / "snow.npy", np.load(corrupted / "fog.npy")[:10])  # one of them is another set's
    with pytest.raises(AkornError, match=r"labels.npy is uint8 \[20\], expected 10"):
        find_cifar10c(corrupted, 1)


def test_a_folder_without_corruptions_is_refused(corrupted: Path, tmp_path: Path) -> None:
    with pytest.raises(AkornError, match="severity must be a whole number from 1 to 5"):
        find_cifar10c(corrupted, 0)
    (corrupted / "README.json").write_text(json.dumps({"maker": "akorn", "severities": [3, 5]}))
    with pytest.raises(AkornError, match="has severities 3, 5, not 1"):
        find_cifar10c(corrupted, 1)
    assert find_cifar10c(corrupted, 3).ours
    (corrupted / "fog.npy").unlink()
    with pytest.raises(AkornError, match=r"has no corruption, expected NAME.npy of at least one of .*fog"):
        find_cifar10c(corrupted, 3)
    with pytest.raises(AkornError, match="nowhere does not exist"):
        find_cifar10c(tmp_path / "nowhere", 3)
    with pytest.raises(AkornError, match=r"labels\.npy is not a folder"):
        find_cifar10c(corrupted / "labels.npy", 3)


def test_bad_files_of_corruptions_are_refused(corrupted: Path, tmp_path: Path) -> None:
    with pytest.raises(AkornError, match=r"snow.npy does not exist; corruptions in this folder: fog"):
        load_cifar10c(corrupted, "snow", 1)
    with pytest.raises(AkornError, match="unknown corruption 'rain'"):
        load_cifar10c(corrupted, "rain", 1)
    for severity in (0, 6, 2.5, True):
        with pytest.raises(AkornError, match="severity must be a whole number from 1 to 5"):
            load_cifar10c(corrupted, "fog", severity)  # type: ignore[arg-type]
    with pytest.raises(AkornError, match="does not exist"):
        load_cifar10c(tmp_path / "nowhere", "fog", 1)
    good = np.load(corrupted / "fog.npy")
    for bad, message in (
        (good.astype(np.float32), "float32"),
        (good[..., 0], r"\[20, 32, 32\], expected bytes"),
        (good[:, :28], r"\[20, 28, 32, 3\]"),
        (good[:19], "19 pictures, expected equally many at each of 5"),
        (good[:0], "0 pictures"),
        (good[:15], r"labels.npy is uint8 \[20\], expected 15"),
        (np.array([{}], dtype=object), "cannot be read as an array"),
    ):
        np.save(corrupted / "fog.npy", bad)
        with pytest.raises(AkornError, match=message):
            load_cifar10c(corrupted, "fog", 1)
    np.save(corrupted / "fog.npy", good)
    np.save(corrupted / "labels.npy", np.full(20, 10))
    with pytest.raises(AkornError, match=r"labels.npy: a label is 10"):
        load_cifar10c(corrupted, "fog", 1)
    whole = (corrupted / "fog.npy").read_bytes()
    (corrupted / "fog.npy").write_bytes(whole[:-100])
    with pytest.raises(AkornError, match=r"fog.npy cannot be read as an array, it is cut short"):
        load_cifar10c(corrupted, "fog", 1)
