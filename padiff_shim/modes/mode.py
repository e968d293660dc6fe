"""A mode that can be opened and closed in any order, nested, from several threads; and as a decorator."""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import wrapt

from ..dispatch import frames
from ..errors import ArgumentError, ModeError, described
from ..interrupts import finish
from ..runs.run import Run
from ..text import logged, many, tr
from .environment import prepare
from .options import ModeOptions

# ---- A mode as a decorator: open while the function's own code runs, closed while it is suspended.


def decorate(mode: Any, function: Callable[..., Any]) -> Any:
    """``function`` with ``mode`` (a context manager) open while its own code runs.

    Raises:
        ArgumentError: for a class, or something that is not callable.
    """
    if inspect.isclass(function) or not (callable(function) or isinstance(function, (classmethod, staticmethod))):
        raise ArgumentError("decorate a function or a method with a mode, not {function}", function=described(function))
    return _Decorated(function, functools.partial(_DRIVERS[_kind(function)], mode))


class _BoundDecorated(wrapt.BoundFunctionWrapper):  # type: ignore[type-arg]
    def __reduce_ex__(self, protocol: Any) -> Any:
        return getattr, (self._self_instance, self.__name__)


class _Decorated(wrapt.FunctionWrapper):  # type: ignore[type-arg]
    """Pickled by its name, as a function is: ``paddle.distributed.spawn`` and other processes unpickle it."""

    __bound_function_wrapper__ = _BoundDecorated

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__qualname__


def _kind(function: Callable[..., Any]) -> str:
    function = getattr(function, "__func__", function)  # what a classmethod or staticmethod holds
    if inspect.isgeneratorfunction(function):
        return "generator"
    if inspect.isasyncgenfunction(function):
        return "async generator"
    return "coroutine" if inspect.iscoroutinefunction(function) else "function"


def _drive_function(mode: Any, wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
    with mode:
        return wrapped(*args, **kwargs)


def _drive_generator(mode: Any, wrapped: Any, _: Any, args: Any, kwargs: Any) -> Generator[Any, Any, Any]:
    """Open while the generator's own code runs, closed while it is suspended."""
    generator = wrapped(*args, **kwargs)
    step: Callable[[], Any] = functools.partial(next, generator)
    while True:
        try:
            with mode:
                item = step()
        except StopIteration as end:
            return end.value
        try:
            sent = yield item
            step = functools.partial(generator.send, sent)
        except GeneratorExit:
            with mode:
                generator.close()
            raise
        except BaseException as error:
            step = functools.partial(generator.throw, error)


async def _drive_coroutine(mode: Any, wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
    with mode:
        return await wrapped(*args, **kwargs)


async def _drive_async_generator(mode: Any, wrapped: Any, _: Any, args: Any, kwargs: Any) -> AsyncGenerator[Any, Any]:
    """As for a generator."""
    generator = wrapped(*args, **kwargs)
    step: Callable[[], Any] = generator.__anext__
    while True:
        try:
            with mode:
                item = await step()
        except StopAsyncIteration:
            return
        try:
            sent = yield item
            step = functools.partial(generator.asend, sent)
        except GeneratorExit:
            with mode:
                await generator.aclose()
            raise
        except BaseException as error:
            step = functools.partial(generator.athrow, error)


_DRIVERS: dict[str, Callable[..., Any]] = {
    "function": _drive_function,
    "generator": _drive_generator,
    "async generator": _drive_async_generator,
    "coroutine": _drive_coroutine,
}


# ---- A mode that can be opened and closed in any order, nested, from several threads.


class _Openings(list["tuple[Mode, frames.Frame]"]):
    """What a thread has opened. When the thread ends, what it left open is closed: no other thread sees it, or could close it."""

    def drop_closed(self) -> None:
        """Hold nothing of openings that were closed, by this thread or another."""
        self[:] = [opening for opening in self if opening[1].open]

    def __del__(self) -> None:
        for mode, frame in self:
            if frame.open:
                finish(mode._steps(frame))
                message = logged("a thread ended while the mode was open in it: the mode was closed then")
                mode.run.warn(message)
                warnings.warn(message, RuntimeWarning, stacklevel=2)


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.openings = _Openings()


_of_thread = _OfThread()


class Mode:
    """A mode that can be opened: ``with mode as run:``, ``@mode``, or ``mode.start()`` / ``mode.stop()``.

    It may be opened again, nested and from several threads; all openings count into the same :attr:`run`. A mode that is dropped
    and never was opened warns: nothing ran inside it.

    Attributes:
        run: the :class:`Run` that counts the calls of all openings.

    Example:
        >>> import paddle
        >>> import padiff_shim
        >>> x = paddle.ones([2, 2])
        >>> mode = padiff_shim.reference("torch")
        >>> run = mode.start()
        >>> y = x @ x
        >>> mode.stop()
        >>> @mode
        ... def square(x):
        ...     return x @ x
        >>> y = square(x)
        >>> run.substituted
        {'matmul': 2}
    """

    _used = True  # opened once, or decorating something; True until all is set up, so that no warning comes before

    def __init__(
        self, run: Run, enabled: frozenset[str], layers: Any, plan: Any, options: ModeOptions, *, strict: bool = False
    ) -> None:
        self.run = run
        self._enabled, self._layers, self._plan, self._strict = enabled, layers, plan, strict
        self._all_threads, self._eager = options.all_threads, options.to_static == "eager"
        self._tracks_layers = layers is not None or plan.tracks_layers
        self._frames: list[frames.Frame] = []
        self._used = False

    _opener = "reference"  # the public function that opens it

    def __repr__(self) -> str:
        number = len(self._frames)
        state = f"open ({many(number, 'time')})"
        how = f"not open: use `with padiff_shim.{self._opener}({self.run.backend!r}) as run:`, or call start()"
        return f"<padiff_shim.{type(self).__name__} {state if number else how}>"

    def __getattr__(self, name: str) -> Any:
        run = self.__dict__.get("run")
        if run is None or name.startswith("_") or not (hasattr(type(run), name) or name in vars(run)):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        never = "" if self._used else tr(", and the mode was never opened: nothing was counted")
        opening = f"`with padiff_shim.{self._opener}({run.backend!r}) as run:`"
        raise ModeError(
            "{name} belongs to the run, not to the mode{never}. {opening} gives the run, and mode.run holds it",
            name=repr(name),
            never=never,
            opening=opening,
        )

    def __del__(self) -> None:
        if not self._used:
            opener = f"padiff_shim.{self._opener}({self.run.backend!r})"
            message = tr("a mode of {opener} was never opened: use `with {opener} as run:`", opener=opener)
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    def start(self) -> Run:
        """Open the mode in this thread.

        Returns:
            The run that counts.

        Raises:
            BackendError: a framework is missing, or both cannot share Paddle's current device.
            InterceptionError: this Python lays out its functions in another way.
        """
        self._used = True
        self.run.environment.update(prepare())
        from ..frameworks.torch_state import put_aside

        frame = frames.Frame(
            self.run,
            self._enabled,
            strict=self._strict,
            linear_layout=self.run.linear_layout,
            eager=self._eager,
            layers=self._layers,
            plan=self._plan,
        )
        try:
            with put_aside():
                self._open(frame)
        except BaseException:
            finish(self._steps(frame))
            raise
        return self.run

    def _open(self, frame: frames.Frame) -> None:
        """Everything that :meth:`_steps` undoes."""
        from ..intercept import amp, entry_points

        self._say(entry_points.OPS.acquire(frame.ticket))
        self._say(amp.entered_before(frame))
        if self._tracks_layers:
            self._say(entry_points.LAYERS.acquire(frame.ticket))
        self._frames.append(frame)
        self.run.opened(frame.ticket)
        self._mark_sole()
        frames.push(frame, all_threads=self._all_threads)
        if not self._all_threads and threading.current_thread() is not threading.main_thread():
            _of_thread.openings.drop_closed()
            _of_thread.openings.append((self, frame))

    def stop(self) -> None:
        """Close the latest opening of this mode. A Ctrl-C that comes meanwhile is raised when it is closed.

        Raises:
            ModeError: it is not open.
        """
        self.__exit__()

    def __exit__(self, kind: object = None, error: BaseException | None = None, traceback: object = None) -> None:
        # Not by way of another method, at whose beginning a Ctrl-C may come, too.
        steps: list[Callable[[], Any]] | None = None
        try:
            if error is not None:
                self.run.ended_by(error)
            steps = self._closing()
            finish(steps)
        except ModeError:
            raise
        except BaseException:
            finish(self._closing() if steps is None else steps)
            raise

    def _closing(self) -> list[Callable[[], Any]]:
        frame = frames.innermost_of(self._frames) or (self._frames[-1] if self._frames else None)
        if frame is None:
            raise ModeError("this mode is not open")
        return self._steps(frame)

    def _steps(self, frame: frames.Frame) -> list[Callable[[], Any]]:
        """What closes an opening, also one that was not opened wholly; each step may be made twice."""
        from ..intercept import entry_points

        return [
            functools.partial(frames.remove, frame),
            functools.partial(self._forget, frame),
            lambda: self._say(entry_points.LAYERS.release(frame.ticket)),
            self._say_unmatched,
            lambda: self._say(entry_points.OPS.release(frame.ticket)),
            functools.partial(self.run.closed, frame.ticket),
        ]

    def _forget(self, frame: frames.Frame) -> None:
        _of_thread.openings.drop_closed()
        self._frames = [other for other in self._frames if other is not frame]
        self._mark_sole()

    def _say_unmatched(self) -> None:
        if self._layers is not None:
            self._say(
                [
                    logged("layers={pattern} matched no layer that ran", pattern=repr(pattern))
                    for pattern in sorted(self._layers.unmatched)
                ]
            )

    def _say(self, remarks: list[str]) -> None:
        for remark in remarks:
            self.run.warn(remark)

    def _mark_sole(self) -> None:
        for frame in self._frames:
            frame.sole = len(self._frames) == 1 and not self._all_threads
            frame.idle = frame.idle and frame.sole

    def __enter__(self) -> Run:
        return self.start()

    def __call__(self, function: Callable[..., Any]) -> Any:
        """Decorate a function, method, generator function or coroutine function: the mode is open while its code runs.

        Raises:
            ArgumentError: for a class, or something that cannot be called.
        """
        self._used = True
        return decorate(self, function)
