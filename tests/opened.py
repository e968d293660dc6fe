"""Imported by the server of :mod:`forked`: what a process finds once, as it opens its first mode, each program finds at hand."""

import padiff_shim

with padiff_shim.reference("torch"):
    pass
