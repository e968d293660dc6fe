"""All pairs of the demo, in the order of its table."""

from __future__ import annotations

from . import decoders, formers, index, nlp, vision

PAIRS = (*vision.PAIRS, *nlp.PAIRS, *formers.PAIRS, *decoders.PAIRS, *index.PAIRS)
