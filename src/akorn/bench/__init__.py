"""Speed and memory, measured beside the plain version in one run."""

from akorn.bench.cases import COUPLINGS, Size, default_channels, layers
from akorn.bench.ceilings import Ceilings, measure_ceilings
from akorn.bench.nets import Setup
from akorn.bench.run import CASES, Row, as_records, bench

__all__ = [
    "CASES",
    "COUPLINGS",
    "Ceilings",
    "Row",
    "Setup",
    "Size",
    "as_records",
    "bench",
    "default_channels",
    "layers",
    "measure_ceilings",
]
