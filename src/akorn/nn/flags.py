"""The two deprecated flags that `gradients=` replaces; they work until version 0.3."""

from __future__ import annotations

import warnings
from typing import Any

from akorn.execution import Gradients, LastSteps, Recompute, Store
from akorn.nn.checks import whole_number


def _flagged(recompute: bool, last: int | None) -> Gradients:
    then = Recompute() if recompute else Store()
    return then if last is None else LastSteps(last, then)


def _warn(flag: str, instead: str, level: int = 4) -> None:
    warnings.warn(f"{flag} is deprecated: use gradients={instead}", DeprecationWarning, stacklevel=level)


class GradientFlags:
    """For a module with `gradients`: `recompute` and `gradient_steps` as they were."""

    gradients: Gradients

    def _told(self, gradients: Gradients | None, recompute: bool | None, last: int | None) -> Gradients:
        """The constructor's choice, from the new argument or the old ones."""
        if recompute is None and last is None:
            return Store() if gradients is None else gradients
        if gradients is not None:
            raise ValueError("gradients replaces recompute and gradient_steps, which cannot be combined with it")
        last = None if last is None else whole_number("gradient_steps", last)
        flag, instead = ("recompute", "Recompute()") if last is None else ("gradient_steps", f"LastSteps({last})")
        _warn(f"KuramotoLayer({flag}=…)", instead)
        return _flagged(bool(recompute), last)

    @property
    def recompute(self) -> bool:
        """Deprecated: whether `gradients` recomputes states."""
        _warn("KuramotoLayer.recompute", "Recompute()", 3)
        return self._flags()[0]

    @recompute.setter
    def recompute(self, value: bool) -> None:
        _warn("KuramotoLayer.recompute", "Recompute()")
        self.gradients = _flagged(value, self._flags()[1])

    @property
    def gradient_steps(self) -> int | None:
        """Deprecated: through how many of the last steps gradients go back; None for all."""
        _warn("KuramotoLayer.gradient_steps", "LastSteps(k)", 3)
        return self._flags()[1]

    @gradient_steps.setter
    def gradient_steps(self, value: int | None) -> None:
        _warn("KuramotoLayer.gradient_steps", "LastSteps(k)")
        self.gradients = _flagged(self._flags()[0], None if value is None else whole_number("gradient_steps", value))

    def _flags(self) -> tuple[bool, int | None]:
        last = self.gradients if isinstance(self.gradients, LastSteps) else None
        way = self.gradients if last is None else last.then
        return isinstance(way, Recompute), None if last is None else last.steps

    def __setstate__(self, state: dict[str, Any]) -> None:
        """For copies and pickles; those of earlier versions have the flags."""
        if "gradients" not in state:
            state = dict(state)
            state["gradients"] = _flagged(state.pop("recompute", False), state.pop("gradient_steps", None))
        super().__setstate__(state)  # type: ignore[misc]
