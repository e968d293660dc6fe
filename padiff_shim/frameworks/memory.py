"""Paddle and Torch tensors over the same memory: the only door between the two frameworks' tensors."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import paddle
import torch
from paddle.base import core
from torch.multiprocessing.reductions import StorageWeakRef

from ..interrupts import let_pass
from ..table import reasons
from ..table.reasons import StayNative
from .versions import has_elements, is_reversed, to_paddle, to_torch

# ---- Results lie in Paddle's memory as Paddle lays them: contiguous. Which strides Torch gave them is remembered beside.
#
# Both are needed. Much of Paddle reads memory order (``Tensor.item(i)``, ``as_strided``, ``_slice``, ``strides``, ``view``,
# custom
# kernels), also long after the mode was closed, so a program must find what its own kernels would have left. And the strides of
# an
# operand decide the last bits of Torch's next kernel, so that one must get Torch's.
#
# :func:`hand_over` gives a result to Paddle and remembers; :func:`as_operand` takes a tensor to Torch and lays it out again,
# which
# costs one copy. What is remembered belongs to the *memory* and dies with it, so views of a result (slices, transposes, split
# axes)
# and tensors that took over its storage come back with the strides of the same view in Torch.


class Block(NamedTuple):
    """Neighbouring axes of a result that lie one behind the other on both sides."""

    size: int
    dense: int  # the step in Paddle's memory, in elements
    stride: int  # the step as Torch laid it


class Layout(NamedTuple):
    """How Torch laid out a result that lies contiguously in Paddle's memory."""

    storage: StorageWeakRef
    itemsize: int
    shape: torch.Size
    strides: tuple[int, ...]
    blocks: tuple[Block, ...]  # from the outermost


layouts: dict[int, Layout] = {}  # by the address of the memory
_room = 64  # how many layouts may be kept before the dead ones are dropped


def hand_over(result: torch.Tensor) -> Any:
    """A Paddle tensor of the result's values, contiguous as Paddle's own results are; shares memory with a contiguous one."""
    if result.is_contiguous():
        return to_paddle(result)
    dense = result.contiguous()
    handed = to_paddle(dense)
    shares = handed.data_ptr() == dense.data_ptr()  # else it was copied: not ours to watch
    if shares and are_distinct(result.shape, result.stride()):
        _remember(dense, result)
    return handed


def _remember(dense: torch.Tensor, result: torch.Tensor) -> None:
    global _room
    if len(layouts) >= _room:
        for address in [address for address, layout in list(layouts.items()) if layout.storage.expired()]:
            layouts.pop(address, None)
        _room = 64 + 2 * len(layouts)
    shape, strides = result.shape, result.stride()
    reference = StorageWeakRef(dense.untyped_storage())
    layouts[dense.data_ptr()] = Layout(reference, dense.element_size(), shape, strides, _blocks(shape, strides))


def with_torch_strides(tensor: Any) -> torch.Tensor:
    """Torch's side of a Paddle tensor with the strides it has in a Torch program: shares memory unless they were remembered."""
    side = to_torch(tensor)
    if not layouts or not side.numel():
        return side
    address = tensor.data_ptr() - tensor.offset
    layout = layouts.get(address)
    if layout is None:
        return side
    if layout.storage.expired():  # somebody else's memory by now
        layouts.pop(address, None)
        return side
    strides = _strides_of(layout, tensor, side)
    if strides is None or strides == side.stride():
        return side
    return torch.empty_strided(side.shape, strides, dtype=side.dtype, device=side.device).copy_(side)


def _strides_of(layout: Layout, tensor: Any, side: torch.Tensor) -> tuple[int, ...] | None:
    """Torch's strides for a view of remembered memory; None where no view of Torch's result has these elements."""
    if side.element_size() != layout.itemsize or tensor.offset % layout.itemsize:
        return None
    if not tensor.offset and side.shape == layout.shape and tensor.is_contiguous():
        return layout.strides
    return _translate(layout.blocks, tuple(side.shape), tuple(tensor.strides), tensor.offset // layout.itemsize)


def _blocks(shape: Sequence[int], strides: Sequence[int]) -> tuple[Block, ...]:
    """The axes of a result, merged where Torch could view them as one."""
    blocks: list[Block] = []
    dense = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size == 1:
            continue
        if blocks and stride == blocks[-1].size * blocks[-1].stride:
            blocks[-1] = blocks[-1]._replace(size=blocks[-1].size * size)
        else:
            blocks.append(Block(size, dense, stride))
        dense *= size
    return tuple(reversed(blocks))


def _translate(blocks: Sequence[Block], shape: Sequence[int], strides: Sequence[int], offset: int) -> tuple[int, ...] | None:
    """The strides of the view (``shape``, ``strides``, ``offset``) of contiguous memory, in the memory that ``blocks`` describe."""
    offset += sum((size - 1) * stride for size, stride in zip(shape, strides) if stride < 0)
    last = {block: offset // block.dense % block.size for block in blocks}  # the largest index that the view reaches
    translated = []
    for size, stride in zip(shape, map(abs, strides)):
        block = next((block for block in blocks if block.dense <= stride), None)
        if block is None or stride % block.dense:
            return None
        step = stride // block.dense
        last[block] += step * (size - 1)
        translated.append(step * block.stride)
    if any(index >= block.size for block, index in last.items()) or not are_distinct(shape, translated):
        return None
    return tuple(translated)


def are_distinct(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether every element has a place of its own."""
    reach = 0
    for stride, size in sorted((stride, size) for stride, size in zip(strides, shape) if size > 1):
        if stride <= reach:
            return False
        reach += stride * (size - 1)
    return True


# ---- paddle <-> torch: the only door between the two frameworks' tensors.
#
# Both directions share memory (exceptions on Paddle 2.6: see :mod:`.dialect`). What cannot be shared stays native with the reason
# that :func:`explain` gives; nothing is copied or reinterpreted silently.
#
# Rule kept everywhere: nothing that aliases Paddle memory is ever handed back to Paddle. Freeing a chain torch -> paddle -> torch
# ->
# paddle deadlocks Paddle 3.3.1 where DLPack imported it, so :func:`own` copies such a result first.

__all__ = [
    "CPU_ALONE",
    "FLOATS",
    "HALVES",
    "TENSOR_TYPES",
    "as_it_lies",
    "as_operand",
    "check_target",
    "dtype_of",
    "explain",
    "hand_over",
    "own",
    "shares_memory",
    "stream_of",
    "to_paddle",
    "to_torch",
    "torch_dtype",
]

# Whether this Paddle knows no device but the CPU, so that no tensor can lie elsewhere.
CPU_ALONE = not core.is_compiled_with_cuda() and not paddle.device.get_all_custom_device_type()
# Dtypes that can want a gradient -> torch's.
FLOATS = {
    getattr(paddle, name): getattr(torch, name) for name in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
}
HALVES = frozenset({torch.float16, torch.bfloat16})
TENSOR_TYPES = frozenset({paddle.Tensor, paddle.base.framework.EagerParamBase})


def torch_dtype(dtype: Any) -> torch.dtype | None:
    """The torch twin of a Paddle dtype (object or string), or None if torch has none."""
    torch_type = getattr(torch, str(dtype).rpartition(".")[2], None)
    return torch_type if isinstance(torch_type, torch.dtype) else None


def dtype_of(dtype: torch.dtype) -> str:
    """The Paddle name of a torch dtype."""
    return str(dtype).rpartition(".")[2]


def explain(tensor: Any, error: Exception) -> StayNative:
    """Why ``tensor`` did not cross: looked up only after it failed."""
    let_pass(error)
    if getattr(tensor, "is_dist", bool)():
        return StayNative(reasons.DISTRIBUTED)
    if tensor.is_sparse() or tensor.is_selected_rows():
        return StayNative(reasons.SPARSE)
    if torch_dtype(tensor.dtype) is None:
        return StayNative(reasons.NO_TWIN, dtype=tensor.dtype)
    if not tensor._is_initialized():
        return StayNative(reasons.UNINITIALISED)
    if not (tensor.place.is_cpu_place() or tensor.place.is_gpu_place()):
        return StayNative(reasons.PLACE, place=tensor.place)
    return StayNative(reasons.NOT_SHARED, error=type(error).__name__)


def _or_native(door: Callable[[Any], torch.Tensor]) -> Callable[[Any], torch.Tensor]:
    """``door``, where what cannot cross raises StayNative with the reason."""

    @functools.wraps(door)
    def guarded(tensor: Any) -> torch.Tensor:
        try:
            return door(tensor)
        except Exception as error:
            raise explain(tensor, error) from None

    return guarded


as_operand = _or_native(with_torch_strides)  # with the strides it has in a Torch program
as_it_lies = _or_native(to_torch)  # with the strides of Paddle's memory


def _base(tensor: torch.Tensor) -> int:
    """Where a tensor's storage begins (without making a Python object of the storage)."""
    return tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()


def shares_memory(result: torch.Tensor, inputs: Iterable[Any]) -> bool:
    """Whether ``result`` lies in the storage of one of ``inputs``."""
    storage = _base(result)
    return any(isinstance(other, torch.Tensor) and _base(other) == storage for other in inputs)


def own(result: torch.Tensor, inputs: Iterable[Any]) -> torch.Tensor:
    """``result``, or a contiguous copy if it shares storage with one of ``inputs``."""
    return result.clone(memory_format=torch.contiguous_format) if shares_memory(result, inputs) else result


@functools.cache
def _external_stream(pointer: int, device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.ExternalStream(pointer, device=device)


_NOWHERE = contextlib.nullcontext()


def stream_of(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """A context in which torch launches on Paddle's current stream of the device.

    With both frameworks on one stream no synchronisation is needed, and memory that one allocator frees is reused only after
    the work queued before on that stream: both allocators are stream-ordered.
    """
    if device.type != "cuda":
        return _NOWHERE
    pointer = core._get_current_stream(device.index).cuda_stream  # type: ignore[attr-defined]  # a CPU build has none
    stream = _external_stream(pointer, device)
    return _OnStream(stream) if torch._C._cuda_getDevice() == device.index else torch.cuda.stream(stream)


class _OnStream:
    """``torch.cuda.stream`` of the current device, at a third of the time: each substituted call opens one."""

    __slots__ = ("_before", "_stream")

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        self._before = torch._C._cuda_getCurrentStream(self._stream.device_index)
        torch.cuda.set_stream(self._stream)

    def __exit__(self, *_: object) -> None:
        number, device, kind = self._before
        torch._C._cuda_setStream(stream_id=number, device_index=device, device_type=kind)


@functools.cache
def missing_kernels(place: str) -> str | None:
    """Why Paddle's own kernels write nothing on a device, if so: a wheel may hold none for the card, and says nothing."""
    if not place.startswith("gpu") or paddle.full([1], 7.0).item() == 7.0:
        return None
    major, minor = torch.cuda.get_device_capability(int(place.partition(":")[2] or 0))
    return (
        f"this Paddle has no CUDA kernels for {paddle.device.cuda.get_device_name()!r} (compute capability {major}.{minor}): its "
        "own ops leave their results unwritten and say nothing; install a Paddle that is built for this card"
    )


def check_devices() -> str:
    """Paddle's current device, once it is known that torch can use it too.

    Raises:
        ValueError: with the reason if it cannot.
    """
    place = paddle.device.get_device()
    kind, _, index = place.partition(":")
    if kind == "cpu":
        return place
    if kind != "gpu":
        raise ValueError(f"Paddle is on {place!r}; torch shares memory with Paddle on 'cpu' and 'gpu' only")
    if not torch.cuda.is_available():
        raise ValueError(
            f"Paddle is on {place!r} but this torch {torch.__version__} cannot use a GPU; install a CUDA build of torch, or call "
            "paddle.set_device('cpu')"
        )
    if int(index or 0) >= torch.cuda.device_count():
        raise ValueError(f"Paddle is on {place!r} but torch sees {torch.cuda.device_count()} device(s): both must see the same")
    torch_name, paddle_name = torch.cuda.get_device_name(int(index or 0)), paddle.device.cuda.get_device_name(int(index or 0))
    if torch_name != paddle_name:
        raise ValueError(
            f"device {place!r} is {paddle_name!r} for Paddle but {torch_name!r} for torch: both must number devices alike"
        )
    return place


@functools.cache
def confine_torch() -> None:
    """Torch uses one thread from now on. In a forked child its kernels wait for ever for the threads of the parent's pool."""
    torch.set_num_threads(1)


# Paddle's dygraph tracer, or None: grad mode and autocast state (thread-local inside).
grad_tracer: Callable[[], Any] = paddle.base.framework._dygraph_tracer


AMP_OFF = core.AmpLevel.O0


@contextlib.contextmanager
def autocast_off() -> Iterator[None]:
    """Paddle's autocast casts nothing inside."""
    tracer = grad_tracer()
    level = tracer._amp_level
    tracer._amp_level = AMP_OFF
    try:
        yield
    finally:
        tracer._amp_level = level


def check_target(operands: Sequence[Any], *, elementwise: bool) -> None:
    """Raise StayNative where what Torch would write into the first operand, a Paddle tensor, is not what Paddle's kernel writes.

    ``elementwise``: an operand that is the target itself is read before the write, element by element.
    """
    target = operands[0]
    if not (isinstance(target, paddle.Tensor) and has_elements(target)):
        return
    if is_reversed(target):
        raise StayNative(reasons.NEGATIVE_STRIDES)
    if not target.is_contiguous() and not are_distinct(target.shape, target.strides):
        raise StayNative(reasons.SHARED_ELEMENTS)
    if target.is_contiguous() and any(_read_while_written(target, other, elementwise) for other in operands[1:]):
        raise StayNative(reasons.OVERLAP)


def _read_while_written(target: Any, other: Any, elementwise: bool) -> bool:
    """Whether a contiguous operand lies in the target's memory (``elementwise``: but is not all of it); others are copied first."""
    if not isinstance(other, paddle.Tensor) or not other.is_contiguous():
        return False
    first, begin = target.data_ptr() or 0, other.data_ptr() or 0  # None on 2.6 where there are no elements
    last, end = first + target.size * target.element_size(), begin + other.size * other.element_size()
    return bool(first < end and begin < last and not (elementwise and (first, last) == (begin, end)))
