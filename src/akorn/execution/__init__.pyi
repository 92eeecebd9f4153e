from .graph import GraphedStep as GraphedStep
from .graph import graphed as graphed
