"""Is a classifier's Kuramoto layer chaotic? Its largest Lyapunov exponent per step, as a mean over pictures.

    python benchmarks/lyapunov.py --data cifar-10-batches-py [--record results]

It is measured for every layer of the shipped model, driven by what validation pictures send into it, at the step size
γ of its training and at smaller ones; and for the same layers untrained. If the exponent λ is above 0, nearby states
move apart: after t steps a difference, and so a gradient, has grown by a factor of exp(λt). λ/γ is the rate per unit of
time.
"""

import argparse
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from akorn.ledger import write_record
from akorn.lyapunov import layer_exponent
from akorn.models import load_model
from akorn.nn import KuramotoLayer
from akorn.robustness.data import load_split
from akorn.robustness.evaluate import as_float
from akorn.robustness.model import CifarNet, build

GAMMAS = (1.0, 0.5, 0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="cifar10-conv")
    parser.add_argument("--pictures", type=int, default=8)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--discard", type=int, default=50, help="steps before those that count")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path)
    words = parser.parse_args()
    began = time.monotonic()
    pictures = load_split(words.data, "valid")
    chosen = pictures.take(torch.arange(words.pictures))
    few = as_float(chosen.images)
    trained = load_model(words.model).eval()
    assert isinstance(trained, CifarNet)
    torch.manual_seed(words.seed)
    found: dict[str, float] = {}
    for kind, model in (("trained", trained), ("untrained", build(trained.config).eval())):
        for name, (layer, x, c) in met(model, few, words.seed).items():
            for gamma in GAMMAS:
                exponents = layer_exponent(
                    layer, x, c, words.steps, gamma=gamma, discard=words.discard, seed=words.seed
                )
                found[f"{kind}/{name}, γ = {gamma:g}"] = float(exponents.mean())
                spread = float(exponents.std())
                print(f"{float(exponents.mean()):7.3f} ± {spread:.3f}  {kind}, {name}, γ = {gamma:g}", flush=True)
    if words.record is not None:
        settings = {"model": words.model, "pictures": words.pictures, "steps": words.steps, "discard": words.discard}
        path = write_record(
            "bench", "lyapunov", found, config=settings, seed=words.seed, data_fingerprint=chosen.fingerprint(),
            wall_time=time.monotonic() - began, device="cpu", folder=words.record,
        )  # fmt: skip
        print(f"recorded in {path}")


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
    main()
