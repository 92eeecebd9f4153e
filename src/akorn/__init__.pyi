from . import augment as augment
from . import baselines as baselines
from . import engine as engine
from . import execution as execution
from . import export as export
from . import kernels as kernels
from . import lyapunov as lyapunov
from . import nn as nn
from . import objects as objects
from . import oscillators as oscillators
from . import robustness as robustness
from . import scenes as scenes
from . import simulate as simulate
from . import sudoku as sudoku
from . import theory as theory
from .models import create_model as create_model
from .models import list_models as list_models

__version__: str
