"""How work runs: a training step as a CUDA graph. Torch is imported when a name is first used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
