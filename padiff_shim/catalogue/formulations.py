"""Gathers the formulations that ``patches/_formulations/`` declares: equal mathematics that is written in several ways."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping

from ..table.formulation import CAUSES, Formulation


@functools.cache
def formulations() -> Mapping[str, Formulation]:
    """All formulations by name, those of one cause together, in the order of :data:`~..table.formulation.CAUSES`.

    Raises:
        ValueError: two have one name.
    """
    from ..patches import _formulations

    gathered: dict[str, Formulation] = {}
    for cause in CAUSES:
        for formulation in importlib.import_module(f"{_formulations.__name__}.{cause}").FORMULATIONS:
            if gathered.setdefault(formulation.name, formulation) is not formulation:
                raise ValueError(f"formulation {formulation.name!r} is declared twice")
    return gathered
