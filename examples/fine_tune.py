"""Fine-tune the shipped CIFAR-10 classifier to other classes: `python examples/fine_tune.py`.

The pictures are drawn here: a disc, a square or a cross of any colour and size on any background, 32×32. First the new
head learns on the frozen features of the shipped weights, then the whole network at a lower rate.
"""

import torch
from torch import Tensor, nn

import akorn

NAMES = ("disc", "square", "cross")


def draw(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """`count` pictures [count, 3, 32, 32] with values from 0 to 1, and their classes [count]."""
    labels = torch.arange(count) % len(NAMES)
    size = torch.empty(count, 1, 1).uniform_(5, 10, generator=generator)  # half of a side
    place = torch.empty(count, 2, 1, 1).uniform_(11, 21, generator=generator)
    rows, columns = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
    y, x = (rows - place[:, 0]).abs(), (columns - place[:, 1]).abs()  # [count, 32, 32]: distances from the middle
    disc, square = (x**2 + y**2).sqrt() < size, torch.maximum(x, y) < size
    cross = square & (torch.minimum(x, y) < size / 3)
    shapes = torch.stack((disc, square, cross))[labels, torch.arange(count)]  # [count, 32, 32]
    colour, background = torch.rand(2, count, 3, 1, 1, generator=generator)
    pictures = torch.where(shapes[:, None], colour, background)
    return (pictures + 0.05 * torch.randn(pictures.shape, generator=generator)).clamp(0, 1), labels


def accuracy(model: nn.Module, pictures: Tensor, labels: Tensor) -> float:
    """How many are right, in percent; all pictures start from the same oscillators."""
    model.eval()
    with torch.no_grad():
        logits = torch.cat([model(batch, start_seed=0) for batch in pictures.split(32)])
    return 100 * (logits.argmax(1) == labels).float().mean().item()


def main(train: int = 144, test: int = 96) -> tuple[float, float]:
    """The accuracy on the test pictures, in percent: with the new head trained, and with the whole network trained."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    pictures, labels = draw(train, generator)
    unseen = draw(test, generator)
    model = akorn.create_model("cifar10-conv", pretrained=True, num_classes=len(NAMES), seed=0)

    with torch.no_grad():  # the body is frozen, so its features are computed only once
        features = torch.cat([model.embed(batch) for batch in pictures.split(32)])  # [train, 256]
    optimiser = torch.optim.AdamW(model.head.parameters(), lr=1e-2)
    for _ in range(200):
        loss = nn.functional.cross_entropy(model.head(features), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    head = accuracy(model, *unseen)
    print(f"new head, trained on {train} pictures: {head:.1f} % of {test} test pictures are right; chance is 33.3 %")

    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for batch in torch.randperm(train).split(24):
        loss = nn.functional.cross_entropy(model(pictures[batch]), labels[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    whole = accuracy(model, *unseen)
    print(f"whole network, trained on them once more: {whole:.1f} %")
    return head, whole


if __name__ == "__main__":
    main()
