"""Settings of self-distillation. Imports no torch, so that `--help` is fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from akorn.engine.config import EmaConfig
from akorn.errors import AkornError

TERMS = ("pictures", "hidden", "places")


@dataclass(frozen=True)
class TeacherConfig:
    """Self-distillation: terms with these weights ask the model for what its teacher says.

    The teacher is the moving average of the weights (`train.ema`), which must begin with the run (`train.ema.after 0`).
    It sees both views of a picture, whole, and assigns them and their patches to prototypes. The finished model is the
    teacher too, or with `train.weights last` the student.
    """

    pictures: float = 0.0
    """Whole pictures: a view is assigned to the prototypes to which the teacher assigns the other view (as in DINO)."""
    hidden: float = 0.0
    """Hidden patches are assigned to the prototypes to which the teacher, which sees them, assigns them (as in iBOT).
    The other terms see no view with hidden patches."""
    places: float = 0.0
    """Patches that show the same place of a picture: the student's in one view, the teacher's in another."""
    agree: Literal["prototypes", "contrast"] = "prototypes"
    """How `hidden` and `places` compare patches: by prototypes, or with other pictures' patches as negatives (NT-Xent),
    which needs memory for all pairs of them: take few `samples`."""
    crops: int = 0
    """Further, smaller views of each picture for the student alone, in `pictures` and `places`. Each costs about half
    as much as the two views do."""
    crop_scale: tuple[float, float] = (0.05, 0.25)
    """The range of such a crop's share of the picture's area."""
    hide: float = 0.5
    """The share of the pictures whose first view the student sees once more, with hidden patches."""
    blocks: tuple[float, float] = (0.1, 0.5)
    """The range of the share of patches that is hidden there, in connected blocks."""
    samples: int = 32
    """Patches per view that `hidden` and `places` compare."""
    prototype_count: int = 512
    temperature: float = 0.05
    """Temperature of the teacher's assignments; the student's is `temperature` of the recipe."""
    balance: bool = True
    """Balance the teacher's assignments over the batch, so that every prototype is chosen about as often as any other
    (Sinkhorn). Without it they are sharper, and nothing but the mean that is subtracted keeps all from being alike."""

    @property
    def used(self) -> bool:
        """Whether the loss has a term with a teacher."""
        return any(getattr(self, name) for name in TERMS)


def check_teacher(teacher: TeacherConfig) -> None:
    """Refuse impossible weights and numbers."""
    t = teacher
    rules: list[tuple[str, object, bool, str]] = [
        *((name, getattr(t, name), 0 <= getattr(t, name) < float("inf"), "0 or more") for name in TERMS),
        ("crops", t.crops, t.crops >= 0, "0 or more"),
        ("crop_scale", t.crop_scale, 0 < t.crop_scale[0] <= t.crop_scale[1] <= 1, "two in (0, 1], the lower first"),
        ("hide", t.hide, 0 < t.hide <= 1, "above 0 and at most 1"),
        ("blocks", t.blocks, 0 < t.blocks[0] <= t.blocks[1] < 1, "two between 0 and 1, the lower first"),
        ("samples", t.samples, t.samples >= 1, "1 or more"),
        ("prototype_count", t.prototype_count, t.prototype_count >= 2, "2 or more"),
        ("temperature", t.temperature, 0 < t.temperature < float("inf"), "above 0"),
    ]  # fmt: skip
    for name, value, fine, expected in rules:
        if not fine:
            raise AkornError(f"loss.teacher.{name} is {value}, expected {expected}")
    if t.crops and not (t.pictures or t.places):
        raise AkornError(f"loss.teacher.crops is {t.crops}, but only pictures and places, both 0, use crops")


def check_average(ema: EmaConfig) -> None:
    """AkornError unless there is a moving average from the first step on, which can teach."""
    if not ema.decay:
        raise AkornError("train.ema.decay is 0, expected such as 0.99: the moving average is the teacher")
    if ema.after:
        raise AkornError(
            f"train.ema.after is {ema.after}, expected 0: the moving average is the teacher from the first step on"
        )
