"""Paddle and Torch tensors over the same memory: how a tensor of one framework becomes one of the other.

Both directions share memory (Paddle 2.6 copies where its DLPack does). A tensor that cannot cross stays native with the reason that
:func:`explain` gives; nothing is copied or reinterpreted silently.

Nothing that aliases Paddle's memory is ever handed back to Paddle: freeing a chain torch -> paddle -> torch -> paddle deadlocks
Paddle 3.3.1 where DLPack imported it. :func:`own` copies such a result first.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import paddle
import torch
from paddle.base import core
from torch.multiprocessing.reductions import StorageWeakRef

from ..interrupts import let_pass
from ..patching.functions import CFunctionPatch
from ..table import reasons
from ..table.reasons import StayNative
from ..torch_versions import current_cuda_device, current_cuda_stream, from_dlpack, set_cuda_stream, to_dlpack, without_modes
from .torch_state import looking_on
from .versions import IS_3, PaddleTensor

# Whether this Paddle knows no device but the CPU, so that no tensor can lie elsewhere.
CPU_ALONE = not core.is_compiled_with_cuda() and not paddle.device.get_all_custom_device_type()
# Dtypes by name, taken once, from tensors: other libraries write into the modules (``torch.uint16 = torch.bfloat16``).
_CPU = paddle.CPUPlace()
_bare = paddle.to_tensor([0.0], place=_CPU)  # shared by what is new until it is filled: a quarter of the price of a constructor
PADDLE_DTYPES: dict[str, Any] = {
    str(dtype).removeprefix("paddle."): dtype for dtype in vars(type(_bare.dtype)).values() if isinstance(dtype, type(_bare.dtype))
}
_OF_NUMPY = "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64 complex64 complex128"
TORCH_DTYPES: dict[str, torch.dtype] = {
    str(dtype).rpartition(".")[2]: dtype
    for dtype in (
        *(value for value in vars(torch).values() if isinstance(value, torch.dtype)),
        *(torch.from_numpy(np.empty(0, name)).dtype for name in _OF_NUMPY.split()),
        torch.empty(0).bfloat16().dtype,
    )
}
# Dtypes that can want a gradient -> torch's.
FLOATS = {
    PADDLE_DTYPES[name]: TORCH_DTYPES[name] for name in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
}
HALVES = frozenset({TORCH_DTYPES["float16"], TORCH_DTYPES["bfloat16"]})
TENSOR_TYPES = frozenset({paddle.Tensor, paddle.base.framework.EagerParamBase})


def torch_dtype(dtype: Any) -> torch.dtype | None:
    """The torch twin of a Paddle dtype (object or string), or None if torch has none."""
    return TORCH_DTYPES.get(str(dtype).rpartition(".")[2])


def dtype_of(dtype: torch.dtype) -> str:
    """The Paddle name of a torch dtype."""
    return str(dtype).rpartition(".")[2]


# ---- Paddle -> Torch, through DLPack.


def _export(tensor: PaddleTensor) -> torch.Tensor:
    """paddle -> torch through a DLPack capsule; the cheapest way (1 us), blind to ``stop_gradient``."""
    return from_dlpack(tensor.get_tensor()._to_dlpack())


class _CudaMemory:
    """Paddle's device memory with its strides, for ``torch.as_tensor`` (keeps the owner alive)."""

    def __init__(self, owner: Any, address: int, shape: Sequence[int], strides: Sequence[int], typestr: str) -> None:
        self.owner = owner
        self.__cuda_array_interface__ = {
            "shape": tuple(shape),
            "strides": tuple(strides),
            "typestr": typestr,
            "data": (address, False),
            "version": 3,
        }


def _borrow(tensor: PaddleTensor, address: int, strides: Sequence[int]) -> torch.Tensor:
    """A torch tensor over the memory of a Paddle tensor, from ``address`` on, with these strides (none negative)."""
    dtype, shape = TORCH_DTYPES[str(tensor.dtype).rpartition(".")[2]], list(tensor.shape)
    if not tensor.place.is_cpu_place():
        raw = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
        memory = _CudaMemory(tensor, address, shape, [s * dtype.itemsize for s in strides], f"<i{dtype.itemsize}")
        return torch.as_tensor(memory, device="cuda").view(raw).view(dtype)
    extent = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    buffer = (ctypes.c_char * (extent * dtype.itemsize)).from_address(address)
    buffer.owner = tensor  # torch keeps the buffer, the buffer keeps the tensor
    return torch.frombuffer(buffer, dtype=dtype).as_strided(shape, strides)


def _flipped(tensor: PaddleTensor) -> torch.Tensor:
    """A copy of a view with negative strides, which torch does not have: that of ``torch.flip``, which a Torch program calls."""
    strides = tensor.strides
    reversed_ = [axis for axis, stride in enumerate(strides) if stride < 0]
    back = sum((tensor.shape[axis] - 1) * strides[axis] for axis in reversed_)
    forth = _borrow(tensor, tensor.data_ptr() + back * tensor.element_size(), [abs(stride) for stride in strides])
    return forth.flip(reversed_)


def is_reversed(tensor: PaddleTensor) -> bool:
    """Whether a Paddle tensor is a view with a negative stride: torch gets a copy of it."""
    return not tensor.is_contiguous() and has_elements(tensor) and min(tensor.strides, default=0) < 0


def has_elements(tensor: PaddleTensor) -> bool:
    """Whether there is any. Else its strides say nothing, and to ask for them, or to export it, ends the process where it has none.

    So it does for the real part of nothing, which is not contiguous.
    """
    return bool(math.prod(tensor.shape))


def _empty_of(tensor: PaddleTensor) -> torch.Tensor:
    """Torch's tensor for a strided one without elements."""
    device = "cpu" if tensor.place.is_cpu_place() else "cuda"
    return torch.empty(list(tensor.shape), dtype=torch_dtype(tensor.dtype), device=device)


def _to_torch_3(tensor: PaddleTensor) -> torch.Tensor:
    """A Torch tensor over the memory of a Paddle tensor; a copy only where it has negative strides."""
    if not tensor.is_contiguous():
        if not has_elements(tensor):
            return _empty_of(tensor)
        if is_reversed(tensor):  # torch's import throws a C++ exception through C: the process would end
            return _flipped(tensor)
    return from_dlpack(tensor.get_tensor()._to_dlpack())  # as _export; the hot path


def _to_torch_30(tensor: PaddleTensor) -> torch.Tensor:
    """As 3.3; up to 3.2 an axis of size 1 comes out with stride 1, by which torch takes memory for channels last."""
    side = _to_torch_3(tensor)
    return side.as_strided(side.shape, tensor.strides) if 1 in side.shape and side.numel() and not is_reversed(tensor) else side


def _strides_are_whole() -> bool:
    """Whether a DLPack capsule holds the strides of axes of size 1, too."""
    probe = paddle.zeros([2, 1, 2])
    return list(_export(probe).stride()) == list(probe.strides)


def _to_torch_2(tensor: PaddleTensor) -> torch.Tensor:
    """As above, of Paddle 2."""
    if not tensor.is_contiguous():
        if not has_elements(tensor):
            return _empty_of(tensor)
        return _flipped(tensor) if is_reversed(tensor) else _borrow(tensor, tensor.data_ptr(), tensor.strides)
    exported = _export(tensor)
    return exported.view(TORCH_DTYPES["bool"]) if tensor.dtype == PADDLE_DTYPES["bool"] else exported


# Whether the bare export of a contiguous tensor is what :data:`to_torch` gives: the quickest way may then be written out.
EXPORT_IS_WHOLE = IS_3 and _strides_are_whole()
to_torch = (_to_torch_3 if EXPORT_IS_WHOLE else _to_torch_30) if IS_3 else _to_torch_2


# ---- Torch -> Paddle: Paddle tensors over Torch's memory, which any thread may free at any time.
#
# Paddle 3 frees what came through DLPack under one lock for the whole process, and freeing a tensor of Torch that has ever been a
# Python object takes the GIL. A thread that holds the GIL and waits for that lock, because it imports or frees, too, then waits
# for ever: two threads that merely exchange tensors deadlock, with this library or without. On the CPU nothing is therefore
# imported through DLPack: NumPy has no such lock. A strided tensor goes through NumPy as the span of memory that it lies in, of
# which Paddle then makes the same view.
#
# On CUDA there is only DLPack; as soon as a second thread was seen, results are copied there instead. What was imported before it
# started remains.

_Tensor = core.eager.Tensor
_new = _Tensor.__new__
_begin: Callable[[Any], None] = _bare._share_buffer_to
as_view: Callable[..., Any] = CFunctionPatch(paddle._C_ops.as_strided).original
view_of_all: Callable[..., Any] = CFunctionPatch(paddle._C_ops.view_shape).original


def takes_numpy(tensor: torch.Tensor) -> bool:
    """Whether Paddle can take the memory as it lies through NumPy: that of a contiguous CPU tensor with elements."""
    return tensor.is_contiguous() and not tensor.is_cuda and tensor.numel() > 0


def put_numpy(tensor: torch.Tensor, into: Any) -> None:
    """Have a Paddle tensor lie over the memory of a contiguous CPU tensor, whose graph is left out; its own node stays."""
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.detach().view(TORCH_DTYPES["uint16"])  # which is Paddle's bfloat16 in NumPy
    # ``force``: without its graph, and a conjugate or negative of other memory written out.
    into.get_tensor().set(tensor.numpy(force=True), _CPU, True)


def lend_numpy(tensor: torch.Tensor) -> Any:
    """A Paddle tensor over the memory of a contiguous CPU tensor."""
    lent = _new(_Tensor)
    _begin(lent)
    if tensor.dtype is torch.bfloat16:
        put_numpy(tensor, lent)
    else:  # as put_numpy, written out: each result without a gradient comes here
        lent.get_tensor().set(tensor.numpy(force=True), _CPU, True)
    lent.stop_gradient = True  # as it is; but unless it is set, clearing the gradient fails
    return lent


def lend_strided(tensor: torch.Tensor) -> Any:
    """A Paddle tensor over the memory of any CPU tensor, with its strides."""
    shape, strides = tensor.shape, tensor.stride()
    extent = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
    return as_view(lend_numpy(tensor.as_strided((extent,), (1,))), list(shape), list(strides), 0)


def copied(tensor: torch.Tensor) -> Any:
    """A copy in Paddle's own memory, contiguous."""
    result = paddle.empty(list(tensor.shape), dtype=str(tensor.dtype).rpartition(".")[2])
    if tensor.numel():
        from_dlpack(result.get_tensor()._to_dlpack()).copy_(tensor.detach())
    result.stop_gradient = True  # as it is; without a word about it Paddle has no place for a gradient, and clear_grad() fails
    return result


def import_capsule(tensor: torch.Tensor) -> Any:
    """Through DLPack: zero-copy with strides on Paddle 3, a copy on 2.6."""
    return paddle.Tensor(core.from_dlpack(to_dlpack(tensor)))


_alone = True  # whether no second thread was ever seen


def lend_cuda(tensor: torch.Tensor) -> Any:
    """A Paddle tensor over the memory of a CUDA tensor, or a copy of it as soon as there is a second thread."""
    global _alone
    _alone = _alone and threading.active_count() == 1
    return import_capsule(tensor) if _alone else copied(tensor)


def lend(tensor: torch.Tensor) -> Any:
    """A Paddle tensor over torch's memory, with its strides; one without elements has no memory, as Paddle's own."""
    if not tensor.numel():
        return copied(tensor)
    if tensor.is_cuda:
        return lend_cuda(tensor)
    return lend_numpy(tensor) if tensor.is_contiguous() else lend_strided(tensor)


def _to_paddle_2(tensor: torch.Tensor) -> Any:
    """2.6's DLPack import copies and reads strides wrongly. On the CPU NumPy shares memory instead."""
    tensor = tensor.contiguous()
    if not tensor.is_cuda:
        return lend_numpy(tensor)
    if not tensor.numel():  # else it would count as not initialised, and could share its memory with none
        place = as_view(copied(torch.empty(1, dtype=tensor.dtype, device=tensor.device)), [0], [1], 0)
        return place.reshape(list(tensor.shape))
    return copied(tensor) if tensor.dtype is torch.bool else import_capsule(tensor)  # whose DLPack knows no bool


to_paddle = lend if IS_3 else _to_paddle_2


def version_alone(tensor: PaddleTensor) -> Any:
    """A tensor without memory that counts the in-place writes of ``tensor``, under its name.

    On Paddle 2.6 the tensor itself: none of its views leaves the memory to others.
    """
    if not IS_3:
        return tensor
    place = as_view(tensor.detach(), [1], [1], 0)  # a view, which shares the counter; what detach gives shares the memory's handle
    place._clear_data()
    place.name = tensor.name
    return place


# ---- Results lie in Paddle's memory as Paddle lays them: contiguous. Which strides Torch gave them is remembered beside.
#
# Both are needed. Much of Paddle reads memory order (``Tensor.item(i)``, ``as_strided``, ``_slice``, ``strides``, ``view``,
# custom kernels), also long after the mode was closed, so a program must find what its own kernels would have left. And the
# strides of an operand decide the last bits of Torch's next kernel, so that one must get Torch's.
#
# :func:`hand_over` gives a result to Paddle and remembers; :func:`as_operand` takes a tensor to Torch and lays it out again,
# which costs one copy. What is remembered belongs to the *memory* and dies with it, so views of a result (slices, transposes,
# split axes) and tensors that took over its storage come back with the strides of the same view in Torch.


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
    if shares and _are_known(result.shape, result.stride()):
        _remember(dense, result)
    return handed


def laid_out(handed: Any, like: torch.Tensor) -> Any:
    """A result of Paddle's kernel as if Torch had laid it out as ``like``; itself where that is contiguous, or of another shape."""
    if like.is_contiguous() or list(like.shape) != list(handed.shape):
        return handed
    side = torch.empty_strided(like.shape, like.stride(), dtype=torch_dtype(handed.dtype), device=to_torch(handed).device)
    return hand_over(side.copy_(to_torch(handed)))


def _remember(dense: torch.Tensor, result: torch.Tensor) -> None:
    global _room
    if len(layouts) >= _room:
        for address in [address for address, layout in list(layouts.items()) if layout.storage.expired()]:
            layouts.pop(address, None)
        _room = 64 + 2 * len(layouts)
    shape, strides = result.shape, result.stride()
    reference = StorageWeakRef(dense.untyped_storage())
    layouts[dense.data_ptr()] = Layout(reference, dense.element_size(), shape, strides, _blocks(shape, strides))


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


def with_strides(handed: Any, result: torch.Tensor) -> Any:
    """The tensor that :func:`hand_over` made of a contiguous result, with the strides of its axes of size 1 remembered."""
    contiguous = result.is_contiguous() and 1 in result.shape and handed.data_ptr() == result.data_ptr()
    if contiguous and list(result.stride()) != list(handed.strides):
        _remember(result, result)
    return handed


def forget_strides(tensor: PaddleTensor) -> None:
    """A program called ``contiguous()``, and Paddle returned the same tensor: so it lies on Torch's side from now on."""
    layout = layouts.get(tensor.data_ptr() - tensor.offset) if layouts and has_elements(tensor) else None
    if layout is not None and math.prod(layout.shape) == math.prod(tensor.shape):
        layouts.pop(tensor.data_ptr() - tensor.offset, None)


def with_torch_strides(tensor: PaddleTensor) -> torch.Tensor:
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
    if all(size == 1 or stride == own for size, stride, own in zip(side.shape, strides, side.stride())):
        return side.as_strided(side.shape, strides)
    if 0 in strides:
        # A tensor's elements with these strides, some of them 0; itself where elements that are one in a Torch program differ
        with without_modes():  # nothing that the program calls
            first = side[tuple([slice(1) if stride == 0 else slice(None) for stride in strides])]
            if not torch.equal(first.expand(side.shape), side):  # they were written here since
                return side
            laid = torch.empty_strided(first.shape, strides, dtype=side.dtype, device=side.device).copy_(first).expand(side.shape)
        for mode in looking_on():
            mode.moved(laid, side)
        return laid
    return torch.empty_strided(side.shape, strides, dtype=side.dtype, device=side.device).copy_(side)


def _strides_of(layout: Layout, tensor: PaddleTensor, side: torch.Tensor) -> tuple[int, ...] | None:
    """Torch's strides for a view of remembered memory; None where no view of Torch's result has these elements."""
    if side.element_size() != layout.itemsize or tensor.offset % layout.itemsize:
        return None
    if not tensor.offset and side.shape == layout.shape and tensor.is_contiguous():
        return layout.strides
    return _translate(layout.blocks, tuple(side.shape), tuple(tensor.strides), tensor.offset // layout.itemsize)


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
    if any(index >= block.size for block, index in last.items()) or not _are_known(shape, translated):
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


def _are_known(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether every element has a place of its own, but for those along an axis that was expanded."""
    places = [(size, stride) for size, stride in zip(shape, strides) if stride or size == 1]
    return are_distinct([size for size, _ in places], [stride for _, stride in places])


# ---- What cannot cross, and what must not be handed back.


def explain(tensor: PaddleTensor, error: Exception) -> StayNative:
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


def _or_native(convert: Callable[[Any], torch.Tensor]) -> Callable[[Any], torch.Tensor]:
    """``convert``, where what cannot cross raises StayNative with the reason."""

    @functools.wraps(convert)
    def guarded(tensor: PaddleTensor) -> torch.Tensor:
        try:
            return convert(tensor)
        except Exception as error:
            raise explain(tensor, error) from None

    return guarded


as_operand = _or_native(with_torch_strides)  # with the strides it has in a Torch program
as_it_lies = _or_native(to_torch)  # with the strides of Paddle's memory


def as_result(tensor: PaddleTensor) -> torch.Tensor:
    """The same as :func:`as_operand` of what a native call gave: to export rnn's reserve of an evaluation ends the process."""
    return as_operand(tensor) if has_elements(tensor) else _empty_of(tensor)


def _base(tensor: torch.Tensor) -> int:
    """Where a tensor's storage begins (without making a Python object of the storage)."""
    return tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()


def shares_memory(result: torch.Tensor, inputs: Iterable[Any]) -> bool:
    """Whether ``result`` lies in the storage of one of ``inputs``."""
    storage = _base(result)
    return any(isinstance(other, torch.Tensor) and _base(other) == storage for other in inputs)


def own(result: torch.Tensor, inputs: Iterable[Any]) -> torch.Tensor:
    """``result``, or a copy that lies as it does if it shares storage with one of ``inputs``."""
    return result.clone() if shares_memory(result, inputs) else result


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
    return _OnStream(stream) if current_cuda_device() == device.index else torch.cuda.stream(stream)


class _OnStream:
    """``torch.cuda.stream`` of the current device, at a third of the time: each substituted call opens one."""

    __slots__ = ("_before", "_stream")

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        self._before = current_cuda_stream(self._stream.device_index)
        torch.cuda.set_stream(self._stream)

    def __exit__(self, *_: object) -> None:
        set_cuda_stream(self._before)


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
