"""The lock of a run's folder: it is held once, and it overwrites nothing that is not its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from akorn.errors import AkornError
from akorn.runtime.lock import FILE, only_run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a system's locks")


def test_it_is_held_once_and_given_back(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("123456789\n")  # of a run that was killed
    for _ in range(2):
        with only_run(tmp_path):
            assert (tmp_path / FILE).read_text() == f"{os.getpid()}\n"
            with pytest.raises(AkornError, match=rf"another run \(process {os.getpid()}\)"), only_run(tmp_path):
                pass


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_neither_followed_nor_its_target_touched(tmp_path: Path, there: bool) -> None:
    target, run = tmp_path / "precious", tmp_path / "run"
    run.mkdir()
    if there:
        target.write_text("123\n")
    (run / FILE).symlink_to(target)
    with pytest.raises(AkornError, match="is a link"), only_run(run):
        pass
    assert target.exists() == there
    assert not there or target.read_text() == "123\n"


def test_a_second_name_of_a_file_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("123\n")
    (tmp_path / FILE).hardlink_to(tmp_path / "precious")
    with pytest.raises(AkornError, match="not the lock of a run"), only_run(tmp_path):
        pass
    assert (tmp_path / "precious").read_text() == "123\n"


def test_other_content_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("[[package]]\n")
    with pytest.raises(AkornError, match="not changed"), only_run(tmp_path):
        pass
    assert (tmp_path / FILE).read_text() == "[[package]]\n"


def test_a_pipe_does_not_make_it_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / FILE)
    with pytest.raises(AkornError, match="not the lock of a run"), only_run(tmp_path):
        pass
