"""Classify scikit-learn's handwritten digits with one Kuramoto layer: `python examples/digits.py`.

Each of the 8×8 pixels becomes eight oscillators of N = 4. The picture drives them, a convolution couples neighbours,
and after eight steps a linear classifier reads the state.
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import akorn


class Net(nn.Module):
    """The stimulus C from the picture, eight Kuramoto steps, a phase-invariant readout, a classifier."""

    def __init__(self, channels: int = 32, n: int = 4) -> None:
        super().__init__()
        self.stimulus = nn.Conv2d(1, channels, kernel_size=3, padding=1)
        coupling = akorn.nn.ConvCoupling(channels, kernel_size=3)
        self.layer = akorn.nn.KuramotoLayer(
            channels,
            n,
            coupling,
            omega=akorn.nn.NaturalFrequency(n),
            gamma=0.5,
            stimulus=akorn.nn.GroupNorm(channels // n, channels),  # done to c before the steps
        )
        self.readout = akorn.nn.Readout(channels, n_out=n)
        self.head = nn.Linear(channels * 16, 10)

    def forward(self, pictures: Tensor, steps: int = 8) -> Tensor:
        """Pictures [B, 1, 8, 8] → logits [B, 10]."""
        c = self.stimulus(pictures)  # [B, 32, 8, 8]
        x = self.layer(torch.randn_like(c), c, steps)  # from a random start
        features = nn.functional.adaptive_avg_pool2d(self.readout(x), 4)  # [B, 32, 4, 4]
        return self.head(features.flatten(1))


def main(epochs: int = 8) -> float:
    """Train on three quarters of the 1,797 pictures; returns the accuracy on the others, in percent."""
    torch.manual_seed(0)
    digits = load_digits()
    pictures = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 8 - 1  # [1797, 1, 8, 8], from −1 to 1
    labels = torch.tensor(digits.target)
    train, test = (torch.tensor(part) for part in train_test_split(range(len(labels)), random_state=0))
    net = Net()
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)

    def accuracy(steps: int) -> float:
        with torch.no_grad():
            right = net(pictures[test], steps).argmax(1) == labels[test]
        return 100 * right.float().mean().item()

    for epoch in range(1, epochs + 1):
        for batch in train[torch.randperm(len(train))].split(64):
            loss = nn.functional.cross_entropy(net(pictures[batch]), labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        print(f"epoch {epoch}: {accuracy(steps=8):.1f} % of {len(test)} test pictures are right")
    for steps in (2, 4, 8, 16):  # chosen when the network is called, not when it is built
        print(f"{steps:2} steps: {accuracy(steps):.1f} %")
    return accuracy(steps=8)


if __name__ == "__main__":
    main()
