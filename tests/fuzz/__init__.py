"""Random Paddle programs: the shim must not change what they do (see :mod:`.execute`).

And it must give Torch's bits (see :mod:`.replay`). ``make fuzz`` runs thousands.
"""
