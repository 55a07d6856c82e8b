"""Lets these tests use the simulated world."""

import sys
from pathlib import Path

_ROOT = str(Path(__file__).parents[4])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)
