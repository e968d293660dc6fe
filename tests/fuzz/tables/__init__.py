"""The templates, by family: :mod:`..template` explains how they are written."""

from __future__ import annotations

import importlib
import pkgutil

from ..template import Template

FAMILIES = tuple(importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__))
TEMPLATES = tuple(Template(text) for family in FAMILIES for text in family.TEMPLATES)
