"""Object discovery: pictures, models, clusters of their features, and scores. Names are imported when
they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
