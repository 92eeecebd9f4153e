"""The paper's claims and our verdicts: the words of RESULTS.md. The figures in them are looked up. Torch-free.

Each claim says by `holds` what its verdict is based on. When a new record changes that, `python -m results.pages`
refuses to render: read the figures, and judge the claim again here.
"""

from __future__ import annotations

from results.pages.claims_objects import OBJECTS
from results.pages.claims_robustness import ROBUSTNESS
from results.pages.claims_speed import SPEED
from results.pages.claims_sudoku import SUDOKU

INTRO = """\
What *Artificial Kuramoto Oscillatory Neurons* (AKOrN; Miyato et al., ICLR 2025) claims, and what we find with our own
implementation. Every figure comes from a record that a command wrote into [results/](results/README.md). This page is
rendered from the records by `python -m results.pages`, which refuses if a figure no longer supports its verdict.

**In short:** most of what we could check holds. AKOrN's robustness to adversarial attacks does not: the model hides its
gradients, and attacks that know how it works defeat it ([the evidence](#robustness-and-calibration)).

- **Confirmed** means that our figures show what the paper says, on the data and with the seeds given here, **refuted**
  that they show otherwise, **open** that we have too few figures or that they do not decide it.
- “Ours” is the mean ± the sample standard deviation over seeds. A seed is one training; where there is only one, small
  differences mean little.
- Our boards, sprites and corruptions are stand-ins, since not all of the paper's data is available: boards are rebuilt
  from public collections, sprites and corruptions generated from the published descriptions. The paper's weights are
  not public.
- “On” says what a figure was measured on, and † that its model was trained before the **corrections** of 18 November
  2026. Since then trainings follow the published experiments in more details: the decay of the moving average grows at
  the start of a training; ItrSA, ViT and the Transformer end in a LayerNorm; AugMix has thirteen operations instead of
  nine. Corrupted pictures also have the published photographs of frost since then, where these are installed.
- The numbers under “records” are seeds, each a link to the record of that seed. The full tables are in
  [results/sudoku.md](results/sudoku.md), [results/objects.md](results/objects.md),
  [results/robustness.md](results/robustness.md) and [results/speed.md](results/speed.md)."""

SECTIONS = (SUDOKU, OBJECTS, ROBUSTNESS, SPEED)
"""In the order of the page."""
