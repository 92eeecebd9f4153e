"""The kernels of scenes for a GPU, on machines without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# The stages of Triton's compiler are not public. Those after "ttir" take a minute for the colours, so only the labels
# are compiled to a binary; types, shapes and names have been checked by then.
COMPILE = """
import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend
from akorn.scenes import kernel

floats = "objects lamps camera grid cells lattice offsets rows columns out depth normals".split()
kinds = {name: "*fp32" for name in floats} | {"counts": "*i32", "turns": "*i32", "labels": "*u8", "pixel": "fp32"}
kinds |= {"environment": "fp32", "BLOCK": "constexpr", "WITH_NORMALS": "constexpr"}
target = GPUTarget("cuda", 90, 32)

def source(name, textured, **constants):
    function = kernel.built(textured)[name]
    names = function.arg_names
    signature = {key: kinds.get(key, "i32") for key in names}
    return ASTSource(function, signature, {(names.index(key),): value for key, value in constants.items()}, {})

for textured in (False, True):
    backend = make_backend(target)
    options = backend.parse_options({"num_warps": 1})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    colours, stages = source("colours_kernel", textured, BLOCK=32), {}
    module = colours.make_ir(
        target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
    )
    backend.add_stages(stages, options, colours.language)
    assert "tt.func" in str(stages["ttir"](module, {}))
labels = source("labels_kernel", False, BLOCK=32, WITH_NORMALS=True)
assert triton.compile(labels, target=target, options={"num_warps": 1}).asm["cubin"]
print("compiled")
"""


@pytest.mark.slow
def test_the_kernels_compile_without_a_gpu(tmp_path: Path) -> None:
    triton = pytest.importorskip("triton")
    if not triton.__version__.startswith("3.7"):
        pytest.skip("the compiler's stages are called as in Triton 3.7")
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True, env=environment)
    assert done.stdout == "compiled\n", done.stderr[-2000:]
