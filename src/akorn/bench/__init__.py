"""Speed and memory, measured beside the plain version in one run."""

from akorn.bench.cases import COUPLINGS, Size, default_channels
from akorn.bench.run import Row, as_records, bench

__all__ = ["COUPLINGS", "Row", "Size", "as_records", "bench", "default_channels"]
