"""Random changes to pictures, on the device, a whole batch at once, each picture with random numbers of its own.

Pictures are [B, 1 or 3, H, W], bytes or floats in 0–1; what comes back are float32 in 0–1. All random numbers come
from the generator handed over, nothing waits for the device and shapes never depend on what was drawn, so all of it
may be recorded in a CUDA graph. Names are imported when they are first used: the settings need no torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
