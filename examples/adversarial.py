"""Adversarial pictures of AKOrN's classifier, made from drawings of our own.

    python examples/adversarial.py [OUT.png]

Every value of a picture may change by at most 64/255. The gradient is that of the last Kuramoto step of each layer,
with the state before it held fixed: gradients through all steps are lost in chaos (docs/sceptic.md). The unchanged
model then classifies the changed pictures, from random starts that the attack has not seen. It takes less than a minute
on a CPU that has nothing else to do.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch import Tensor

import akorn
from akorn.errors import AkornError
from akorn.robustness.adaptive import last_steps
from akorn.robustness.config import CLASSES
from akorn.robustness.evaluate import probabilities
from akorn.robustness.plots import plot_adversarial

KINDS = (".png", ".svg", ".pdf")
SIDE = 256  # drawings are made eight times as large as the model sees them
RED, DARK, GREY, WHITE = (185, 35, 38), (25, 25, 28), (170, 170, 170), (232, 234, 232)
GREEN, BROWN, FUR, BLUE = (75, 140, 52), (105, 60, 35), (175, 130, 85), (40, 70, 150)

DRAWINGS = {  # class → colours of the top and the bottom, then shapes: what, where, colour
    "airplane": (((90, 140, 210), (190, 215, 240)), [
        ("ellipse", (30, 112, 226, 148), WHITE), ("polygon", (110, 130, 160, 130, 90, 205, 65, 205), GREY),
        ("polygon", (120, 120, 160, 120, 110, 75, 95, 75), GREY), ("polygon", (34, 125, 66, 125, 34, 70, 18, 70), RED),
    ]),
    "automobile": (((170, 190, 205), (200, 205, 205)), [
        ("rectangle", (0, 150, 256, 256), (95, 95, 95)), ("rectangle", (22, 115, 234, 172), RED),
        ("polygon", (65, 118, 95, 75, 170, 75, 205, 118), RED),
        ("polygon", (78, 114, 102, 84, 128, 84, 128, 114), (60, 80, 100)),
        ("polygon", (136, 114, 136, 84, 164, 84, 190, 114), (60, 80, 100)),
        *((what, (x - r, 172 - r, x + r, 172 + r), c) for x in (72, 184)
          for what, r, c in (("ellipse", 26, DARK), ("ellipse", 11, GREY))),
    ]),
    "bird": (((150, 190, 225), (215, 230, 240)), [
        ("ellipse", (85, 85, 190, 175), BROWN), ("ellipse", (55, 60, 115, 120), BROWN),
        ("polygon", (58, 88, 28, 98, 58, 104), (230, 170, 40)), ("ellipse", (72, 78, 86, 92), DARK),
        ("polygon", (180, 120, 245, 110, 240, 140, 180, 150), DARK), ("rectangle", (117, 172, 123, 225), BROWN),
        ("rectangle", (143, 172, 149, 225), BROWN), ("rectangle", (0, 222, 256, 236), (80, 60, 40)),
    ]),
    "cat": (((200, 185, 165), (150, 130, 110)), [
        ("ellipse", (55, 60, 200, 205), FUR), ("polygon", (65, 95, 70, 25, 120, 70), FUR),
        ("polygon", (190, 95, 186, 25, 136, 70), FUR), ("polygon", (118, 150, 138, 150, 128, 163), (200, 110, 110)),
        *(("ellipse", (x - r, 119 - h, x + r, 119 + h), c) for x in (98, 158)
          for r, h, c in ((17, 14, (190, 210, 90)), (5, 13, DARK))),
    ]),
    "frog": (((70, 60, 40), (110, 90, 60)), [
        ("ellipse", (60, 100, 200, 205), GREEN), ("ellipse", (80, 60, 180, 140), GREEN),
        ("ellipse", (40, 165, 100, 220), (60, 115, 45)), ("ellipse", (160, 165, 220, 220), (60, 115, 45)),
        *(("ellipse", (x - r, 66 - r, x + r, 66 + r), c) for x in (98, 162) for r, c in ((17, GREEN), (9, DARK))),
    ]),
    "horse": (((160, 195, 225), (120, 160, 80)), [
        ("rectangle", (0, 180, 256, 256), (105, 145, 65)), ("ellipse", (65, 95, 210, 165), BROWN),
        ("polygon", (80, 130, 45, 60, 85, 45, 125, 110), BROWN), ("ellipse", (20, 50, 85, 88), BROWN),
        ("polygon", (85, 45, 125, 100, 112, 108, 75, 58), DARK),
        ("polygon", (203, 113, 212, 113, 236, 180, 226, 180), DARK),
        *(("rectangle", (x - 6, 155, x + 6, 228), BROWN) for x in (88, 108, 172, 192)),
    ]),
    "ship": (((140, 180, 220), (205, 222, 235)), [
        ("rectangle", (0, 150, 256, 256), (40, 80, 120)), ("polygon", (30, 140, 230, 140, 200, 185, 60, 185), RED),
        ("rectangle", (85, 100, 180, 140), WHITE), ("rectangle", (110, 72, 160, 100), WHITE),
        ("rectangle", (128, 40, 146, 75), DARK),
    ]),
    "truck": (((165, 195, 225), (215, 225, 230)), [
        ("rectangle", (0, 165, 256, 256), (110, 105, 100)), ("rectangle", (20, 50, 160, 165), WHITE),
        ("polygon", (165, 90, 205, 90, 235, 130, 235, 170, 165, 170), BLUE),
        ("polygon", (175, 98, 202, 98, 222, 128, 175, 128), (170, 205, 225)),
        *(("ellipse", (x - r, 174 - r, x + r, 174 + r), c) for x in (60, 120, 200) for r, c in ((24, DARK), (9, GREY))),
    ]),
}  # fmt: skip


def draw(name: str) -> Image.Image:
    """A drawing, 32 × 32, on a sky that changes from top to bottom, with some grain."""
    (top, bottom), shapes = DRAWINGS[name]
    down = np.linspace(0, 1, SIDE)[:, None, None]
    sky = np.broadcast_to(np.array(top) * (1 - down) + np.array(bottom) * down, (SIDE, SIDE, 3))
    picture = Image.fromarray(sky.astype(np.uint8))
    pen = ImageDraw.Draw(picture)
    for what, where, colour in shapes:
        getattr(pen, what)(where, fill=colour)
    small = np.asarray(picture.resize((32, 32), Image.Resampling.LANCZOS)).astype(float)
    grain = np.random.default_rng(0).normal(0, 4, (32, 32, 1))
    return Image.fromarray((small + grain).clip(0, 255).astype(np.uint8))


def attack(model: torch.nn.Module, images: Tensor, labels: Tensor, epsilon: float, steps: int, starts: int) -> Tensor:
    """Climb the mean loss over random starts, with gradients of the last Kuramoto steps alone."""
    x = images.clone()
    for _ in range(steps):
        x.requires_grad_()
        with last_steps(model):  # changes nothing forward
            loss = sum(F.cross_entropy(model(x), labels, reduction="sum") for _ in range(starts))
            (gradient,) = torch.autograd.grad(loss, x)
        x = (x.detach() + 2.5 * epsilon / steps * gradient.sign()).clamp(images - epsilon, images + epsilon).clamp(0, 1)
    return x


def main(out: Path = Path("adversarial.png"), steps: int = 8, starts: int = 2) -> tuple[list[str], list[str]]:
    """Attack the drawings, write the figure, and return the model's answers before and after."""
    model = akorn.create_model("cifar10-conv", pretrained=True).eval()
    pictures = np.stack([np.asarray(draw(name)) for name in DRAWINGS])
    images = torch.from_numpy(pictures).permute(0, 3, 1, 2) / 255  # [8, 3, 32, 32]
    labels = torch.tensor([CLASSES.index(name) for name in DRAWINGS])
    torch.manual_seed(0)
    changed = attack(model, images, labels, 64 / 255, steps, starts)
    generator = torch.Generator().manual_seed(1)
    before, after = (
        [CLASSES[place] for place in probabilities(model, seen, 4, generator).argmax(1)] for seen in (images, changed)
    )
    title = "our own drawings, and what at most 64/255 makes of them\nabove each the model's answer, red if it is wrong"
    plot_adversarial(images, changed, before, after, list(DRAWINGS), out, title=title)
    print(*(f"{name}: {then}" for name, then in zip(DRAWINGS, after, strict=True)), sep="\n")
    return before, after


def command(words: Sequence[str] | None = None) -> None:
    """Read the command line, then attack; what cannot be written is said before the attack, not after it."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout, allow_abbrev=False)
    parser.add_argument("out", nargs="?", type=Path, default=Path("adversarial.png"), metavar="OUT.png",
                        help="where the figure goes; by default adversarial.png")  # fmt: skip
    parser.add_argument("--steps", type=int, default=8, help="steps of the attack (8)")
    parser.add_argument("--starts", type=int, default=2, help="random starts behind each gradient (2)")
    asked = parser.parse_args(words)
    if min(asked.steps, asked.starts) < 1:
        raise AkornError(f"--steps and --starts must be at least 1, got {asked.steps} and {asked.starts}")
    if asked.out.suffix.lower() not in KINDS:
        raise AkornError(f"{asked.out}: the figure's name must end in {', '.join(KINDS)}")
    if not asked.out.absolute().parent.is_dir():
        raise AkornError(f"{asked.out}: there is no folder {asked.out.parent}")
    main(asked.out, asked.steps, asked.starts)


if __name__ == "__main__":
    try:
        command()
    except AkornError as error:
        print(f"adversarial: {error}", file=sys.stderr)
        sys.exit(2)
