"""The forms for solving, called with a layer: what `akorn.nn.solve_steps` does once it has chosen one."""

from akorn.execution.solve import Unknown
from akorn.nn.solve import described, floating, prepared


def run(steps_of, layer, x, c, steps, *rest, **options):
    """T steps of a layer by `fused_steps` or `fast_steps`."""
    drive, steps = prepared(layer, x, c, steps)
    return steps_of(described(layer), x, drive, steps, *rest, owner=layer, **options)


def why_not(form, layer, x, c):
    """Why a form cannot be used for a layer, or None."""
    step = described(layer)
    return step.reason if isinstance(step, Unknown) else form.why_not(step, x, c, floating(layer))
