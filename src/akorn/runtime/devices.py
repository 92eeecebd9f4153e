"""Which device to compute on, and how much memory there is. Torch is imported only when a device is chosen."""

from __future__ import annotations

import atexit
import os
import shutil
import sysconfig
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from akorn.errors import AkornError

if TYPE_CHECKING:
    import torch

KINDS = ("cpu", "cuda", "mps")
NO_TRITON = "Triton is not installed"


def pick_device(name: str = "auto") -> torch.device:
    """The device of that name; AkornError if it cannot be used.

    "cuda" is this process's GPU: number LOCAL_RANK if a launcher started several processes; if there are more processes
    than GPUs, they share them in turn. "auto" is the same if there is CUDA, otherwise an Apple GPU, otherwise the
    CPU.
    """
    import torch

    device = _parse(best_kind() if name == "auto" else name)
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise _refusal(name, "torch finds no Apple GPU; use auto or cpu")
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise _refusal(name, "torch finds no CUDA device; use auto or cpu")
        if name in ("auto", "cuda"):
            number = int(os.environ.get("LOCAL_RANK", "0"))
            device = torch.device("cuda", number % torch.cuda.device_count() if shares_gpus() else number)
        if device.index >= torch.cuda.device_count():
            raise _refusal(str(device), f"torch finds only {torch.cuda.device_count()}, counted from 0")
    try:
        _use(device)
    except RuntimeError as error:  # a GPU that is broken, full, or reserved by another process
        raise _refusal(str(device), str(error).partition("\n")[0]) from error
    return device


def best_kind() -> str:
    """The kind of device that "auto" means on this machine."""
    import torch

    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"


def quick_bfloat16() -> bool:
    """Whether this machine's CPU multiplies numbers of 16 bits (bfloat16) faster than those of 32.

    Processors with AVX512-BF16 do so about twice as fast, those with AMX more. Others only imitate it.
    """
    import torch

    # private to torch: a version without them is taken for a CPU that cannot do it
    tests = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return any(test is not None and test() for test in tests)


def shares_gpus() -> bool:
    """Whether a launcher started more processes on this machine than it has GPUs.

    They then communicate by gloo, since NCCL refuses two processes on one GPU.
    """
    import torch

    return 0 < torch.cuda.device_count() < int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def missing_for_kernels() -> str | None:
    """What Triton needs and this machine lacks, in one line; None if nothing is missing (apart from the GPU).

    Triton compiles a small launcher for each kernel, with $CC if set, otherwise with gcc or clang, and with Python.h.
    """
    if find_spec("triton") is None:
        return NO_TRITON
    chosen = os.environ.get("CC")
    if not any(shutil.which(program) for program in (("gcc", "clang") if chosen is None else (chosen,))):
        return "there is no C compiler " + ("(gcc or clang)" if chosen is None else f"{chosen!r}, which $CC names")
    folders = _header_folders()
    if not any((Path(folder) / "Python.h").is_file() for folder in folders):
        return f"there is no Python.h in {folders[0]} (in a package named like python3-dev)"
    return None


def missing_for_compile(kind: str) -> str | None:
    """What `torch.compile` needs for a kind of device and this machine lacks, in words; None if nothing is missing."""
    if kind == "cuda":
        return missing_for_kernels()
    programs = os.environ.get("CXX", ""), "g++", "clang++", "c++"
    if not any(shutil.which(program) for program in programs if program):
        return "there is no C++ compiler (g++ or clang++)"
    return None


def _header_folders() -> list[str]:
    """Where Triton's compiler looks for Python's headers: in Triton's folder, and in the compiler's own."""
    scheme = sysconfig.get_default_scheme()
    scheme = "posix_prefix" if scheme == "posix_local" else scheme  # Debian's scheme, whose folder has no headers
    added = (os.environ.get(name, "").split(os.pathsep) for name in ("CPATH", "C_INCLUDE_PATH"))
    return [sysconfig.get_path("include", scheme), *(folder for part in added for folder in part if folder)]


def _parse(name: str) -> torch.device:
    import torch

    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")  # treated as unknown
    if device.type not in KINDS or str(device) != name:  # compare the text too: torch reads cuda:256 as cuda:0
        raise _refusal(name, "expected auto, cpu, cuda, cuda:NUMBER or mps")
    return device


def _use(device: torch.device) -> None:
    import torch

    torch.zeros(1, device=device)


def _refusal(name: str, reason: str) -> AkornError:
    return AkornError(f"the device {name!r} cannot be used: {reason}")


def leave_at_exit() -> None:
    """Arrange to leave a gloo process group before Python shuts down; call this before the group is created.

    Gloo's threads release the exchanged tensors, which takes Python's lock. A thread that waits for it while Python
    shuts down is ended in the middle of a destructor, and the whole process aborts (SIGABRT). Leaving the group joins
    these threads and needs nothing from the other processes, so it does not hang after an error. Other backends are
    left to torch: with NCCL, leaving may wait for the other processes, which a failed process must not do.

    The threads end with the last reference to the group. `torch.distributed.nn.functional` keeps one forever, as a
    default argument, if it is imported (as torch's optimisers do) while there is a group; so it is imported here.
    """
    import_module("torch.distributed.nn.functional")
    atexit.register(_leave)


def _leave() -> None:
    import torch

    if torch.distributed.is_initialized() and torch.distributed.get_backend() == "gloo":
        torch.distributed.destroy_process_group()


def machine_memory() -> float:
    """Bytes of memory that this machine has, or its container may use; infinite if the system does not report it."""
    try:
        least = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        least = float("inf")
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):  # control groups, version 2 and 1
        try:
            least = min(least, float((Path("/sys/fs/cgroup") / limit).read_text(encoding="ascii")))
        except (OSError, ValueError):  # there is no limit, or it is the word "max"
            continue
    return least


def device_memory(device: torch.device) -> float:
    """Bytes of memory of a device."""
    import torch

    return float(torch.cuda.get_device_properties(device).total_memory) if device.type == "cuda" else machine_memory()
