"""Is a classifier's Kuramoto layer chaotic? Its largest Lyapunov exponent per step, as a mean over pictures.

    python benchmarks/lyapunov.py --data cifar-10-batches-py [--record results]

It is measured for every layer of the shipped model, driven by what validation pictures send into it, at the step size
γ of its training and at smaller ones; and for the same layers untrained, with and without Proj. If the exponent λ is
above 0, nearby states move apart: after t steps a difference, and so a gradient, has grown by a factor of exp(λt). λ/γ
is the rate per unit of time.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from akorn.errors import AkornError
from akorn.ledger import write_record
from akorn.lyapunov import layer_exponent
from akorn.models import load_model, training_of
from akorn.nn import KuramotoLayer
from akorn.robustness.config import AkornConfig
from akorn.robustness.data import load_split
from akorn.robustness.evaluate import as_float
from akorn.robustness.model import CifarNet, build

GAMMAS = (1.0, 0.5, 0.1)
KINDS = ("trained", "untrained", "untrained without Proj")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record; AkornError for what cannot be measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="CIFAR-10's folder, cifar-10-batches-py")
    parser.add_argument("--model", default="cifar10-conv", help="shipped weights or a model's folder")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="which layers; by default all")
    parser.add_argument("--pictures", type=int, default=4, help="at least 2: the mean over them has a spread")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--discard", type=int, default=50, help="steps before those that count")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, help="a folder for the record; by default none is written")
    words = parser.parse_args(arguments)
    if words.pictures < 2:
        raise AkornError(f"--pictures must be at least 2, since their spread is shown, got {words.pictures}")
    began = time.monotonic()
    pictures = load_split(words.data, "valid")
    chosen = pictures.take(torch.arange(min(words.pictures, len(pictures))))
    few = as_float(chosen.images)
    trained = load_model(words.model).eval()
    if not isinstance(trained, CifarNet) or not isinstance(trained.config, AkornConfig):
        raise AkornError(f"{words.model}: this is not a classifier with Kuramoto layers")
    found: dict[str, float] = {}
    for kind in words.kinds:
        for name, (layer, x, c) in met(_model(kind, trained, words.seed), few, words.seed).items():
            for gamma in GAMMAS:
                exponents = layer_exponent(
                    layer, x, c, words.steps, gamma=gamma, discard=words.discard, seed=words.seed
                )
                found[f"{kind}/{name}, γ = {gamma:g}"] = float(exponents.mean())
                spread = float(exponents.std())
                print(f"{float(exponents.mean()):7.3f} ± {spread:.3f}  {kind}, {name}, γ = {gamma:g}", flush=True)
    if words.record is not None:
        settings = {
            "model": words.model, "recipe": (training_of(words.model) or {}).get("recipe"), "pictures": len(chosen),
            "steps": words.steps, "discard": words.discard,
        }  # fmt: skip
        path = write_record(
            "bench", "lyapunov", found, config=settings, seed=words.seed, data_fingerprint=chosen.fingerprint(),
            wall_time=time.monotonic() - began, device="cpu", folder=words.record,
        )  # fmt: skip
        print(f"recorded in {path}")


def _model(kind: str, trained: CifarNet, seed: int) -> CifarNet:
    """The trained model, or one like it that is not trained; with and without Proj these have the same weights."""
    if kind == "trained":
        return trained
    assert isinstance(trained.config, AkornConfig)
    config = trained.config if kind == "untrained" else replace(trained.config, rule="without-projection")
    torch.manual_seed(seed)
    return build(config).eval()


@torch.no_grad()
def met(model: CifarNet, images: Tensor, seed: int) -> dict[str, tuple[KuramotoLayer, Tensor, Tensor]]:
    """Each Kuramoto layer of a model, with the state and stimulus that it gets when the model sees these pictures."""
    seen: dict[str, tuple[KuramotoLayer, Tensor, Tensor]] = {}

    def noting(name: str) -> object:
        def note(layer: nn.Module, args: tuple[Tensor, ...]) -> None:
            assert isinstance(layer, KuramotoLayer)
            seen[name] = (layer, args[0].detach().clone(), args[1].detach().clone())

        return note

    layers = [layer for layer in model.modules() if isinstance(layer, KuramotoLayer)]
    hooks = [layer.register_forward_pre_hook(noting(f"layer {i}")) for i, layer in enumerate(layers, 1)]  # type: ignore[arg-type]
    torch.manual_seed(seed)
    model(images)
    for hook in hooks:
        hook.remove()
    return seen


if __name__ == "__main__":
    try:
        main()
    except AkornError as error:
        print(f"lyapunov: {error}", file=sys.stderr)
        sys.exit(2)
