"""Data for object discovery: pictures, masks, how many clusters. Names are imported when they are first used.

Generators for Shapes, Tetrominoes and Multi-dSprites; readers for npz files, the multi-object benchmark's TFRecords,
CLEVRTex, ImageNet and other folders of pictures, Pascal VOC 2012 and COCO 2017. `load` opens any of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from akorn.objects.data.device import DeviceData, StreamedData, to_device
    from akorn.objects.data.files import open_picture
    from akorn.objects.data.fitting import Fit, resized
    from akorn.objects.data.generated import generate
    from akorn.objects.data.layouts import load
    from akorn.objects.data.npz import read_npz, write_npz
    from akorn.objects.data.pictures import Picture, Pictures, PictureSet
    from akorn.objects.data.sets import SETS, DataSet, Split

_LAZY = {
    "DataSet": "sets",
    "DeviceData": "device",
    "Fit": "fitting",
    "Picture": "pictures",
    "PictureSet": "pictures",
    "Pictures": "pictures",
    "SETS": "sets",
    "Split": "sets",
    "StreamedData": "device",
    "generate": "generated",
    "load": "layouts",
    "open_picture": "files",
    "read_npz": "npz",
    "resized": "fitting",
    "to_device": "device",
    "write_npz": "npz",
}

__all__ = [
    "SETS",
    "DataSet",
    "DeviceData",
    "Fit",
    "Picture",
    "PictureSet",
    "Pictures",
    "Split",
    "StreamedData",
    "generate",
    "load",
    "open_picture",
    "read_npz",
    "resized",
    "to_device",
    "write_npz",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"akorn.objects.data.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'akorn.objects.data' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
