"""Batches are the requested pictures, as bytes, from the device or from threads that read files."""

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from akorn.errors import AkornError
from akorn.objects.data import DeviceData, Pictures, StreamedData, generate, load, to_device
from akorn.objects.data import device as device_module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(11):
        Image.fromarray(np.full((6, 6, 3), 20 * number, dtype=np.uint8)).save(tmp_path / f"{number:02}.png")
    return tmp_path


def numbers(batch: torch.Tensor) -> list[int]:
    assert batch.dtype == torch.uint8
    assert batch.shape[1:] == (3, 6, 6)
    return (batch[:, 0, 0, 0] // 20).tolist()


def test_data_on_the_device_by_index() -> None:
    pictures = generate("shapes", "test", 20)
    data = DeviceData.of(pictures)
    assert (len(data), data.device.type) == (20, "cpu")
    batch = data[torch.tensor([3, 3, 19])]
    assert batch.dtype == torch.uint8
    assert np.array_equal(batch.numpy(), pictures.images[[3, 3, 19]])
    assert data.fingerprint() == DeviceData(pictures.images.copy()).fingerprint()
    assert data.fingerprint() != DeviceData(pictures.images[::-1].copy()).fingerprint()
    for bad in (pictures.images[0], pictures.images[:0], pictures.images.astype(np.int16)):
        with pytest.raises(ValueError, match="expected bytes"):
            DeviceData(bad)


def test_files_are_read_onto_the_device(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "_TOGETHER", 4)
    calls: list[tuple[int, int]] = []
    data = DeviceData.of(load(folder, size=6), progress=lambda done, count: calls.append((done, count)))
    assert numbers(data[torch.arange(11)]) == list(range(11))
    assert calls == [(4, 11), (8, 11), (11, 11)]


def test_streams_keep_the_order(folder: Path) -> None:
    orders = [torch.tensor([4, 2]), [10], np.array([0, 1, 2]), torch.tensor([5, 5]), [7], [3]]
    with StreamedData(load(folder, size=6), workers=3, ahead=2) as stream:
        assert len(stream) == 11
        assert [numbers(batch) for batch in stream.batches(orders)] == [[4, 2], [10], [0, 1, 2], [5, 5], [7], [3]]
        stream.expect([1, 8])
        stream.expect([9])
        stream.expect([6])  # the oldest is forgotten, and read when it is asked for
        assert numbers(stream[torch.tensor([1, 8])]) == [1, 8]
        assert numbers(stream[[6]]) == [6]
        assert numbers(stream[[9]]) == [9]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("akorn-pictures")]
    with pytest.raises(ValueError, match="at least 1, got 0"):
        StreamedData(load(folder), workers=0)


def test_streams_read_ahead(folder: Path) -> None:
    pictures = load(folder, size=6)
    read: list[int] = []
    original = pictures.image

    class Watched:
        name, clusters = pictures.name, pictures.clusters
        load, fingerprint = pictures.load, pictures.fingerprint

        def __len__(self) -> int:
            return len(pictures)

        def __getitem__(self, index: int) -> object:
            raise AssertionError("no masks are wanted")

        def image(self, index: int) -> np.ndarray:
            read.append(index)
            return original(index)

    with StreamedData(Watched(), workers=1, ahead=3) as stream:
        read.clear()
        batches = stream.batches([[number] for number in range(11)])
        next(batches)
        stream._pool.submit(lambda: None).result()  # one worker: what was begun is done
        assert read == [0, 1, 2, 3]


def test_a_bad_file_is_named_where_its_batch_is_asked_for(folder: Path) -> None:
    (folder / "05.png").write_bytes(b"text")
    with StreamedData(load(folder, size=6)) as stream:
        assert numbers(stream[[4]]) == [4]
        stream.expect([5])
        with pytest.raises(AkornError, match=r"05.png: not a picture"):
            stream[[5]]


def test_what_does_not_fit_is_streamed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = load(folder, size=6)
    assert isinstance(to_device(pictures), DeviceData)
    monkeypatch.setattr(device_module, "_free", lambda device: 11 * 108.0)
    stream = to_device(pictures)
    assert isinstance(stream, StreamedData)
    assert stream.fingerprint() == pictures.fingerprint()
    stream.close()
    arrays = pictures.load(range(11))
    assert isinstance(arrays, Pictures)
    assert isinstance(to_device(arrays), DeviceData)  # in this memory already


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_batches_on_the_gpu(folder: Path) -> None:
    with StreamedData(load(folder, size=6), "cuda") as stream:
        for number, batch in zip((3, 1), stream.batches([[3, 3], [1, 1]]), strict=True):
            assert batch.is_cuda
            assert numbers(batch) == [number, number]
    data = DeviceData.of(load(folder, size=6), "cuda")
    assert numbers(data[torch.tensor([2, 9])]) == [2, 9]
