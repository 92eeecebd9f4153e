"""What must be settled before any test module is imported."""

import os

import torch

if not torch.cuda.is_available():
    # Kernels then run in Triton's interpreter. Read when Triton is first imported, which torch may do at any time.
    os.environ["TRITON_INTERPRET"] = "1"
