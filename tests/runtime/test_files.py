"""Whole files or none, and the check before long work."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from akorn.errors import AkornError
from akorn.runtime.files import check_writable, make_folder, replacing


def test_a_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replacing(path) as temporary:
        assert (temporary.parent, temporary.suffix) == (tmp_path, ".txt")  # by the ending, libraries know the format
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt(), AkornError("mine")])
def test_after_an_error_the_old_file_is_there_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(type(error)) as raised, replacing(path) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise error
    assert raised.value is error
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_an_error_of_the_disk_names_the_file_and_the_reason(tmp_path: Path) -> None:
    with pytest.raises(AkornError) as raised, replacing(str(tmp_path / "a.txt")) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise OSError(28, "No space left on device")
    assert str(raised.value) == f"{tmp_path / 'a.txt'}: cannot be written (No space left on device)"
    assert isinstance(raised.value.__cause__, OSError)
    with pytest.raises(AkornError, match="No such file"), replacing(tmp_path / "a.txt"):
        pass  # nothing was written
    assert os.listdir(tmp_path) == []


def test_writers_at_the_same_time_do_not_share_a_name(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with replacing(path) as first, replacing(path) as second:
        assert first != second
        second.write_text("second")
        first.write_text("first")
    assert path.read_text() == "first"  # the outer block ends last


def test_a_name_as_long_as_the_disk_allows(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 251 + ".txt")
    with replacing(path) as temporary:
        temporary.write_text("x")
    assert path.read_text() == "x"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "there" / "real.txt")
    with replacing(link) as temporary:
        temporary.write_text("x")
    assert link.is_symlink()
    assert (tmp_path / "there" / "real.txt").read_text() == "x"


def bad_targets(folder: Path) -> list[tuple[Path, str]]:
    (folder / "folder").mkdir()
    (folder / "file").write_text("")
    os.mkfifo(folder / "pipe")
    (folder / "astray").symlink_to(folder / "none" / "a.txt")
    return [
        (folder / "folder", "folder: this is a folder"),
        (folder / "none" / "a.txt", "a.txt: the folder .*none does not exist"),
        (folder / "file" / "a.txt", "a.txt: .*file is not a folder"),
        (folder / "pipe", "pipe: this is not an ordinary file"),
        (folder / "astray", "astray: the folder .*none does not exist"),
        (folder / ("a" * 300), "cannot be written .*too long"),
    ]


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    for path, message in bad_targets(tmp_path):
        with pytest.raises(AkornError, match=message):
            check_writable(path)
        with pytest.raises(AkornError, match=message), replacing(path):
            pytest.fail("the work has begun")
    assert sorted(os.listdir(tmp_path)) == ["astray", "file", "folder", "pipe"]


def test_the_check_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("old")
    check_writable(tmp_path / "a.txt")
    check_writable(str(tmp_path / "b.txt"))
    monkeypatch.chdir(tmp_path)
    check_writable("c.txt")
    assert os.listdir(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_a_folder_is_tried_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(**_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", read_only)  # the tests may run as root, whom no rights stop
    message = rf"the folder {tmp_path} cannot be written \(Read-only file system\)"
    with pytest.raises(AkornError, match=message):
        check_writable(tmp_path / "a.txt")
    with pytest.raises(AkornError, match=message):
        make_folder(tmp_path)


def test_folders_are_made(tmp_path: Path) -> None:
    for _ in range(2):  # one that is there is fine
        make_folder(tmp_path / "a" / "b")
    assert os.listdir(tmp_path / "a" / "b") == []
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "c"):
        with pytest.raises(AkornError, match=f"{path}: the folder cannot be created"):
            make_folder(path)


def test_files_and_devices_need_no_torch() -> None:
    code = "import sys, akorn.runtime.files, akorn.runtime.devices; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)
