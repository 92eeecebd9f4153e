"""The folder results/ is beside the package, not in it: its pages are found from the root of the repository."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
