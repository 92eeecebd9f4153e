"""akorn: artificial Kuramoto oscillatory neurons.

The names in the stub beside this file are imported when they are first used, so that `import akorn` and `akorn --help`
need no torch.
"""

import lazy_loader

from akorn._moved import install as _install_moved
from akorn._version import __version__ as __version__

__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["__version__", *_names]

_install_moved()
