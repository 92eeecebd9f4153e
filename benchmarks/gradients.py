"""How far gradients of CIFAR-10 classifiers lead: cosines between gradients, in percent, in the mean over pictures.

    python benchmarks/gradients.py --data cifar-10-batches-py [--record results]

Of the shipped model: at pictures a quarter of a grey level apart, with the same 20 starts behind each gradient, and
with the gradients of the last Kuramoto steps alone; at one picture, between two starts and between two means over 20.
Of untrained models, three seeds each: a quarter of a grey level apart, from one start.
"""

import argparse
import time
from pathlib import Path

import torch
from torch import Tensor

from akorn.engine import write_record
from akorn.models import load_model
from akorn.robustness.adaptive import last_steps
from akorn.robustness.attacks import gradient_agreement, start_agreement
from akorn.robustness.config import AkornConfig, ItrConvConfig, ModelConfig, ResNetConfig
from akorn.robustness.data import load_cifar10
from akorn.robustness.evaluate import as_float, asked, sample
from akorn.robustness.model import CifarNet, build

EOT = 20
UNTRAINED: dict[str, ModelConfig] = {
    "AKOrN-conv": AkornConfig(),
    "AKOrN-conv, γ = 0.1": AkornConfig(gamma=0.1),
    "ItrConv": ItrConvConfig(),
    "ResNet-18": ResNetConfig(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="cifar10-conv")
    parser.add_argument("--pictures", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path)
    words = parser.parse_args()
    began = time.monotonic()
    pictures = load_cifar10(words.data, "test")
    few = pictures.take(sample(len(pictures), words.pictures, words.seed))
    images, labels = as_float(few.images), few.labels
    model = load_model(words.model)
    assert isinstance(model, CifarNet)
    found: dict[str, float] = {}

    def tell(name: str, cosines: Tensor) -> None:
        found[name] = 100 * float(cosines.mean())
        print(f"{found[name]:6.1f} %  {name}", flush=True)

    def draws() -> torch.Generator:
        return torch.Generator().manual_seed(words.seed)

    with asked(model):
        tell(f"trained/nearby, EoT {EOT}", gradient_agreement(model, images, labels, EOT, draws()))
        tell("trained/between starts", start_agreement(model, images, labels, 1, draws()))
        tell(f"trained/between means over {EOT}", start_agreement(model, images, labels, EOT, draws()))
        with last_steps(model):
            tell(f"trained/last steps, nearby, EoT {EOT}", gradient_agreement(model, images, labels, EOT, draws()))
    for name, config in UNTRAINED.items():
        for seed in range(3):
            torch.manual_seed(seed)
            net = build(config)
            with asked(net):
                cosines = gradient_agreement(net, images, labels, 1, draws())
            tell(f"untrained/{name}/seed {seed}", cosines)
    if words.record:
        config_of = {"model": words.model, "pictures": len(labels), "eot": EOT, "distance": "0.25/255"}
        path = write_record(
            "bench", "gradients", found, config=config_of, seed=words.seed, data_fingerprint=few.fingerprint(),
            wall_time=time.monotonic() - began, device="cpu", folder=words.record,
        )  # fmt: skip
        print(f"recorded in {path}")


if __name__ == "__main__":
    main()
