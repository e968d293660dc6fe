"""padiff_shim: run an unchanged Paddle program on Torch kernels, and find out which side of a port is wrong.

Importing this package imports neither paddle nor torch; both are needed only when a mode is opened.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import pathlib
import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if sys.version_info < (3, 10):  # noqa: UP036  # what pip cannot refuse: a checkout on PYTHONPATH
    raise ImportError(f"padiff_shim needs Python 3.10 or a newer one, and this is {sys.version.partition(' ')[0]}")

_EXPORTS = {
    "reference": "modes.reference",
    "install": "modes.reference",
    "uninstall": "modes.reference",
    "Mode": "modes.mode",
    "Run": "runs.run",
    "compare": "modes.compare",
    "CompareMode": "modes.compare",
    "CompareRun": "runs.compare_run",
    "Call": "runlog.calls",
    "load": "runs.compare_run",
    "load_reference": "runs.reference_run",
    "LogError": "runlog.reader",
    "do_no_harm": "questions.noninterference",
    "HarmReport": "questions.noninterference",
    "transfer_weights": "weights.transfer",
    "auto_diff": "questions.auto_diff",
    "prove": "proof.prove",
    "prove_sharded": "questions.sharded_proof",
    "ShardedProof": "questions.sharded_proof",
    "Proof": "proof.proof",
    "ProofVerdict": "proof.findings",
    "Bitwise": "proof.bits.result",
    "Alignment": "proof.alignment",
    "AlignmentVerdict": "proof.alignment",
    "audit": "auditing.audit",
    "gate": "runs.gate",
    "Gate": "runs.gate",
    "Audit": "auditing.audit",
    "bisect": "questions.bisect",
    "Drift": "proof.drift",
    "Bisection": "questions.bisect",
    "BisectionError": "errors",
    "record": "recording.record",
    "Recording": "recording.record",
    "difference": "measure.difference",
    "TreeDifference": "measure.difference",
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
    "Alignment",
    "AlignmentVerdict",
    "ArgumentError",
    "Audit",
    "BackendError",
    "Bisection",
    "BisectionError",
    "Bitwise",
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
    "ShardedProof",
    "Side",
    "StayedNativeError",
    "TransferError",
    "TreeDifference",
    "UnknownNameError",
    "Verdict",
    "__version__",
    "audit",
    "auto_diff",
    "bisect",
    "compare",
    "diff",
    "difference",
    "do_no_harm",
    "gate",
    "install",
    "load",
    "load_reference",
    "prove",
    "prove_sharded",
    "record",
    "reference",
    "transfer_weights",
    "uninstall",
]

if TYPE_CHECKING:
    from .auditing.audit import Audit, audit
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
    from .measure.difference import TreeDifference, difference
    from .modes.compare import CompareMode, compare
    from .modes.mode import Mode
    from .modes.reference import install, reference, uninstall
    from .proof.alignment import Alignment, AlignmentVerdict
    from .proof.bits.result import Bitwise
    from .proof.drift import Drift
    from .proof.findings import ProofVerdict
    from .proof.proof import Proof
    from .proof.prove import prove
    from .questions.auto_diff import auto_diff
    from .questions.bisect import Bisection, bisect
    from .questions.noninterference import HarmReport, do_no_harm
    from .questions.sharded_proof import ShardedProof, prove_sharded
    from .recording.diff import diff
    from .recording.difference import Difference
    from .recording.record import Recording, record
    from .runlog.calls import Call
    from .runlog.reader import LogError
    from .runs.compare_run import CompareRun, load
    from .runs.gate import Gate, gate
    from .runs.reference_run import load_reference
    from .runs.run import Run
    from .table.op import Entry, Op, Sample
    from .verdicts import Side, Verdict
    from .weights.mapping import Mapping
    from .weights.transfer import transfer_weights


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        try:
            module = importlib.import_module(f".{_EXPORTS[name]}", __name__)
        except (AttributeError, ImportError) as error:
            from .modes.environment import explained

            explanation = explained(error)
            if explanation is error:
                raise
            raise explanation from error
        return getattr(module, name)
    if name in ("patches", "testing"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])


def _locate_patches() -> None:
    """Make sure that ``padiff_shim.patches``, the op families, are those of this copy.

    An installation holds them inside the package. In a checkout they lie beside it, in ``patches/``, where a finder of ours finds
    them. It stands before all other finders: after ``pip install -e`` of a second checkout, the finder of setuptools offers that
    checkout's families.
    """
    name, here = f"{__name__}.patches", pathlib.Path(__file__).resolve().parent
    inside = _file_of(importlib.machinery.PathFinder.find_spec(name, __path__))
    home = inside or (here.parent / "patches" / "__init__.py").resolve()
    if inside is None and home.is_file() and name not in sys.modules:

        class Finder:
            """Finds ``padiff_shim.patches`` in the checkout."""

            @staticmethod
            def find_spec(fullname: str, path: Any = None, target: Any = None) -> Any:
                if fullname != name:
                    return None
                return importlib.util.spec_from_file_location(name, home, submodule_search_locations=[str(home.parent)])

        sys.meta_path.insert(0, Finder)

    actual = _file_of(importlib.util.find_spec(name))
    if actual not in (None, home):
        raise ImportError(
            f"padiff_shim in {here} needs the op families in {home.parent}, but Python has those of another copy: {actual}. "
            "Keep one copy on the path, and start a new process."
        )


def _file_of(spec: importlib.machinery.ModuleSpec | None) -> pathlib.Path | None:
    """Where a module was found; None if nowhere, or if it is a folder without a module (such as an old ``__pycache__``)."""
    return pathlib.Path(spec.origin).resolve() if spec is not None and spec.origin and spec.has_location else None


_locate_patches()
