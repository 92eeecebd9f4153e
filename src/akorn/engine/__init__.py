"""One training loop for all tasks: devices, averages, checkpoints and resuming, progress, the results ledger.

Names that need torch or matplotlib are imported when they are first used, so that `akorn --help` stays fast.
"""

import lazy_loader

from akorn._moved import with_old_names

_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = with_old_names(__name__, _find)
