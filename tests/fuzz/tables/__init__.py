"""The templates, by family: :mod:`..template` explains how they are written."""

from __future__ import annotations

from ..template import Template
from . import (
    elementwise,
    functional,
    layers,
    linear_algebra,
    losses,
    movement,
    random,
    reductions,
    rest,
    spectra,
    whole_numbers,
    writes,
)

FAMILIES = (
    elementwise,
    functional,
    layers,
    linear_algebra,
    losses,
    movement,
    random,
    reductions,
    rest,
    spectra,
    whole_numbers,
    writes,
)
TEMPLATES = tuple(Template(text) for family in FAMILIES for text in family.TEMPLATES)
