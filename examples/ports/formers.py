"""Models of PaddleFormers 1.2.0 beside transformers' of 5.3.0, tiny."""

from __future__ import annotations

from .pair import Pair

PAIRS: tuple[Pair, ...] = ()
