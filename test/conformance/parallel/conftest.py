import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "integration"), str(HERE.parent / "differential"), str(HERE)]
