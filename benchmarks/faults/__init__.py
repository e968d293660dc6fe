"""Fault injection for the verdict: problems, clean kernels, planted faults, and the score.

Nothing here uses :mod:`padiff_shim.numerics` to decide what a fault is: the oracle and the units in which a fault's size is given
are written out a second time (:mod:`.truth`), so that an error in the library's own bounds cannot hide itself.
"""
