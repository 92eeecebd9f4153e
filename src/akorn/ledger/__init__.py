"""Records of runs and evaluations, one JSON file each, and tables made from them. Imports no torch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
