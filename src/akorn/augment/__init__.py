"""Random changes to pictures, on the device, for a whole batch at once, with separate random numbers per picture.

Pictures are [B, 1 or 3, H, W], bytes or floats in 0–1; the results are float32 in 0–1. All random numbers come from
the generator argument, nothing waits for the device, and shapes never depend on random numbers, so everything can be
recorded in a CUDA graph. Names are imported when they are first used: the settings need no torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
