"""Which device a name means, here and on machines that we pretend to have."""

from __future__ import annotations

import sysconfig

import pytest
import torch

from akorn.errors import AkornError
from akorn.runtime import devices
from akorn.runtime.devices import pick_device


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch):
    """A function that pretends a machine: its number of CUDA GPUs, whether it is a Mac, and this process's number."""

    def pretend(gpus: int = 0, mac: bool = False, rank: int | None = None, processes: int | None = None) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mac)
        monkeypatch.setattr(devices, "_use", lambda _: None)
        for name, value in (("LOCAL_RANK", rank), ("LOCAL_WORLD_SIZE", processes)):
            monkeypatch.delenv(name, raising=False)
            if value is not None:
                monkeypatch.setenv(name, str(value))

    return pretend


def test_names(machine) -> None:
    cases = [
        ({}, "auto", "cpu"),
        ({"mac": True}, "auto", "mps"),
        ({"gpus": 1}, "auto", "cuda:0"),
        ({"gpus": 1}, "cpu", "cpu"),
        ({"gpus": 1}, "cuda", "cuda:0"),
        ({"gpus": 4, "rank": 2}, "auto", "cuda:2"),
        ({"gpus": 4, "rank": 2}, "cuda", "cuda:2"),
        ({"gpus": 4, "rank": 2}, "cuda:1", "cuda:1"),
        ({"gpus": 4, "rank": 2, "processes": 4}, "auto", "cuda:2"),
        ({"gpus": 1, "rank": 1, "processes": 2}, "auto", "cuda:0"),  # shared
        ({"gpus": 2, "rank": 3, "processes": 4}, "cuda", "cuda:1"),
        ({"rank": 2}, "auto", "cpu"),
        ({"mac": True}, "mps", "mps"),
    ]
    for what, name, expected in cases:
        machine(**what)
        assert pick_device(name) == torch.device(expected), (what, name)


def test_what_cannot_be_used(machine) -> None:
    unknown = "expected auto, cpu, cuda, cuda:NUMBER or mps"
    cases = [
        *(({"gpus": 2}, name, name, unknown) for name in ("abacus", "meta", "xpu", "", "cuda:", "cuda:-1", "CPU")),
        ({"gpus": 2}, "cuda:256", "cuda:256", unknown),  # which torch itself takes for cuda:0
        ({}, "cuda", "cuda", "torch finds no CUDA device; use auto or cpu"),
        ({}, "cuda:1", "cuda:1", "torch finds no CUDA device; use auto or cpu"),
        ({"gpus": 2}, "mps", "mps", "torch finds no Apple GPU; use auto or cpu"),
        ({"gpus": 2}, "cuda:2", "cuda:2", "torch finds only 2, counted from 0"),
        ({"gpus": 2, "rank": 3}, "auto", "cuda:3", "torch finds only 2, counted from 0"),
    ]
    for what, name, told, reason in cases:
        machine(**what)
        with pytest.raises(AkornError) as raised:
            pick_device(name)
        assert str(raised.value) == f"the device {told!r} cannot be used: {reason}"


def test_when_processes_share_gpus(machine) -> None:
    for gpus, processes, shared in ((0, 4, False), (1, None, False), (1, 1, False), (2, 2, False), (1, 2, True)):
        machine(gpus=gpus, processes=processes)
        assert devices.shares_gpus() == shared, (gpus, processes)


def test_a_gpu_that_is_there_but_does_not_work(machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: torch.device) -> None:
        raise RuntimeError("CUDA error: device busy\nmore that nobody needs")

    machine(gpus=1)
    monkeypatch.setattr(devices, "_use", broken)
    with pytest.raises(AkornError, match=r"'cuda:0' cannot be used: CUDA error: device busy$"):
        pick_device()


def test_here() -> None:
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device().type == devices.best_kind()


def test_a_simulation_in_float64_goes_round_an_apple_gpu(machine) -> None:
    from akorn.simulate import simulate

    machine(mac=True)
    with pytest.raises(AkornError, match="'mps' cannot be used: it has no float64"):
        simulate("fish", device="mps", dtype="float64")
    simulate("fish", dtype="float64", steps=1, size=8, kernel_size=3)  # on the CPU


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch, tmp_path):
    """A function that pretends which programs are installed and what $CC is; Triton and Python.h are there."""
    monkeypatch.setattr(devices, "find_spec", lambda name: object())
    monkeypatch.setattr(devices.sysconfig, "get_path", lambda name, scheme: str(tmp_path))
    for name in ("CXX", "CPATH", "C_INCLUDE_PATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "Python.h").touch()

    def pretend(*programs: str, chosen: str | None = None) -> None:
        monkeypatch.setattr(devices.shutil, "which", lambda program: program if program in programs else None)
        monkeypatch.delenv("CC", raising=False)
        if chosen is not None:
            monkeypatch.setenv("CC", chosen)

    return pretend


def test_which_compilers_triton_takes(tools) -> None:
    """$CC alone if it is set, else gcc or clang: `cc` is neither of them."""
    none = "there is no C compiler (gcc or clang)"
    for programs, chosen, missing in (
        ((), None, none),
        (("cc",), None, none),
        (("gcc",), None, None),
        (("clang",), None, None),
        (("my-cc",), "my-cc", None),
        (("cc",), "cc", None),
        (("gcc", "clang"), "my-cc", "there is no C compiler 'my-cc', which $CC names"),
        (("gcc",), "", "there is no C compiler '', which $CC names"),
    ):
        tools(*programs, chosen=chosen)
        assert devices.missing_for_kernels() == missing, (programs, chosen)
        assert devices.missing_for_compile("cuda") == missing


def test_triton_needs_the_headers_of_python(tools, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    tools("gcc")
    (tmp_path / "Python.h").unlink()
    assert str(devices.missing_for_kernels()).startswith(f"there is no Python.h in {tmp_path} ")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "Python.h").touch()
    monkeypatch.setenv("CPATH", f"/nowhere:{tmp_path / 'elsewhere'}")
    assert devices.missing_for_kernels() is None


def test_debians_own_folder_has_no_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    for scheme in ("posix_prefix", "posix_local"):
        monkeypatch.setattr(devices.sysconfig, "get_default_scheme", lambda name=scheme: name)
        assert devices._header_folders()[0] == sysconfig.get_path("include", "posix_prefix")


def test_says_what_else_compiling_lacks(tools, monkeypatch: pytest.MonkeyPatch) -> None:
    tools("gcc")
    assert "C++" in str(devices.missing_for_compile("cpu"))
    tools("g++")
    assert devices.missing_for_compile("cpu") is None
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    assert devices.missing_for_kernels() == "Triton is not installed"
