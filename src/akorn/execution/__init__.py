"""How T steps of an update run, and how gradients come back: between the equation (`akorn.nn`) and `akorn.kernels`.

`akorn.nn` passes a description of its step (functions and tensors) and never asks whether something is fused.

    step          one update from its description: plain, fused or compiled
    fused_step    the update by the fused kernels, forward and backward; needs Triton
    drive         C, step by step
    run           T steps: memory order, which of them have gradients, energies and trajectory
    gradients     Store, Recompute, LastSteps: how gradients come back
    recompute     a backward pass that recomputes steps; `chain` adapts steps to it
    operator      T steps as one operator for torch.compile; `outside` lets code run inside it as it would outside
    compiled      a single step by torch.compile
    solve         T steps without gradients as CUDA graphs or, on a CPU, in long passes
    ops           what is around the steps: norms, convolutions, attention, the readout's lengths, Π
    launches      which work is worth one of our kernel launches in an eager step
    graph         any training step as a CUDA graph

"""

from akorn.execution import ops
from akorn.execution.compiled import compiled_alone
from akorn.execution.drive import Drive, Stimulus, changing, constant
from akorn.execution.gradients import Gradients, LastSteps, Recompute, Store
from akorn.execution.graph import GraphedStep, graphed
from akorn.execution.operator import register
from akorn.execution.run import Ran, in_one_order, run
from akorn.execution.step import EnergyFunction, Rotation, Step, advance

__all__ = [
    "Drive",
    "EnergyFunction",
    "Gradients",
    "GraphedStep",
    "LastSteps",
    "Ran",
    "Recompute",
    "Rotation",
    "Step",
    "Stimulus",
    "Store",
    "advance",
    "changing",
    "compiled_alone",
    "constant",
    "graphed",
    "in_one_order",
    "ops",
    "register",
    "run",
]
