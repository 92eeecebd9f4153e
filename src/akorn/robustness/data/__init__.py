"""Pictures with labels, read from the usual files into bytes: CIFAR-10, CIFAR-10-C and Tiny-ImageNet."""

from akorn.robustness.data.cifar import load_cifar10
from akorn.robustness.data.cifar_c import CorruptedSet, find_cifar10c, load_cifar10c, made_by_us
from akorn.robustness.data.held_out import load_split
from akorn.robustness.data.labelled_pictures import Pictures
from akorn.robustness.data.tiny_imagenet import load_tiny_imagenet

__all__ = [
    "CorruptedSet",
    "Pictures",
    "find_cifar10c",
    "load_cifar10",
    "load_cifar10c",
    "load_split",
    "load_tiny_imagenet",
    "made_by_us",
]
