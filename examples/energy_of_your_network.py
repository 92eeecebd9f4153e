"""Watch the energy of your own network, step by step: `python examples/energy_of_your_network.py`.

`record` finds the Kuramoto layers of any network and writes down E = −½ xᵀJx − cᵀx before each of their steps, without
a change to the network. Where J is symmetric and the step small, the energy falls (the paper's appendix); where J is
not, nothing makes it fall. Writes a plot to energy.png.
"""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import akorn


class Net(nn.Module):
    """A network as you may have one: two Kuramoto layers with local coupling, one behind the other."""

    def __init__(self, symmetric: bool, channels: int = 32, n: int = 4) -> None:
        super().__init__()
        self.stimulus = nn.Conv2d(3, channels, kernel_size=4, stride=4)
        self.first, self.second = (
            akorn.nn.KuramotoLayer(channels, n, akorn.nn.ConvCoupling(channels, 5, symmetric=symmetric), gamma=0.2)
            for _ in range(2)
        )
        self.readout = nn.Sequential(akorn.nn.Readout(channels, n_out=n), nn.Conv2d(channels, channels, kernel_size=1))

    def forward(self, pictures: Tensor, steps: int = 128) -> Tensor:
        """[B, 3, H, W] → [B, 32, H/4, W/4]."""
        c = self.stimulus(pictures)  # [B, 32, H/4, W/4]
        x = self.first(torch.randn_like(c), c, steps)
        c = self.readout(x)  # what the first layer found drives the second
        return self.second(torch.randn_like(c), c, steps)


def record(network: nn.Module, *inputs: Any) -> dict[str, Tensor]:
    """The energies of each Kuramoto layer while `network(*inputs)` runs: its name → [steps, B]."""
    layers = {name: part for name, part in network.named_modules() if isinstance(part, akorn.nn.KuramotoLayer)}
    energies: dict[str, Tensor] = {}

    def listen(name: str) -> Any:
        def again(layer: akorn.nn.KuramotoLayer, args: Any, kwargs: Any) -> None:  # the same steps, with energies
            energies[name] = layer.evolve(*args, **kwargs, energy=akorn.oscillators.energy).energies

        return again

    hooks = [layer.register_forward_pre_hook(listen(name), with_kwargs=True) for name, layer in layers.items()]
    with torch.no_grad():
        network(*inputs)
    for hook in hooks:
        hook.remove()
    return energies


def plot(runs: dict[str, dict[str, Tensor]]) -> Figure:
    """One row for each layer: the energy, and by how much it changes in each step; one line for each picture."""
    names = list(next(iter(runs.values())))
    figure, panels = plt.subplots(len(names), 2, figsize=(8, 5), sharex=True, squeeze=False, layout="constrained")
    for (energy, change), name in zip(panels, names, strict=True):
        for colour, (title, energies) in zip(("tab:blue", "tab:orange"), runs.items(), strict=True):
            lines = energy.plot(energies[name], color=colour, alpha=0.6)
            lines[0].set_label(title)
            change.plot(energies[name].diff(dim=0), color=colour, alpha=0.6)
        energy.set(title=f"layer {name!r}: energy")
        change.set(title="its change in each step", yscale="symlog")
        change.axhline(0, color="black", linewidth=0.8)
    for panel in panels[-1]:
        panel.set_xlabel("step")
    panels[0, 0].legend()
    return figure


def main(steps: int = 128, out: str | Path = "energy.png") -> dict[str, dict[str, int]]:
    """Record, print and plot; returns for each network and layer how often the energy rose."""
    torch.manual_seed(0)
    pictures = 2 * torch.rand(8, 3, 64, 64) - 1
    runs: dict[str, dict[str, Tensor]] = {}
    rises: dict[str, dict[str, int]] = {}
    for title, symmetric in (("J symmetric", True), ("J not symmetric", False)):
        network = Net(symmetric)
        print(f"{title}: {akorn.theory.layer_conditions(network.first, torch.zeros(1, 32, 5, 5))}")
        runs[title] = record(network, pictures, steps)
        rises[title] = {}
        for name, energies in runs[title].items():
            rises[title][name] = int((energies.diff(dim=0) > 1e-3).sum())
            of = energies[1:].numel()
            print(f"  layer {name!r}: mean energy {energies[0].mean():.0f} → {energies[-1].mean():.0f}", end="; ")
            print(f"it rose in {rises[title][name]} of {of} steps")
    plot(runs).savefig(out, dpi=100)
    print(f"wrote {out}")
    return rises


if __name__ == "__main__":
    main()
