"""Random Paddle programs: the shim must not change what they do (see :mod:`.execute`).

And it must give Torch's bits (see :mod:`.replay`). ``make fuzz`` runs thousands.
"""

from forked import PATIENCE

RUNNING, FOUND = "running", "found.jsonl"  # what a worker leaves in its folder: the program that runs, and what was found of each
HANG = PATIENCE // 4  # seconds after which a program counts as hung
