"""``padiff_shim.reference``, and ``install``, which keeps the interception in place between modes."""

from __future__ import annotations

from collections.abc import Iterable

from ..arguments import flag, one_of
from ..errors import PadiffShimError
from ..runs.run import Run
from .environment import prepare
from .mode import Mode
from .selection import DEFINITIONS, by_torchs_definition, selection

GENERATORS = ("paddle", "torch")  # what random= may be


def reference(
    backend: str = "torch",
    *,
    ops: str | Iterable[str] | None = None,
    exclude: str | Iterable[str] = (),
    layers: str | Iterable[str] | None = None,
    strict: bool = False,
    linear_layout: str = "contiguous",
    optimizer: str = "paddle",
    all_threads: bool = False,
    compare: bool = False,
    random: str = "paddle",
    definitions: str | Iterable[str] = "paddle",
) -> Mode:
    """Run an unchanged Paddle program on another framework's kernels, op by op, forward and backward.

    Args:
        backend: whose kernels; ``"torch"``.
        ops: op or family names to substitute (default: all that are declared).
        exclude: op or family names to leave native.
        layers: glob patterns over dotted layer paths (``"encoder.layers.*.linear1"``); only calls made while such a layer, or one
            below it, runs are substituted.
        strict: raise :class:`StayedNativeError` on the first float op call that has to stay native.
        linear_layout: ``"contiguous"`` keeps a [out, in] copy of every Linear weight, which ``torch.nn.Linear``'s bits need;
            ``"view"`` hands torch a transposed view instead (zero-copy, other last bits).
        optimizer: whose definition of an optimizer's step and of gradient clipping is computed, with Torch's kernels, where the two
            differ: ``"paddle"``, or ``"torch"``, which makes a training equal its Torch twin (see ``docs/optimizers.md``).
        all_threads: the mode is also open in threads that have no mode of their own.
        random: whose generator random numbers come from. ``"torch"``: dropout, initializers, ``randn`` and the others draw what a
            Torch program would draw from Torch's global generator, which ``paddle.seed`` then seeds, too. ``"paddle"``: they stay
            Paddle's, and the run lists them.
        definitions: whose definition of an op is computed where the two differ under one name: ``"paddle"``, or ``"torch"``, that
            of a Torch twin (BatchNorm's running variance, the mean over ignored labels: see ``docs/definitions.md``). Names of
            ops take Torch's for these alone.
        compare: run Paddle's kernels beside the others and judge both: the same as :func:`padiff_shim.compare`.

    Returns:
        A :class:`Mode`: a context manager giving a :class:`Run`, a decorator, and ``start()`` / ``stop()``.

    Raises:
        UnknownNameError: unknown backend, op, family, linear_layout, optimizer or definitions; the message names the nearest ones.
        BackendError: if torch or paddle is missing, or, on entry, they cannot share Paddle's current device.
    """
    flag("strict", strict)
    one_of("random", random, GENERATORS)
    one_of("optimizer", optimizer, DEFINITIONS)
    torchs = by_torchs_definition(definitions)
    if flag("compare", compare):
        from .compare import compare as compare_mode

        if optimizer != DEFINITIONS[0]:
            raise PadiffShimError("optimizer= belongs to reference(): in a comparison Paddle's own optimizers run")
        if torchs:
            raise PadiffShimError(
                "definitions= belongs to reference(): a comparison is of kernels, and computes what Paddle defines"
            )
        if strict:
            raise PadiffShimError("strict= belongs to reference(): a compare run lists what it did not compare, run.coverage()")
        if random != "paddle":
            raise PadiffShimError(
                "random= belongs to reference(): a comparison draws no numbers, both kernels would have to get the same"
            )
        return compare_mode(backend, ops=ops, exclude=exclude, layers=layers, linear_layout=linear_layout, all_threads=all_threads)
    flag("all_threads", all_threads)
    enabled, chosen = selection(backend, ops, exclude, layers, linear_layout, door="reference")
    from ..substitution.plan import Substituting

    plan = Substituting(optimizer, draws=random == "torch", torchs=torchs)
    return Mode(Run(backend, linear_layout), enabled, chosen, plan, strict=strict, all_threads=all_threads)


_held = False


def install() -> None:
    """Keep the interception in place until :func:`uninstall`, so that opening a mode in a tight loop costs next to nothing."""
    global _held
    if not _held:
        prepare()
        from ..intercept import doors

        doors.OPS.acquire()
        _held = True


def uninstall() -> None:
    """Undo :func:`install`; what modes still need stays until they close."""
    global _held
    if _held:
        from ..intercept import doors

        _held = False
        doors.OPS.release()
