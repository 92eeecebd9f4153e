"""Optimisers from their config, and their state as named tensors."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from akorn.engine.config import OptimiserConfig
from akorn.engine.muon import Muon
from akorn.errors import AkornError


def build(config: OptimiserConfig, model: nn.Module) -> Optimizer:
    """Return the optimiser of the model's trainable parameters, in its fused form (one kernel for all of them)."""
    parameters = trainable(model)
    if not parameters:
        raise AkornError("the model has no trainable parameters")
    lr, decay = config.learning_rate, config.weight_decay
    if config.name == "adam":
        return torch.optim.Adam(parameters, lr=lr, betas=config.betas, weight_decay=decay, fused=True)
    if config.name == "adamw":
        return torch.optim.AdamW(parameters, lr=lr, betas=config.betas, weight_decay=decay, fused=True)
    if config.name == "muon":
        return Muon(
            parameters,
            matrices(model),
            lr=lr,
            betas=config.betas,
            weight_decay=decay,
        )
    return torch.optim.SGD(parameters, lr=lr, momentum=config.momentum, weight_decay=decay, fused=True)


def matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the weights of the linear maps, except those onto fewer than 32 channels, such as a head's."""
    chosen = {id(part.weight) for part in model.modules() if isinstance(part, nn.Linear)}
    return [p for p in trainable(model) if id(p) in chosen and min(p.shape) >= 32]


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that training changes, in a fixed order."""
    return [p for p in model.parameters() if p.requires_grad]


def state_tensors(optimiser: Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Return the optimiser's state as "exp_avg/blocks.0.weight" → tensor. Parameters without a state have none."""
    names = _names(model)
    state: dict[int, dict[str, object]] = optimiser.state_dict()["state"]
    return {
        f"{key}/{names[index]}": value
        for index, entries in state.items()
        for key, value in entries.items()
        if isinstance(value, Tensor)
    }


def load_state_tensors(optimiser: Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Restore what `state_tensors` returned; a state that does not match the model is refused."""
    names = _names(model)
    index = {name: i for i, name in enumerate(names)}
    parameters = trainable(model)
    shapes = [p.shape for p in parameters]
    state: dict[int, dict[str, Tensor]] = {}
    for full, tensor in tensors.items():
        key, _, name = full.partition("/")
        if name not in index:
            raise AkornError(f"the optimiser's state names {name!r}, which is not a trainable parameter of this model")
        if key != "step" and tensor.shape != shapes[index[name]]:
            expected = list(shapes[index[name]])
            raise AkornError(f"the optimiser's {full!r} has shape {list(tensor.shape)}, expected {expected}")
        if key != "step":  # in the parameter's memory layout, as fused optimisers require
            tensor = torch.empty_like(parameters[index[name]].detach(), device=tensor.device).copy_(tensor)
        state.setdefault(index[name], {})[key] = tensor
    alike = {id(p) for p in matrices(model)} if isinstance(optimiser, Muon) else set()
    needed: dict[bool, set[str]] = {}
    for number, parts in state.items():
        needed.setdefault(id(parameters[number]) in alike, set()).update(parts)
    for number, parts in state.items():
        if missing := sorted(needed[id(parameters[number]) in alike] - parts.keys()):
            raise AkornError(f"the optimiser's state lacks '{missing[0]}/{names[number]}'")
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def _names(model: nn.Module) -> list[str]:
    return [name for name, p in model.named_parameters() if p.requires_grad]
