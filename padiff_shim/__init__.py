"""padiff_shim: run an unchanged Paddle program on Torch kernels, and find out which side of a port is wrong.

Importing this package imports neither paddle nor torch; both are needed only when a mode is opened.
"""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_EXPORTS = {
    "reference": "modes.reference",
    "install": "modes.reference",
    "uninstall": "modes.reference",
    "Mode": "modes.mode",
    "Run": "runs.run",
    "compare": "modes.compare",
    "CompareMode": "modes.compare",
    "CompareRun": "runs.compare_run",
    "Call": "records.calls",
    "load": "runs.compare_run",
    "load_reference": "runs.load_reference",
    "LogError": "records.log",
    "do_no_harm": "alignment.harm",
    "HarmReport": "alignment.harm",
    "transfer_weights": "weights.transfer",
    "auto_diff": "autodiff.auto_diff",
    "prove": "proving.prove",
    "Proof": "proving.proof",
    "ProofVerdict": "proving.findings",
    "audit": "auditing.audit",
    "gate": "runs.gate",
    "Gate": "runs.gate",
    "Audit": "auditing.audit",
    "bisect": "bisecting.bisect",
    "drift": "drifting.drift",
    "Drift": "drifting.told",
    "Bisection": "bisecting.bisection",
    "BisectionError": "errors",
    "record": "recording.record",
    "Recording": "recording.record",
    "diff": "recording.diff",
    "Difference": "recording.difference",
    "Mapping": "weights.mapping",
    "Verdict": "verdicts",
    "Side": "verdicts",
    "MismatchError": "errors",
    "Op": "table.op",
    "Entry": "table.op",
    "Sample": "table.op",
    "PadiffShimError": "errors",
    "ArgumentError": "errors",
    "FileError": "errors",
    "ModeError": "errors",
    "BackendError": "errors",
    "MissingFrameworkError": "errors",
    "UnknownNameError": "errors",
    "InterceptionError": "errors",
    "StayedNativeError": "errors",
    "TransferError": "errors",
}

__all__ = [
    "ArgumentError",
    "Audit",
    "BackendError",
    "Bisection",
    "BisectionError",
    "Call",
    "CompareMode",
    "CompareRun",
    "Difference",
    "Drift",
    "Entry",
    "FileError",
    "Gate",
    "HarmReport",
    "InterceptionError",
    "LogError",
    "Mapping",
    "MismatchError",
    "MissingFrameworkError",
    "Mode",
    "ModeError",
    "Op",
    "PadiffShimError",
    "Proof",
    "ProofVerdict",
    "Recording",
    "Run",
    "Sample",
    "Side",
    "StayedNativeError",
    "TransferError",
    "UnknownNameError",
    "Verdict",
    "__version__",
    "audit",
    "auto_diff",
    "bisect",
    "compare",
    "diff",
    "do_no_harm",
    "drift",
    "gate",
    "install",
    "load",
    "load_reference",
    "prove",
    "record",
    "reference",
    "transfer_weights",
    "uninstall",
]

if TYPE_CHECKING:
    from .alignment.harm import HarmReport, do_no_harm
    from .auditing.audit import Audit, audit
    from .autodiff.auto_diff import auto_diff
    from .bisecting.bisect import bisect
    from .bisecting.bisection import Bisection
    from .drifting.drift import drift
    from .drifting.told import Drift
    from .errors import (
        ArgumentError,
        BackendError,
        BisectionError,
        FileError,
        InterceptionError,
        MismatchError,
        MissingFrameworkError,
        ModeError,
        PadiffShimError,
        StayedNativeError,
        UnknownNameError,
    )
    from .modes.compare import CompareMode, compare
    from .modes.mode import Mode
    from .modes.reference import install, reference, uninstall
    from .proving.findings import ProofVerdict
    from .proving.proof import Proof
    from .proving.prove import prove
    from .recording.diff import diff
    from .recording.difference import Difference
    from .recording.record import Recording, record
    from .records.calls import Call
    from .records.log import LogError
    from .runs.compare_run import CompareRun, load
    from .runs.gate import Gate, gate
    from .runs.load_reference import load_reference
    from .runs.run import Run
    from .table.op import Entry, Op, Sample
    from .verdicts import Side, Verdict
    from .weights.mapping import Mapping
    from .weights.transfer import transfer_weights


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(f".{_EXPORTS[name]}", __name__), name)
    if name in ("patches", "testing"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])


def _locate_patches() -> None:
    """In a checkout the families lie beside this package (``patches/``); an installation holds them as ``padiff_shim.patches``."""
    here = pathlib.Path(__file__).resolve().parent
    beside = here.parent / "patches" / "__init__.py"
    name = f"{__name__}.patches"
    if name in sys.modules or (here / "patches").is_dir() or not beside.is_file():
        return

    class Finder:
        """Finds ``padiff_shim.patches`` in the checkout."""

        @staticmethod
        def find_spec(fullname: str, path: Any = None, target: Any = None) -> Any:
            if fullname != name:
                return None
            return importlib.util.spec_from_file_location(name, beside, submodule_search_locations=[str(beside.parent)])

    sys.meta_path.append(Finder)


_locate_patches()
