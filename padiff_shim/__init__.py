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

_EXPORTS = {  # what there is, and the module that has it
    name: module
    for module, names in {
        "modes.reference": "reference install uninstall",
        "modes.mode": "Mode",
        "runs.run": "Run",
        "modes.compare": "compare CompareMode",
        "runs.compare_run": "CompareRun load",
        "runlog.calls": "Call",
        "runlog.reader": "LogError",
        "weights.transfer": "transfer_weights",
        "questions.auto_diff": "auto_diff",
        "proof.prove": "prove",
        "questions.sharded_proof": "prove_sharded ShardedProof",
        "proof.proof": "Proof",
        "proof.findings": "ProofVerdict",
        "proof.bits.result": "Bitwise",
        "proof.alignment": "Alignment AlignmentVerdict",
        "auditing.audit": "audit Audit",
        "runs.gate": "gate Gate",
        "questions.bisect": "bisect Bisection",
        "proof.drift": "Drift",
        "errors": "BisectionError MismatchError PadiffShimError ArgumentError FileError ModeError "
        "BackendError MissingFrameworkError UnknownNameError InterceptionError StayedNativeError TransferError",
        "recording.record": "record Recording",
        "measure.difference": "difference TreeDifference",
        "recording.diff": "diff",
        "recording.difference": "Difference",
        "weights.mapping": "Mapping",
        "verdicts": "Verdict Side",
        "table.op": "Op Entry Sample",
    }.items()
    for name in names.split()
}

if TYPE_CHECKING:
    from .auditing.audit import Audit as Audit, audit as audit
    from .errors import (
        ArgumentError as ArgumentError,
        BackendError as BackendError,
        BisectionError as BisectionError,
        FileError as FileError,
        InterceptionError as InterceptionError,
        MismatchError as MismatchError,
        MissingFrameworkError as MissingFrameworkError,
        ModeError as ModeError,
        PadiffShimError as PadiffShimError,
        StayedNativeError as StayedNativeError,
        UnknownNameError as UnknownNameError,
    )
    from .measure.difference import TreeDifference as TreeDifference, difference as difference
    from .modes.compare import CompareMode as CompareMode, compare as compare
    from .modes.mode import Mode as Mode
    from .modes.reference import install as install, reference as reference, uninstall as uninstall
    from .proof.alignment import Alignment as Alignment, AlignmentVerdict as AlignmentVerdict
    from .proof.bits.result import Bitwise as Bitwise
    from .proof.drift import Drift as Drift
    from .proof.findings import ProofVerdict as ProofVerdict
    from .proof.proof import Proof as Proof
    from .proof.prove import prove as prove
    from .questions.auto_diff import auto_diff as auto_diff
    from .questions.bisect import Bisection as Bisection, bisect as bisect
    from .questions.sharded_proof import ShardedProof as ShardedProof, prove_sharded as prove_sharded
    from .recording.diff import diff as diff
    from .recording.difference import Difference as Difference
    from .recording.record import Recording as Recording, record as record
    from .runlog.calls import Call as Call
    from .runlog.reader import LogError as LogError
    from .runs.compare_run import CompareRun as CompareRun, load as load
    from .runs.gate import Gate as Gate, gate as gate
    from .runs.run import Run as Run
    from .table.op import Entry as Entry, Op as Op, Sample as Sample
    from .verdicts import Side as Side, Verdict as Verdict
    from .weights.mapping import Mapping as Mapping
    from .weights.transfer import transfer_weights as transfer_weights
else:
    __all__ = [*_EXPORTS, "__version__"]


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
