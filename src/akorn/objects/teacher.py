"""Self-distillation: the student says of a view what its teacher, the moving average of its weights, says of another.

L = −Σ_k q_k log p_k,    p = softmax(cos(z − z̄, prototypes)/τ) of the student,    q = assignments of the teacher

z̄ is the mean over the batch. At first all patches look nearly the same to a network, and what they have in common hides
how they differ; later all could end at one prototype. q has no gradient, and is balanced besides. Patches can be
contrasted with those of other pictures instead. `TeacherConfig` has the settings. Shapes never depend on data, so that
a step can be recorded as a CUDA graph.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from akorn.augment.config import AugmentConfig
from akorn.augment.views import Located, located_views
from akorn.engine.contrastive import gather_with_gradient
from akorn.objects.contrast import balanced, paired_contrast, pick, projection
from akorn.objects.net import ObjectsNet, as_tokens
from akorn.objects.places import Grid, matches_between
from akorn.objects.teacher_config import TeacherConfig


class TeacherParts(nn.Module):
    """What student and teacher have besides the model: heads, prototypes, and the vector of hidden patches.

    The terms of patches, `hidden` and `places`, share their head and prototypes.
    """

    def __init__(self, channels: int, config: TeacherConfig) -> None:
        super().__init__()
        self.config = config
        wanted = {"pictures": config.pictures, "patches": config.hidden or config.places}
        kinds = [kind for kind, weight in wanted.items() if weight]
        self.heads = nn.ModuleDict({kind: projection(channels) for kind in kinds})
        self.prototypes = nn.ParameterDict()
        for kind in kinds:
            if kind == "pictures" or config.agree == "prototypes":
                self.prototypes[kind] = torch.randn(config.prototype_count, channels)
        self.token = nn.Parameter(torch.zeros(channels)) if config.hidden else None


class Seen(NamedTuple):
    """What the student sees of a batch of B pictures: two views of each, the crops, and views with hidden patches."""

    images: Tensor
    """[V, C, H, W]: all first views, all second ones, all first crops and so on, then those with hidden patches."""
    apart: list[Located]
    """The views and the crops, each with B pictures."""
    hidden: Tensor
    """[H, h·w], bool: patches whose content is hidden, in the last H of the images, which are the first H views."""


Rows = tuple[Tensor, Tensor, Tensor]
"""The student's and the teacher's features that belong together, [B, S, C] each, and which pairs count, [B, S]."""


def taught(
    student: ObjectsNet,
    teacher: ObjectsNet,
    images: Tensor,
    views: Located,
    augment: AugmentConfig,
    temperature: float,
    generator: torch.Generator,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The student's features of two views of each picture [2·B, C, h, w], and the terms with a weight, by name."""
    config, both = _parts(student).config, len(views.images)
    with torch.no_grad():
        seen = look(images, views, student, augment, generator)
        known = teacher.features(views.images, None, generator)  # [2·B, C, h, w]
    features = _features(student, seen, generator)  # [V, C, h, w]
    clear, again = len(features) - len(seen.hidden), len(seen.hidden)
    tokens, theirs = as_tokens(features), as_tokens(known)  # [V, h·w, C], [2·B, h·w, C]
    ours, by_teacher = (each.unflatten(0, (-1, len(images))) for each in (tokens[:clear], theirs))  # [views, B, h·w, C]
    rows: dict[str, Rows] = {}
    if config.pictures:
        rows["pictures"] = _pictures(ours, by_teacher)
    if config.hidden:
        rows["hidden"] = _hidden(tokens[clear:], theirs[:again], seen.hidden, config, generator)
    if config.places:
        rows["places"] = _places(ours, by_teacher, seen.apart, student.grid, config, generator)
    found = {name: _compared(student, teacher, name, each, temperature) for name, each in rows.items()}
    return features[:both], found


def look(images: Tensor, views: Located, model: ObjectsNet, augment: AugmentConfig, generator: torch.Generator) -> Seen:
    """Draw the crops and the hidden patches of a batch of pictures and their two views."""
    config, apart = _parts(model).config, views.apart()
    if config.crops:
        smaller, size = replace(augment, scale=config.crop_scale), (views.images.shape[2], views.images.shape[3])
        crops = located_views(images, smaller, generator, size=size, copies=config.crops)
        apart += crops.apart(config.crops)
    seen = torch.cat([each.images for each in apart])
    if not config.hidden:
        return Seen(seen, apart, torch.zeros(0, model.grid[0] * model.grid[1], dtype=torch.bool, device=seen.device))
    again = max(1, round(config.hide * len(images)))
    hidden = hidden_blocks(again, model.grid, config.blocks, generator)
    return Seen(torch.cat((seen, views.images[:again])), apart, hidden)


def hidden_blocks(count: int, grid: Grid, share: tuple[float, float], generator: torch.Generator) -> Tensor:
    """Which patches of views are hidden: [count, h·w], bool.

    A share of the patches, drawn from the range, where smoothed noise is largest: so they lie together.
    """
    shares = torch.rand(count, 1, generator=generator, device=generator.device)
    noise = torch.rand(count, 1, grid[0] + 4, grid[1] + 4, generator=generator, device=generator.device)
    smooth = F.avg_pool2d(noise, 5, 1).flatten(1)  # [count, h·w]
    number = (smooth.shape[1] * (share[0] + (share[1] - share[0]) * shares)).round()
    return smooth.argsort(1, descending=True).argsort(1) < number


def _features(model: ObjectsNet, seen: Seen, generator: torch.Generator) -> Tensor:
    """The student's features [V, C, h, w] of what it sees; hidden patches are replaced by a learned vector."""
    token = _parts(model).token
    if token is None:
        return model.features(seen.images, None, generator)
    none = seen.hidden.new_zeros(len(seen.images) - len(seen.hidden), seen.hidden.shape[1])
    where = torch.cat((none, seen.hidden)).unflatten(1, model.grid)[:, None]  # [V, 1, h, w]
    instead = token[None, :, None, None]
    return model.features(seen.images, None, generator, lambda c: torch.where(where, instead.to(c.dtype), c))


def _pictures(tokens: Tensor, theirs: Tensor) -> Rows:
    """Whole pictures, of tokens [views, B, h·w, C]: their maximum over the patches, as in SimCLR."""
    pairs = _pairs(len(tokens))
    ours, known = tokens.amax(2), theirs.amax(2)  # [views, B, C]
    first, second = torch.stack([ours[a] for a, _ in pairs], 1), torch.stack([known[b] for _, b in pairs], 1)
    return first, second, torch.ones_like(first[:, :, 0], dtype=torch.bool)


def _hidden(tokens: Tensor, theirs: Tensor, hidden: Tensor, config: TeacherConfig, generator: torch.Generator) -> Rows:
    """Hidden patches, drawn at random, of tokens [H, h·w, C] of as many pictures; hidden: [H, h·w]."""
    keys = torch.rand(hidden.shape, generator=generator, device=hidden.device) + hidden.float()
    chosen = keys.topk(min(config.samples, keys.shape[1]), dim=1).indices  # [H, samples], hidden ones first
    return pick(tokens, chosen), pick(theirs, chosen), hidden.gather(1, chosen)


def _places(
    tokens: Tensor, theirs: Tensor, views: list[Located], grid: Grid, config: TeacherConfig, generator: torch.Generator
) -> Rows:
    """Patches, drawn at random, that another view shows too, of tokens [views, B, h·w, C]."""
    rows = []
    for ours, other in _pairs(len(views)):
        here, there, inside = matches_between(views[ours], views[other], grid, config.samples, generator)
        rows.append((pick(tokens[ours], here), pick(theirs[other], there), inside))
    first, second, inside = (torch.cat(column, 1) for column in zip(*rows, strict=True))
    return first, second, inside


def _compared(student: ObjectsNet, teacher: ObjectsNet, term: str, rows: Rows, temperature: float) -> Tensor:
    """The loss of a term."""
    ours, parts, (first, second, valid) = _parts(student), _parts(teacher), rows
    kind = "pictures" if term == "pictures" else "patches"
    first = ours.heads[kind](first).float()
    with torch.no_grad():
        second = parts.heads[kind](second).float()
    if kind not in ours.prototypes:
        return paired_contrast(first, second, valid, temperature, within=False)
    return distilled(first, second, valid, ours.prototypes[kind], parts.prototypes[kind], temperature, ours.config)


def distilled(
    student: Tensor,
    teacher: Tensor,
    valid: Tensor,
    prototypes: Tensor,
    teachers: Tensor,
    temperature: float,
    config: TeacherConfig,
) -> Tensor:
    """Cross-entropy of the student's prototypes with the teacher's assignments, of pairs [B, S, D]; a scalar.

    valid: [B, S], the pairs that count. prototypes, teachers: the student's and the teacher's, [K, D].
    """
    with torch.autocast(student.device.type, enabled=False):
        both = torch.stack((student.float(), teacher.detach().float()), 2)  # [B, S, 2, D]
        both = gather_with_gradient(both).flatten(0, 1)  # [B·S of all, 2, D]
        weight = gather_with_gradient(valid.float()).flatten()  # [B·S]
        both = both - (both * weight[:, None, None]).sum(0) / weight.sum().clamp(min=1)
        first, second = F.normalize(both, dim=2).unbind(1)  # [B·S, D] each
        logs = F.log_softmax(first @ F.normalize(prototypes.float(), dim=1).T / temperature, 1)
        with torch.no_grad():
            scores = second @ F.normalize(teachers.float(), dim=1).T  # [B·S, K]
            assigned = (
                balanced(scores, weight, config.temperature)
                if config.balance
                else (scores / config.temperature).softmax(1)
            )
        return -((assigned * logs).sum(1) * weight).sum() / weight.sum().clamp(min=1)


def _parts(model: ObjectsNet) -> TeacherParts:
    return cast(TeacherParts, cast(nn.Module, model.extras).teacher)


def _pairs(views: int) -> list[tuple[int, int]]:
    """The student's views (two, then the crops) and the teacher's two that are compared: never a view with itself."""
    return [(ours, theirs) for ours in range(views) for theirs in range(2) if ours != theirs]
