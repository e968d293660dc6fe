"""All pairs: those of `make demo-ports`, whose verdicts are known, and what `make ecosystem` asks besides."""

from __future__ import annotations

from . import decoders, formers, index, nlp, vision

PORTS = (*vision.PAIRS, *nlp.PAIRS, *formers.PAIRS)
PAIRS = (*PORTS, *decoders.PAIRS, *index.PAIRS)
