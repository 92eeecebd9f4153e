"""Packs: what is written is read back, in any number of parts, and damaged files are refused."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from akorn.errors import AkornError
from akorn.runtime.packs import Entry, Pack, PackFacts, encode_mask, encode_picture, parts_of, write_pack

FACTS = PackFacts("voc", 8, 100)


def entries(count: int) -> list[Entry]:
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (count, 3, 8, 8), dtype=np.uint8)
    masks = rng.integers(-1, 300, (count, 8, 8)).astype(np.int16)
    return [
        Entry(f"a/{n}.jpg", encode_picture(p, 100), encode_mask(m), encode_mask(np.minimum(m, 20)))
        for n, (p, m) in enumerate(zip(pictures, masks, strict=True))
    ]


@pytest.mark.parametrize("part_bytes", [None, 1, 1000])
def test_pictures_and_masks_come_back_as_they_were(tmp_path: Path, part_bytes: int | None) -> None:
    files = write_pack(tmp_path / "a.pack", entries(7), FACTS, part_bytes)
    assert sorted(tmp_path.iterdir()) == sorted(files)  # nothing else is left
    assert all(parts_of(file) == files for file in files)
    packs = [Pack(file) for file in files]
    assert [name for pack in packs for name in pack.names] == [f"a/{n}.jpg" for n in range(7)]
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (7, 3, 8, 8), dtype=np.uint8)
    masks = rng.integers(-1, 300, (7, 8, 8)).astype(np.int16)
    read = [(pack, place) for pack in packs for place in range(len(pack))]
    for number, (pack, place) in enumerate(read):
        np.testing.assert_array_equal(np.asarray(pack.picture(place)).transpose(2, 0, 1), pictures[number])
        found, classes = pack.mask("labels", place), pack.mask("classes", place)
        assert found is not None
        assert classes is not None
        np.testing.assert_array_equal(found, masks[number])
        np.testing.assert_array_equal(classes, np.minimum(masks[number], 20))
    assert [pack.facts.part for pack in packs] == list(range(1, len(files) + 1))


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    files = write_pack(tmp_path / "a.pack", entries(3), FACTS, 1)
    files[1].unlink()
    with pytest.raises(AkornError, match=r"a-00002-of-00003.pack does not exist: a-00001-of-00003.pack is a part of a"):
        parts_of(files[0])


def test_nothing_is_left_of_a_pack_that_failed(tmp_path: Path) -> None:
    def failing() -> list[Entry]:
        raise AkornError("no more")

    def some() -> object:
        yield from entries(3)
        failing()

    with pytest.raises(AkornError, match="no more"):
        write_pack(tmp_path / "a.pack", some(), FACTS, 1)  # type: ignore[arg-type]
    with pytest.raises(AkornError, match="there is no picture to pack"):
        write_pack(tmp_path / "a.pack", [], FACTS)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("written", range(6))  # each of three parts is written, and then completed
def test_nothing_is_left_if_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int) -> None:
    write, calls = Path.write_bytes, iter(range(7))

    def fail(path: Path, content: bytes) -> int:
        full = next(calls) == written
        count = write(path, content[: len(content) // 2] if full else content)
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return count

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(AkornError, match=r"cannot be written \(No space left on device\)"):
        write_pack(tmp_path / "a.pack", entries(3), FACTS, 1)
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_stays_alone(tmp_path: Path) -> None:
    other = tmp_path / "a-00002-of-00003.pack"
    other.write_bytes(b"precious")
    with pytest.raises(AkornError, match=r"a-00002-of-00003.pack already exists"):
        write_pack(tmp_path / "a.pack", entries(3), FACTS, 1)
    assert list(tmp_path.iterdir()) == [other]
    assert other.read_bytes() == b"precious"


@pytest.mark.skipif(os.name != "posix", reason="needs a system's locks")
def test_a_pack_is_written_once_at_a_time(tmp_path: Path) -> None:
    def slow() -> Iterator[Entry]:
        first, *others = entries(3)
        yield first
        with pytest.raises(AkornError, match=rf"a.pack cannot be written now: .* \(process {os.getpid()}\)"):
            write_pack(tmp_path / "a.pack", entries(7), FACTS, 1)
        write_pack(tmp_path / "b.pack", entries(2), FACTS)
        yield from others

    files = write_pack(tmp_path / "a.pack", slow(), FACTS, 1)
    assert [name for file in files for name in Pack(file).names] == [f"a/{n}.jpg" for n in range(3)]
    assert sorted(tmp_path.iterdir()) == [*files, tmp_path / "b.pack"]


@pytest.mark.skipif(os.name != "posix", reason="needs a system's locks")
def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    killed = f"""
import os, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_packs import FACTS, entries, write_pack

def some():
    yield from entries(3)
    os._exit(1)

write_pack(Path({str(tmp_path / "a.pack")!r}), some(), FACTS, 1)
"""
    subprocess.run([sys.executable, "-c", killed], check=False)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".tmp-")
    files = write_pack(tmp_path / "a.pack", entries(3), FACTS)
    assert list(tmp_path.iterdir()) == files


def test_damaged_packs_are_refused(tmp_path: Path) -> None:
    (file,) = write_pack(tmp_path / "a.pack", entries(3), FACTS)
    whole = file.read_bytes()
    for content in (b"", whole[:-5], whole[:100], b"x" * 1000, whole.replace(b"akorn-pack", b"other-pack")):
        file.write_bytes(content)
        with pytest.raises(AkornError, match=r"not a pack of pictures|damaged"):
            Pack(file)
    file.write_bytes(whole.replace(b'"pictures.ends"', b'"pictures.xxxx"'))
    with pytest.raises(AkornError, match="damaged, its pictures do not fit its 3 names"):
        Pack(file)
