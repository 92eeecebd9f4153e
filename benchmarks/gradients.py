"""How far gradients of CIFAR-10 classifiers can be trusted: cosines and shares of right answers, in percent.

    python benchmarks/gradients.py --data cifar-10-batches-py [--untrained] [--record results]

- The shipped model's gradients with respect to the picture, as cosines. At two pictures a quarter of a grey level
  apart, each gradient the mean over the same 20 starts: through all Kuramoto steps, and through the last ones alone. At
  the same picture: between two starts, and between two means over 20 starts. All are means over pictures.
- Where the gradients of one start lead: the share of --batch pictures that are right from that start, before and after
  50 steps of PGD at it, and the same two shares from three other starts.
- The gradients with respect to the weights, which training follows: the cosine between two starts, for each part of the
  model, of the mean over --batch pictures, through all steps and through the last ones alone.
- Untrained models, three seeds each: the first cosine, from one start. With --untrained only these are measured.
"""

import argparse
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from akorn.ledger import write_record
from akorn.models import load_model, training_of
from akorn.nn import KuramotoLayer, Store
from akorn.robustness.adaptive import last_steps
from akorn.robustness.attacks import PGD, gradient_agreement, start_agreement
from akorn.robustness.config import AkornConfig, ItrConvConfig, ModelConfig, ResNetConfig
from akorn.robustness.data import load_cifar10
from akorn.robustness.evaluate import as_float, asked, fixed_start, sample
from akorn.robustness.model import CifarNet, build

EOT = 20
PARTS = ("stem", *(f"body.{part}" for part in (
    "blocks.0.layer", "blocks.0.readout", "transitions.0", "blocks.1.layer", "blocks.1.readout", "transitions.1",
    "blocks.2.layer", "blocks.2.readout",
)), "head")  # fmt: skip
UNTRAINED: dict[str, ModelConfig] = {
    "AKOrN-conv": AkornConfig(),
    "AKOrN-conv, γ = 0.5": AkornConfig(gamma=0.5),
    "AKOrN-conv, γ = 0.1": AkornConfig(gamma=0.1),
    "AKOrN-conv without Proj": AkornConfig(rule="without-projection"),
    "AKOrN-conv without Proj, γ = 0.5": AkornConfig(rule="without-projection", gamma=0.5),
    "AKOrN-conv without Proj, γ = 0.1": AkornConfig(rule="without-projection", gamma=0.1),
    "ItrConv": ItrConvConfig(),
    "ResNet-18": ResNetConfig(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="cifar10-conv")
    parser.add_argument("--pictures", type=int, default=20)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--untrained", action="store_true", help="measure untrained models only")
    parser.add_argument("--record", type=Path)
    words = parser.parse_args()
    began = time.monotonic()
    pictures = load_cifar10(words.data, "test")
    few = pictures.take(sample(len(pictures), words.pictures, words.seed))
    images, labels = as_float(few.images), few.labels
    found: dict[str, float] = {}

    def tell(name: str, cosines: Tensor) -> None:
        found[name] = 100 * float(cosines.mean())
        print(f"{found[name]:6.1f} %  {name}", flush=True)

    def draws() -> torch.Generator:
        return torch.Generator().manual_seed(words.seed)

    def of_the_trained(model: CifarNet) -> None:
        for layer in model.modules():
            if isinstance(layer, KuramotoLayer):
                layer.gradients = Store()  # through all steps, however it was trained
        with asked(model):
            tell(f"trained/nearby, EoT {EOT}", gradient_agreement(model, images, labels, EOT, draws()))
            tell("trained/between starts", start_agreement(model, images, labels, 1, draws()))
            tell(f"trained/between means over {EOT}", start_agreement(model, images, labels, EOT, draws()))
            with last_steps(model):
                tell(f"trained/last steps, nearby, EoT {EOT}", gradient_agreement(model, images, labels, EOT, draws()))
        batch = pictures.take(sample(len(pictures), words.batch, words.seed))
        for name, right in at_one_start(model, as_float(batch.images), batch.labels, words.seed).items():
            tell(f"trained/right, {name}", right)
        for name, cosine in of_weights(model, as_float(batch.images), batch.labels, words.seed).items():
            tell(f"trained/weights between starts/{name}", cosine)
        with last_steps(model):
            for name, cosine in of_weights(model, as_float(batch.images), batch.labels, words.seed).items():
                tell(f"trained/weights between starts, last steps/{name}", cosine)

    if not words.untrained:
        trained = load_model(words.model)
        assert isinstance(trained, CifarNet)
        of_the_trained(trained)
    for name, config in UNTRAINED.items():
        for seed in range(3):
            torch.manual_seed(seed)
            net = build(config)
            with asked(net):
                cosines = gradient_agreement(net, images, labels, 1, draws())
            tell(f"untrained/{name}/seed {seed}", cosines)
    if words.record:
        config_of: dict[str, object] = {"pictures": len(labels), "distance": "0.25/255"}
        if not words.untrained:
            config_of |= {"model": words.model, "batch": words.batch, "eot": EOT}
            config_of["training"] = training_of(words.model)
        name = "gradients-untrained" if words.untrained else "gradients"
        path = write_record(
            "bench", name, found, config=config_of, seed=words.seed, data_fingerprint=few.fingerprint(),
            wall_time=time.monotonic() - began, device="cpu", folder=words.record,
        )  # fmt: skip
        print(f"recorded in {path}")


def at_one_start(model: CifarNet, images: Tensor, labels: Tensor, seed: int) -> dict[str, Tensor]:
    """Which answers are right, 1 or 0 each: on the pictures themselves, and after PGD at one fixed start."""

    @torch.no_grad()
    def right(pictures: Tensor, start: int) -> Tensor:
        with fixed_start(model, start):
            return (model(pictures).argmax(1) == labels).float()

    with asked(model):
        with fixed_start(model, seed):
            changed = PGD(eot=1)(model, images, labels, torch.Generator().manual_seed(seed))
        others = range(seed + 1, seed + 4)
        return {
            "one start": right(images, seed),
            "one start, after PGD": right(changed, seed),
            "other starts": torch.stack([right(images, start) for start in others]),
            "other starts, after that PGD": torch.stack([right(changed, start) for start in others]),
        }


def of_weights(model: CifarNet, images: Tensor, labels: Tensor, seed: int) -> dict[str, Tensor]:
    """The cosine between the weights' gradients from two starts, part by part, in training mode."""
    found: list[dict[str, Tensor]] = []
    kept = {name: value.clone() for name, value in model.state_dict().items()}  # BatchNorm's statistics move
    model.train()
    for start in range(2):
        model.zero_grad()
        F.cross_entropy(model(images, torch.Generator().manual_seed(seed + start)), labels).backward()
        named = [(name, p.grad.flatten()) for name, p in model.named_parameters() if p.grad is not None]
        found.append({part: torch.cat([g for name, g in named if name.startswith(part)]) for part in PARTS})
    model.zero_grad()
    model.eval()
    model.load_state_dict(kept)
    return {part: F.cosine_similarity(found[0][part], found[1][part], 0) for part in PARTS}


if __name__ == "__main__":
    main()
