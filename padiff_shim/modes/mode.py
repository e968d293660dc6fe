"""The modes that users open: ``reference``, ``install``."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from ..arguments import flag, one_of
from ..catalogue.registry import ops as all_ops
from ..catalogue.registry import resolve
from ..dispatch import frames
from ..errors import ArgumentError, BackendError, MissingFrameworkError, ModeError, PadiffShimError, UnknownNameError, unknown
from ..patterns import LayerFilter
from ..runs.run import Run
from .decorate import decorate

BACKENDS = ("torch",)
LINEAR_LAYOUTS = ("contiguous", "view")

_INSTALL = {
    "paddle": "pip install paddlepaddle==3.3.1   (or the GPU build for your CUDA)",
    "torch": "pip install torch   (CPU only: add the CPU index of pytorch.org)",
}


def _refuse_torch_proxy() -> None:
    """Paddle 3.x can put a proxy of itself in torch's place; then even the real torch breaks inside."""
    finder = getattr(sys.modules.get("paddle.compat.proxy"), "TORCH_PROXY_FINDER", None)
    module = sys.modules.get("torch")
    if (finder is not None and finder in sys.meta_path) or type(module).__name__ == "ProxyModule":
        raise BackendError(
            "`import torch` gives Paddle's torch proxy now (paddle.enable_compat() or a torch proxy is active), and the real torch "
            "breaks inside while it is. Call paddle.disable_compat() first, or open the mode inside "
            "`with paddle.use_compat_guard(enable=False):`."
        )


def _framework(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingFrameworkError(f"{name} cannot be imported ({error}). Install it: {_INSTALL[name]}") from error


def _frameworks() -> tuple[Any, Any]:
    """Paddle and the real torch. To be asked before anything imports the op table, which imports torch."""
    _refuse_torch_proxy()
    paddle, torch = _framework("paddle"), _framework("torch")
    if not hasattr(torch, "_C") or not hasattr(torch, "from_dlpack"):
        raise BackendError(f"the module 'torch' at {getattr(torch, '__file__', '?')} is not PyTorch")
    return paddle, torch


def _prepare() -> dict[str, str]:
    """Both frameworks, importable and able to share the current device; returns what the run's header says."""
    paddle, torch = _frameworks()
    from ..frameworks import memory

    try:
        device = memory.check_devices()
    except ValueError as error:
        raise BackendError(str(error)) from None
    return {"paddle": paddle.__version__, "torch": torch.__version__, "device": device}


class Mode:
    """A mode that can be opened: ``with mode as run:``, ``@mode``, or ``mode.start()`` / ``mode.stop()``.

    It may be opened again, nested and from several threads; all openings count into the same :attr:`run`. A mode that is dropped
    without ever having been opened warns of it: nothing ran inside it.
    """

    _used = True  # opened once, or decorating something; until all is set up, nothing is to be said

    def __init__(self, run: Run, enabled: frozenset[str], layers: Any, plan: Any, *, strict: bool, all_threads: bool) -> None:
        self.run = run
        self._enabled, self._layers, self._plan, self._strict, self._all_threads = enabled, layers, plan, strict, all_threads
        self._tracks_layers = layers is not None or plan.tracks_layers
        self._frames: list[frames.Frame] = []
        self._used = False

    _door = "reference"  # by which function of ours it is opened

    def __repr__(self) -> str:
        number = len(self._frames)
        state = f"open ({number} time{'s' if number != 1 else ''})"
        how = f"not open: use `with padiff_shim.{self._door}({self.run.backend!r}) as run:`, or call start()"
        return f"<padiff_shim.{type(self).__name__} {state if number else how}>"

    def __getattr__(self, name: str) -> Any:
        run = self.__dict__.get("run")
        if run is None or name.startswith("_") or not (hasattr(type(run), name) or name in vars(run)):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        never = "" if self._used else ", and the mode was never opened: nothing was counted"
        opening = f"`with padiff_shim.{self._door}({run.backend!r}) as run:`"
        raise ModeError(f"{name!r} belongs to the run, not to the mode{never}. {opening} gives the run, and mode.run holds it")

    def __del__(self) -> None:
        if not self._used:
            door = f"padiff_shim.{self._door}({self.run.backend!r})"
            warnings.warn(f"a mode of {door} was never opened: use `with {door} as run:`", RuntimeWarning, stacklevel=2)

    def start(self) -> Run:
        """Open the mode here; returns the run that counts."""
        self._used = True
        self.run.environment.update(_prepare())
        from ..intercept import doors

        remarks = doors.OPS.acquire()
        try:
            if self._tracks_layers:
                remarks += doors.LAYERS.acquire()
        except BaseException:
            doors.OPS.release()
            raise
        self._say(remarks)
        frame = frames.Frame(
            self.run,
            self._enabled,
            strict=self._strict,
            linear_layout=self.run.linear_layout,
            layers=self._layers,
            plan=self._plan,
        )
        self._frames.append(frame)
        self._mark_sole()
        frames.push(frame, all_threads=self._all_threads)
        return self.run

    def stop(self) -> None:
        """Close the latest opening of this mode."""
        frame = frames.innermost_of(self._frames) or (self._frames[-1] if self._frames else None)
        if frame is None:
            raise ModeError("this mode is not open")
        from ..intercept import doors

        self._frames.remove(frame)
        self._mark_sole()
        frames.remove(frame)
        remarks = doors.LAYERS.release() if self._tracks_layers else []
        if self._layers is not None:
            remarks += [f"layers={pattern!r} matched no layer that ran" for pattern in sorted(self._layers.unmatched)]
        self._say(remarks + doors.OPS.release())

    def _say(self, remarks: list[str]) -> None:
        for remark in remarks:
            self.run.warn(remark)

    def _mark_sole(self) -> None:
        for frame in self._frames:
            frame.sole = len(self._frames) == 1 and not self._all_threads
            frame.idle = frame.idle and frame.sole

    def __enter__(self) -> Run:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __call__(self, function: Callable[..., Any]) -> Any:
        """Decorate a function, method, generator function or coroutine function: the mode is open while its code runs."""
        self._used = True
        return decorate(self, function)


def reference(
    backend: str = "torch",
    *,
    ops: str | Iterable[str] | None = None,
    exclude: str | Iterable[str] = (),
    layers: str | Iterable[str] | None = None,
    strict: bool = False,
    linear_layout: str = "contiguous",
    all_threads: bool = False,
    compare: bool = False,
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
        all_threads: the mode is also open in threads that have no mode of their own.
        compare: run Paddle's kernels beside the others and judge both: the same as :func:`padiff_shim.compare`.

    Returns:
        A :class:`Mode`: a context manager giving a :class:`Run`, a decorator, and ``start()`` / ``stop()``.

    Raises:
        UnknownNameError: unknown backend, op, family or linear_layout; the message names the nearest ones.
        BackendError: if torch or paddle is missing, or, on entry, they cannot share Paddle's current device.
    """
    flag("strict", strict)
    if flag("compare", compare):
        from .compare import compare as compare_mode

        if strict:
            raise PadiffShimError("strict= belongs to reference(): a compare run lists what it did not compare, run.coverage()")
        return compare_mode(backend, ops=ops, exclude=exclude, layers=layers, linear_layout=linear_layout, all_threads=all_threads)
    flag("all_threads", all_threads)
    enabled, chosen = selection(backend, ops, exclude, layers, linear_layout, door="reference")
    from ..substitution.plan import Substituting

    return Mode(Run(backend, linear_layout), enabled, chosen, Substituting(), strict=strict, all_threads=all_threads)


def _check_backend(backend: Any, door: str) -> None:
    """The first argument; a model or a function there is a common slip, of which we say what was meant."""
    if isinstance(backend, str) or not callable(backend):
        if not isinstance(backend, str) or backend not in BACKENDS:
            raise unknown("backend", backend, BACKENDS)
        return
    kind = f"padiff_shim.{door}"
    if hasattr(backend, "named_sublayers"):
        use = f'call the model inside `with {kind}("torch") as run:`'
    else:
        use = f'write `@{kind}("torch")` above the function, or call it inside `with {kind}("torch") as run:`'
    name = getattr(backend, "__qualname__", type(backend).__qualname__)
    raise ArgumentError(f"backend= is the name of a framework, {' or '.join(map(repr, BACKENDS))}, got {name}: {use}")


def selection(
    backend: str, ops: Any, exclude: Any, layers: Any, linear_layout: str, *, door: str
) -> tuple[frozenset[str], LayerFilter | None]:
    """The arguments that all modes share, checked: the enabled ops and the layer filter (or None)."""
    _check_backend(backend, door)
    one_of("linear_layout", linear_layout, LINEAR_LAYOUTS)
    _frameworks()
    enabled = frozenset(all_ops()) if ops is None else resolve(ops, "ops")
    enabled -= resolve(exclude, "exclude")
    if not enabled:
        raise UnknownNameError("no op is left to substitute: ops= selects nothing, or exclude= takes away everything it selects")
    if layers is None:
        return enabled, None
    return enabled, LayerFilter(layers)


_held = False


def install() -> None:
    """Keep the interception in place until :func:`uninstall`, so that opening a mode in a tight loop costs next to nothing."""
    global _held
    if not _held:
        _prepare()
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
