"""Random Paddle programs: the shim must not change what they do (see :mod:`.execute`).

And it must give Torch's bits (see :mod:`.replay`). ``make fuzz`` runs thousands.
"""

RUNNING, COUNTS = "running", "counts"  # what a block of programs leaves in its folder: the one that runs, and what was counted
RAN = "programs"  # the count that is no reason
