"""Oscillatory neural networks in PyTorch, after Artificial Kuramoto Oscillatory Neurons (AKOrN, arXiv:2410.13821).

Their units are not numbers but unit vectors, which rotate, pull on each other and synchronise. A layer of
them, for tokens on a grid:

    coupling = akorn.nn.AttentionCoupling(64, heads=8, grid=(8, 8))
    layer = akorn.nn.KuramotoLayer(64, n=4, coupling=coupling, omega=akorn.nn.NaturalFrequency(4), gamma=0.5)
    x = layer(x, c, steps=8)  # x: state, c: stimulus, [batch, 64 tokens, 64 channels] each

    akorn.nn            layers, couplings, readouts and starts, as ordinary torch modules
    akorn.sudoku        Sudoku puzzles: Solver, models, recipes
    akorn.objects       objects in pictures: Segmenter, models, recipes
    akorn.robustness    classification under attacks and corruptions: Classifier, benchmark, attacks
    akorn.simulate      oscillators without learning: akorn.simulate("fish")
    akorn.create_model  a model by name: akorn.create_model("sudoku", pretrained=True)
    akorn.list_models   the names of the models

The same from a shell: akorn --help.
"""

# The names in the stub beside this file are imported when they are first used, so that `import akorn` and
# `akorn --help` need no torch.

import lazy_loader

from akorn._moved import install as _install_moved
from akorn._version import __version__ as __version__

__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["__version__", *_names]

_install_moved()
