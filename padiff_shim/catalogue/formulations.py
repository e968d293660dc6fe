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
        ValueError: two have one name, or a declaration contradicts itself.
    """
    from ..patches import _formulations

    gathered: dict[str, Formulation] = {}
    for cause in CAUSES:
        for formulation in importlib.import_module(f"{_formulations.__name__}.{cause}").FORMULATIONS:
            _check(formulation, cause)
            if gathered.setdefault(formulation.name, formulation) is not formulation:
                raise ValueError(f"formulation {formulation.name!r} is declared twice")
    return gathered


def _check(formulation: Formulation, cause: str) -> None:
    if formulation.cause != cause:
        raise ValueError(f"{formulation.name!r} stands among those of {cause!r}, and its cause is {formulation.cause!r}")
    if len(formulation.spellings) < 2:
        raise ValueError(f"{formulation.name!r} has one spelling")
    if any(len(sample.operands) != len(formulation.names) for sample in formulation.samples):
        raise ValueError(f"{formulation.name!r} has a sample with other operands than {formulation.operands!r}")
    if bool(formulation.equal) == bool(formulation.differs or formulation.may_differ):
        raise ValueError(f"{formulation.name!r} is either equal, or differs in a dtype")
