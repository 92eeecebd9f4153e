"""Data for object discovery: pictures, masks, how many clusters. Names are imported when they are first used.

Generators for Shapes, Tetrominoes and Multi-dSprites; readers for npz files, the multi-object benchmark's TFRecords,
CLEVRTex, ImageNet and other folders of pictures, Pascal VOC 2012 and COCO 2017. `load` opens any of them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
