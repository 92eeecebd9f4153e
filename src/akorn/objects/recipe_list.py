"""The list of this room's recipes, and the training that they share. Imports no torch."""

from __future__ import annotations

from akorn.engine.config import EmaConfig, OptimiserConfig, TrainConfig, Weights
from akorn.objects.config import ObjectsRecipe
from akorn.registry import Recipes

RECIPES: Recipes[ObjectsRecipe] = Recipes()


def published_training(
    epochs: int, learning_rate: float = 1e-3, batch_size: int = 256, weights: Weights = "average"
) -> TrainConfig:
    """The published protocol: Adam, no clipping, no warm-up, constant rate; in bf16, which costs no accuracy.

    Its average of weights spans about 5,000 steps. For AKOrN it is better than the last weights on Tetrominoes and as
    good on dSprites. On Shapes it has better masks after 100 epochs with one and two blocks, but it lags behind a model
    that is still learning, as the one with three blocks was after 50 (results/objects.md has the trials).
    """
    return TrainConfig(
        epochs=epochs,
        batch_size=batch_size,
        optimiser=OptimiserConfig(name="adam", learning_rate=learning_rate),
        ema=EmaConfig(decay=0.998, every=10, after=200),
        weights=weights,
        precision="bf16",
        graph=True,
    )
