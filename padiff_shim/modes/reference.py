"""``padiff_shim.reference``, and ``install``, which keeps the interception in place between modes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from ..arguments import flag
from ..errors import PadiffShimError
from ..runs.run import Run, command
from ..text import tr
from .environment import prepare, rank
from .mode import Mode
from .options import ModeOptions, ReferenceOptions, by_torchs_definition, filled, selection


@filled(ReferenceOptions)
def reference(
    backend: str = "torch",
    *,
    ops: str | Iterable[str] | None = None,
    exclude: str | Iterable[str] = (),
    layers: str | Iterable[str] | None = None,
    strict: bool = False,
    linear_layout: str = "contiguous",
    to_static: str = "compiled",
    optimizer: str = "paddle",
    all_threads: bool = False,
    compare: bool = False,
    random: str = "paddle",
    definitions: str | Iterable[str] = "paddle",
    kernels: str = "torch",
    log: str | Path | None = None,
    profile: bool = False,
) -> Mode:
    """Run an unchanged Paddle program on another framework's kernels, op by op, forward and backward.

    Args:
        backend: whose kernels; ``"torch"``.
        ops: op or family names to substitute (default: all that are declared).
        exclude: op or family names to leave native.
        layers: glob patterns over dotted layer paths (``"encoder.layers.*.linear1"``); only calls made while such a layer, or one
            below it, runs are substituted.
        strict: raise :class:`StayedNativeError` on the first float op call that has to stay native.
        linear_layout: ``"contiguous"`` gives the bits of ``torch.nn.Linear``: an [out, in] copy of every Linear weight is kept, but
            for shapes that need none, as a trial has shown; ``"copy"``: for all shapes; ``"view"`` always hands torch a
            transposed view (zero-copy, other last bits).
        to_static: how functions of ``paddle.jit.to_static`` run: ``"compiled"``, as natively: their ops are not seen, and stay
            native; or ``"eager"``: op by op, as after ``paddle.jit.enable_to_static(False)``, so that they are seen.
        optimizer: whose definition of an optimizer's step and of gradient clipping is computed, with Torch's kernels, where the two
            differ: ``"paddle"``, or ``"torch"``, which makes a training equal its Torch twin (see ``docs/definitions.md``).
        all_threads: the mode is also open in threads that have no mode of their own.
        random: whose generator random numbers come from. ``"torch"``: dropout, initializers, ``randn`` and the others draw what a
            Torch program would draw from Torch's global generator, which ``paddle.seed`` then seeds, too. ``"paddle"``: they stay
            Paddle's, and the run lists them.
        definitions: whose definition of an op is computed where the two differ under one name: ``"paddle"``, or ``"torch"``, that
            of a Torch twin (BatchNorm's running variance, the mean over ignored labels, initial weights: see
            ``docs/definitions.md``). Names of ops, ``"initial_weights"`` and ``"autocast"`` (Torch's lists for
            mixed precision: see ``docs/run.md``) take Torch's for these alone.
        kernels: what answers a call in float16 or bfloat16 for which this Paddle has no kernel on the device, as most ops on a CPU.
            ``"torch"``: Torch's kernel, with results and gradients in the dtype that Paddle documents; the run counts these calls
            apart. ``"paddle"``: Paddle's error, as natively.
        log: folder in which the run is kept when the mode closes, a file for each process (``padiff-shim log`` and
            :func:`padiff_shim.load` read it).
        profile: note the layer, line and time of every call, so that ``run.save("run.html")`` shows coverage by layer and where the
            time went. It changes no bit, and costs some microseconds a call (docs/run.md).
        compare: run Paddle's kernels beside the others and judge both: the same as :func:`padiff_shim.compare`.

    Returns:
        A :class:`Mode`: a context manager giving a :class:`Run`, a decorator, and ``start()`` / ``stop()``.

    Raises:
        UnknownNameError: unknown backend, op, family, linear_layout, optimizer or definitions; the message names the nearest ones.
        BackendError: if torch or paddle is missing, or, on entry, they cannot share Paddle's current device.

    Example:
        >>> import paddle
        >>> import padiff_shim
        >>> x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> with padiff_shim.reference("torch") as run:
        ...     y = x @ x
        >>> run.substituted
        {'matmul': 1}
    """
    arguments = dict(locals())
    is_comparison = flag("compare", arguments.pop("compare"))
    options = ReferenceOptions(**arguments)
    if is_comparison:
        from .compare import compare as compare_mode

        refused = {
            "optimizer": tr("in a comparison Paddle's own optimizers run"),
            "definitions": tr("a comparison is of kernels, and computes what Paddle defines"),
            "strict": tr("a compare run lists what it did not compare, run.coverage()"),
            "random": tr("a comparison draws no numbers, both kernels would have to get the same"),
            "kernels": tr("a comparison runs Paddle's kernels, and lists those that are missing"),
            "profile": tr("in a comparison most of the time is that of comparing"),
        }
        for name, why in refused.items():
            other = arguments[name] != getattr(ReferenceOptions, name)
            if by_torchs_definition(options.definitions) if name == "definitions" else other:
                raise PadiffShimError("{name}= belongs to reference(): {why}", name=name, why=why)
        shared = {option.name: option.default for option in fields(ModeOptions) if option.name != "backend"}
        return compare_mode(backend, **{name: getattr(options, name) for name, value in shared.items() if arguments[name] != value})
    return opened(options)


def opened(options: ReferenceOptions) -> Mode:
    """The mode of these options, whatever the environment and settings files say."""
    enabled, chosen = selection(options, opener="reference")
    from ..substitution.plan import Profiled, Substituting

    kind = Profiled if options.profile else Substituting
    torchs, lends = by_torchs_definition(options.definitions), options.kernels == "torch"
    plan = kind(options.optimizer, draws=options.random == "torch", torchs=torchs, lends=lends)
    run = Run(options.backend, options.linear_layout, command=command(), rank=rank(), folder=options.log, profiles=options.profile)
    run.try_log()
    return Mode(run, enabled, chosen, plan, options, strict=options.strict)


_held: object = None  # by whom the interception is held


def install() -> None:
    """Keep the interception in place until :func:`uninstall`, so that opening a mode in a tight loop costs next to nothing.

    Calling it again changes nothing.

    Raises:
        BackendError: as for :func:`reference`.
        InterceptionError: this Python lays out its functions in another way.

    Example:
        >>> import paddle
        >>> import padiff_shim
        >>> x = paddle.ones([2, 2])
        >>> padiff_shim.install()
        >>> for _ in range(3):
        ...     with padiff_shim.reference("torch") as run:
        ...         y = x @ x
        >>> padiff_shim.uninstall()
    """
    global _held
    if not _held:
        prepare()
        from ..intercept import entry_points

        _held = object()
        entry_points.OPS.acquire(_held)


def uninstall() -> None:
    """Undo :func:`install`. Modes that are still open keep the interception until they close."""
    global _held
    if _held:
        from ..intercept import entry_points

        leaving, _held = _held, None
        entry_points.OPS.release(leaving)
