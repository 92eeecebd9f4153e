"""Data for object discovery: pictures, masks, how many clusters. Names are imported when they are first used.

Generators for Shapes, Tetrominoes and Multi-dSprites; readers for npz files, packs, the multi-object benchmark's
TFRecords, CLEVRTex, ImageNet and other folders of pictures, Pascal VOC 2012 and COCO 2017. `load` opens any of them.

A data set is registered by the module that draws or reads it, and that module is listed in `SOURCES`. Sets are listed
and readers are tried in this order. None of them imports torch.
"""

from importlib import import_module

import lazy_loader

SOURCES = (
    "shapes",
    "tetrominoes",
    "dsprites",
    "npz",
    "packs",
    "multiobject",
    "voc",
    "coco",
    "clevrtex",
    "folders",
)
for _source in SOURCES:
    import_module(f"{__name__}.{_source}")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
