"""All pairs of the demo, in the order of its table."""

from __future__ import annotations

from . import formers, nlp, vision

PAIRS = (*vision.PAIRS, *nlp.PAIRS, *formers.PAIRS)
