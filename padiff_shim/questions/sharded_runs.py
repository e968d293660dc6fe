"""Runs of a sharded port and of its original that are recorded, in the models' dtype and in float64; how ranks meet."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import torch

from ..dispatch.frames import paused
from ..errors import PadiffShimError
from ..files import replace
from ..frameworks.copies import duplicate
from ..frameworks.weight_copies import forget
from ..proof.plans import InWider, OnTorch, WiderDtype, opened
from ..proof.programs import Inputs, PaddleSide, TorchSide, default_dtype, named_tensors, seeded
from ..recording import tensors as contents
from ..recording.layouts import weight_name
from ..recording.names import NameMap
from ..recording.record import record
from ..recording.tensors import Array
from ..text import SENTENCE, shown, tr
from ..trees import as_array

WIDE = "float64"
Step = Callable[..., Any]
_reducers: list[Any] = []  # of float64, alive as long as the parameters that have their hooks


def dtype_of_model(model: Any) -> str:
    """The dtype of the first parameter of floats."""
    names = (str(parameter.dtype).rpartition(".")[2] for parameter in model.parameters())
    return next((name for name in names if "float" in name), "float32")


def digest_of(inputs: Inputs, dtype: str) -> str:
    """Of the bits that a rank's share of the port gets."""
    tensors = named_tensors(inputs.of("paddle", dtype))
    return contents.digest(
        np.array([f"{name} {list(tensor.shape)} {contents.digest(as_array(tensor))}" for name, tensor in tensors])
    )


def record_original(folder: Path, module: torch.nn.Module, inputs: Inputs, loss: Step, seed: int, *, wide: bool) -> bool:
    """Record a forward and a backward of a copy of the original; whether it has drawn random numbers."""
    model, dtype = duplicate(module), dtype_of_model(module)
    if wide:
        model = TorchSide.converted(model, WIDE)
    device = next((str(parameter.device) for parameter in model.parameters()), "cpu")
    for parameter in model.parameters():
        parameter.grad = None
    positional, keywords = inputs.of("torch", dtype, wide=WIDE if wide else "", device=device)
    recording = record(folder, model, gradients=True, parameters=True, budget=_ALL)
    recording.alone = True
    with contextlib.ExitStack() as stack:
        stack.enter_context(seeded(seed))
        if wide:
            stack.enter_context(default_dtype(WIDE))
            if dtype != WIDE:
                stack.enter_context(WiderDtype(WIDE))
        stood = torch.get_rng_state()
        stack.enter_context(recording)
        value = loss(model(*positional, **keywords))
        recording.note("loss", value)
        value.backward()
        recording.stepping(model.parameters())
        return not torch.equal(stood, torch.get_rng_state())


def write_constants(file: Path, module: torch.nn.Module) -> None:
    """The original's buffers of floats that no forward writes: tables, frequencies, masks."""
    buffers = {name: buffer for name, buffer in module.named_buffers() if buffer.is_floating_point()}
    constants = {name: as_array(buffer) for name, buffer in buffers.items() if not name.endswith(STATISTICS)}
    np.savez(file, **constants)  # type: ignore[arg-type]


def near_constants(file: Path, layer: paddle.nn.Layer, names: NameMap) -> dict[str, Array]:
    """The port's buffers that differ from the original's constants of their names by rounding, as they are in the original.

    Frameworks compute such tables themselves, in float32; their last bits are no mistake, and no rounding of float64.
    """
    near: dict[str, Array] = {}
    with np.load(file, allow_pickle=False) as constants:
        for name, buffer in layer.named_buffers():
            path = names.path(weight_name(name))
            if path not in constants or not buffer._is_initialized() or str(buffer.dtype).rpartition(".")[2] not in _ROUNDED:
                continue
            own, wanted = as_array(buffer), constants[path]
            if own.shape != wanted.shape or np.array_equal(own, wanted) or not np.isfinite(wanted).all():
                continue
            rounded = _ROUNDED[str(buffer.dtype).rpartition(".")[2]] * float(np.abs(wanted).max(initial=0.0))
            if float(np.abs(own.astype(np.float64) - wanted).max(initial=0.0)) <= rounded:
                near[name] = wanted
    return near


STATISTICS = ("running_mean", "running_var")
_ROUNDED = {"float32": 2.0**-20, "float16": 2.0**-8, "bfloat16": 2.0**-5}  # a few units in the last place of the largest element


def record_port(
    folder: Path, layer: paddle.nn.Layer, inputs: Inputs, step: Step, seed: int, constants: Mapping[str, Array], *, wide: bool
) -> bool:
    """Record this rank's step of the port on Torch's kernels; whether it has drawn random numbers.

    ``constants``: values of buffers for this run.
    """
    dtype = dtype_of_model(layer)
    plan: OnTorch = InWider(WIDE) if wide and dtype != WIDE else OnTorch()
    recording = record(folder, layer, gradients=True, parameters=True, budget=_ALL)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_kept(layer))
        for name, buffer in layer.named_buffers():
            if name in constants:
                buffer.set_value(paddle.to_tensor(constants[name]).astype(buffer.dtype))
        stack.enter_context(seeded(seed))
        if wide:
            stack.enter_context(default_dtype(WIDE))
            # Make float64 of a layer, in place: copies of a sharded layer would lose the hooks with which ranks exchange gradients
            PaddleSide.converted(layer, WIDE)
            for wrapper in _wrappers(layer):
                wrapper.init_reducer()  # its buckets have the dtype of the parameters
                _reducers.append(wrapper._reducer)
        positional, keywords = inputs.of("paddle", dtype, wide=WIDE if wide else "")
        stack.enter_context(opened(plan, layout="copy"))
        stack.enter_context(recording)
        value = step(layer, *positional, **keywords)
        if value is not None:
            recording.note("loss", value)
        with paused():
            recording.stepping(layer.parameters())
    return bool(plan.drawn)


_ALL = 1 << 50  # bytes: no value may be missing


def _wrappers(layer: paddle.nn.Layer) -> list[Any]:
    return [part for part in (layer, *layer.sublayers()) if isinstance(part, paddle.DataParallel) and hasattr(part, "_reducer")]


@contextlib.contextmanager
def _kept(layer: paddle.nn.Layer) -> Iterator[None]:
    """A layer is behind it what it was before: dtype, memory, buffers' values, gradients."""
    layers = [layer, *layer.sublayers()]
    dtypes = [(part, part._dtype) for part in layers]
    buffers = [(part._buffers, dict(part._buffers)) for part in layers]
    reducers = [(wrapper, wrapper._reducer) for wrapper in _wrappers(layer)]
    tensors = [tensor for tensor in (*layer.buffers(), *layer.parameters()) if tensor._is_initialized()]
    memory = [(tensor, _memory_of(tensor)) for tensor in tensors]
    written = [tensor for tensor in tensors if tensor.stop_gradient]  # running statistics are parameters that want no gradient
    values = [(tensor, tensor.detach().clone()) for tensor in written]
    gradients = [(parameter, parameter.grad) for parameter in layer.parameters()]
    gradients = [(parameter, None if gradient is None else gradient.clone()) for parameter, gradient in gradients]
    mains = [(parameter, parameter.main_grad) for parameter in layer.parameters() if hasattr(parameter, "main_grad")]
    _clear(layer)
    try:
        yield
    finally:
        _clear(layer)
        for tensor, held in memory:
            forget(tensor)
            tensor.get_tensor()._share_data_with(held)
        for own, before in buffers:
            own.clear()
            own.update(before)
        for tensor, value in values:
            tensor.set_value(value)
        for part, dtype in dtypes:
            part._dtype = dtype
        for wrapper, reducer in reducers:
            wrapper._reducer = reducer
        for parameter, gradient in gradients:
            if gradient is not None:
                parameter.grad = gradient
        for parameter, main in mains:
            parameter.main_grad = main


def _memory_of(tensor: paddle.Tensor) -> Any:
    """A tensor's elements, held where another dtype takes their place (a detached tensor would get it, too)."""
    own = tensor.get_tensor()
    held = type(own)()
    held._share_data_with(own)
    return held


def _clear(layer: paddle.nn.Layer) -> None:
    for parameter in layer.parameters():
        parameter.clear_gradient(False)
        if hasattr(parameter, "main_grad"):  # that of mixed precision, to which hooks add
            parameter.main_grad = None


# ---- Ranks of one program that wait for each other in a folder: where one fails, all end with its error.

_PAUSE = 0.02  # seconds between two looks


class Rendezvous:
    """Marks of all ranks in a folder that each of them sees.

    A rank waits for marks, not in a collective: a peer that has failed, or whose process is gone, leaves nobody waiting.

    Args:
        folder: the folder, of this call alone.
        rank, count: this rank, and how many there are.
        timeout: seconds to wait for a mark.
    """

    def __init__(self, folder: Path, rank: int, count: int, timeout: float) -> None:
        self._folder, self.rank, self.count, self._timeout = folder, rank, count, timeout
        self.mark("begun", {"host": socket.gethostname(), "process": os.getpid()})

    def mark(self, stage: str, what: Any = None) -> None:
        """This rank is through with a stage."""
        replace(self._path(stage, self.rank), json.dumps(what))

    def wait(self, stage: str, ranks: Iterable[int] | None = None) -> dict[int, Any]:
        """Wait until ranks are through with a stage; what they say.

        Raises:
            PadiffShimError: a rank has failed or ended, or the time is over.
        """
        waiting, until = list(range(self.count) if ranks is None else ranks), time.monotonic() + self._timeout
        answers: dict[int, Any] = {}
        while True:
            answers |= {rank: self._read(stage, rank) for rank in waiting if self._path(stage, rank).exists()}
            waiting = [rank for rank in waiting if rank not in answers]
            if not waiting:
                return answers
            if (failure := self.failure()) and not all(self._path(stage, rank).exists() for rank in waiting):
                raise PadiffShimError(failure)
            if time.monotonic() > until:
                raise PadiffShimError(
                    "rank {rank} has waited {seconds:g} s for ranks {ranks}: all ranks call this and see {folder}, "
                    "or need more time (timeout=)",
                    rank=self.rank,
                    seconds=self._timeout,
                    ranks=", ".join(map(str, waiting)),
                    folder=self._folder,
                )
            time.sleep(_PAUSE)

    def failure(self) -> str:
        """What the first other rank that has failed says, or which has ended; "" where none has."""
        failures = []
        for rank in range(self.count):
            with contextlib.suppress(OSError):
                failures.append((self._path("failed", rank).stat().st_mtime_ns, rank))
        for _, rank in sorted(failures):
            if rank != self.rank:
                return tr("rank {rank} failed: {error}", rank=rank, error=shown(self._read("failed", rank), SENTENCE))
        gone = [0] if not self._folder.is_dir() else [rank for rank in range(self.count) if self._is_gone(rank)]
        return tr("the process of rank {rank} has ended", rank=gone[0]) if gone else ""

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Within it an error of this rank ends the others, too, and this rank's error names that of the rank that failed first.

        Raises:
            PadiffShimError: another rank had failed before.
        """
        try:
            yield
        except BaseException as error:
            first = self.failure()
            with contextlib.suppress(Exception):
                self.mark("failed", f"{type(error).__name__}: {error}")
            if first and isinstance(error, Exception) and not isinstance(error, PadiffShimError):
                raise PadiffShimError(first) from error
            raise

    def _path(self, stage: str, rank: int) -> Path:
        return self._folder / f"{stage}-rank{rank}.json"

    def _read(self, stage: str, rank: int) -> Any:
        return json.loads(self._path(stage, rank).read_text(encoding="utf-8"))

    def _is_gone(self, rank: int) -> bool:
        """Whether the process of a rank of this machine has ended."""
        with contextlib.suppress(OSError, ValueError):
            begun = self._read("begun", rank)
            if begun["host"] == socket.gethostname():
                return not _lives(begun["process"])
        return False


def _lives(process: int) -> bool:
    """Whether a process of this machine runs; one that has ended may still wait for its parent to ask."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    return True
