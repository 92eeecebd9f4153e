"""Draw the page's pictures, attack them, and write the pictures and the answers to them into the page's folder.

    python benchmarks/web_attacks.py [--record results]

The attack is `pgd-adaptive` of `akorn eval` at the tables' budget: 50 steps within ±8/255, gradients of the last
Kuramoto steps alone, in the mean over 20 starts. Adversarial pictures are rounded to bytes, as the page shows them, and
classified as `akorn classify` does, from starts that the attack has not seen. It takes a quarter of an hour on one CPU
core. With `--keep` the attacked pictures stay and only the model's answers are computed again, which takes seconds.
"""

import argparse
import hashlib
import json
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from web_drawings import DRAWINGS, drawn

from akorn.ledger import write_record
from akorn.robustness.adaptive import last_steps
from akorn.robustness.attacks import PGD
from akorn.robustness.classifier import Classifier
from akorn.robustness.config import CLASSES
from akorn.robustness.evaluate import as_float, asked
from akorn.robustness.protocol import EOT, EPSILON, STEPS
from akorn.runtime.files import replacing
from akorn.runtime.randomness import derive_seed
from akorn.web.server import STATIC

FOLDER = STATIC / "pictures" / "drawn"
MODEL = "cifar10-conv"
STARTS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--eot", type=int, default=EOT)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--keep", action="store_true", help="keep the attacked pictures, and only answer again")
    parser.add_argument("--record", type=Path)
    words = parser.parse_args()
    began = time.monotonic()
    names = list(DRAWINGS)
    clean = torch.stack([as_bytes(drawn(name)) for name in names])
    labels = torch.tensor([CLASSES.index(name) for name in names])
    classifier = Classifier.from_pretrained(MODEL, "cpu")
    before = chances(classifier, clean, words.seed)
    if words.keep:
        attacked = torch.stack([as_bytes(Image.open(words.out / f"{name}-attacked.png")) for name in names])
    else:
        generator = torch.Generator().manual_seed(derive_seed(words.seed, "web-attacks"))
        attack = PGD(EPSILON, words.steps, words.eot, at_once=len(names))
        with asked(classifier.model), last_steps(classifier.model):
            found = attack(classifier.model, as_float(clean), labels, generator)
        attacked = (255 * found).round().to(torch.uint8)
    furthest = int((attacked.int() - clean.int()).abs().max())
    assert furthest <= round(255 * EPSILON), furthest
    after = chances(classifier, attacked, words.seed)
    words.out.mkdir(exist_ok=True)
    for name, *both in zip(names, clean, attacked, strict=True):
        for picture, ending in zip(both, ("", "-attacked"), strict=True):
            Image.fromarray(picture.permute(1, 2, 0).numpy()).save(words.out / f"{name}{ending}.png", optimize=True)
    told = {
        "model": MODEL, "attack": "pgd-adaptive", "epsilon": round(255 * EPSILON), "steps": words.steps,
        "eot": words.eot, "starts": STARTS, "seed": words.seed,
        "pictures": [
            {"name": name, "clean": one, "attacked": other}
            for name, one, other in zip(names, before, after, strict=True)
        ],
    }  # fmt: skip
    with replacing(words.out / "attacks.json") as temporary:
        temporary.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    for name, one, other in zip(names, before, after, strict=True):
        print(f"{name:10s} {said(one):18s} → attacked {said(other)}")
    if words.record is not None:
        rows = zip(names, before, after, strict=True)
        right = [(best(one) == name, best(other) == name) for name, one, other in rows]
        scores = {
            "clean": 100 * float(np.mean([one for one, _ in right])),
            "pgd_adaptive": 100 * float(np.mean([other for _, other in right])),
        }
        settings = {key: value for key, value in told.items() if key != "pictures"} | {"kept": words.keep}
        path = write_record(
            "bench", "web-attacks", scores, config=settings, seed=words.seed,
            data_fingerprint=hashlib.sha256(clean.numpy().tobytes()).hexdigest(),
            wall_time=time.monotonic() - began, device="cpu", folder=words.record,
        )  # fmt: skip
        print(f"recorded in {path}")


def as_bytes(picture: Image.Image) -> Tensor:
    """uint8 [3, 32, 32]."""
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous()


def chances(classifier: Classifier, pictures: Tensor, seed: int) -> list[list[float]]:
    """The classes' probabilities, in the order of CLASSES, as `akorn classify` gives them."""
    answers = [dict(answer.ranking) for answer in classifier.classify(pictures, STARTS, seed)]
    return [[round(answer[name], 5) for name in CLASSES] for answer in answers]


def best(chance: list[float]) -> str:
    return CLASSES[int(np.argmax(chance))]


def said(chance: list[float]) -> str:
    return f"{best(chance)} {100 * max(chance):.1f} %"


if __name__ == "__main__":
    main()
