"""Random Paddle programs: the shim must not change what they do (see :mod:`.execute`); ``make fuzz`` runs thousands."""
