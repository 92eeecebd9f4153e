"""Scenes: CLEVR's and textured ones as pictures with exact masks, rendered on a GPU or a CPU.

    studio = akorn.scenes.Studio(akorn.scenes.family_of("clevr"), device="cuda")
    shots = studio.shots(range(256))        # .images [256, 3, 128, 128], .labels [256, 128, 128], bytes

Names are imported when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
