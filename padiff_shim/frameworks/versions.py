"""What differs between the Paddle versions, in one place (those of :mod:`padiff_shim.tested` were measured).

| | 2.6 | 3.x |
|---|---|---|
| DLPack export of a strided view | strides dropped: wrong values | right |
| DLPack export of bool | arrives as uint8 | bool |
| DLPack import | copies, drops strides, refuses bool | zero-copy, strides kept |
| raw C functions held by other modules | none | 234 attributes |
| call form at ``_C_ops`` | complete positional | also the user's raw spelling |
| zero-size operands | many refused | as torch has them |
| post hooks on grad nodes | none | ``_register_post_hook`` |
| attributes of one's own on a tensor | parameters only | any |
| autocast of layer_norm and promotion | looks at float16 only | float16 and bfloat16 |

Within 3.x: up to 3.2 a DLPack capsule has a stride of 1 for every axis of size 1, and a division's backward reads a copy of a
reversed operand; up to 3.1 the C function of logsumexp takes its axes in a list; in 3.0 equal elements share no gradient, as
in 2.6.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import paddle
import torch
from paddle.base import core
from torch.utils.weak import WeakIdKeyDictionary

from ..table.op import Entry
from .lend import as_view, copied, import_capsule, lend, lend_numpy

_TOLD = tuple(int(part) for part in paddle.__version__.split(".")[:2] if part.isdigit())
VERSION = _TOLD if any(_TOLD) else (99, 0)  # 0.0.0 is a development build
IS_3 = VERSION >= (3, 0)

# C functions that take axes in a list only; Paddle's own functions give them so, and what is called below has to.
AXES_IN_LISTS = frozenset({"paddle._C_ops.logsumexp"} if (3, 0) <= VERSION < (3, 2) else ())


def leads_here(entry: Entry) -> bool:
    """Whether an entry's target is its op's in this Paddle, or an older or a newer one's (``Entry.until``, ``Entry.since``)."""
    passed = entry.until is not None and hasattr(paddle._C_ops, entry.until)
    return not passed and (entry.since is None or hasattr(paddle._C_ops, entry.since))


# Grad nodes of 3.x show what passes through them.
NODE_HOOKS = hasattr(getattr(core, "GradNodeBase", None), "_register_post_hook")


def _attribute_3(tensor: Any, name: str) -> Any:
    return tensor.__dict__.get(name)


_attributes = WeakIdKeyDictionary()  # 2.6: tensor -> its attributes, which die with it


def _attribute_2(tensor: Any, name: str) -> Any:
    attributes = _attributes.get(tensor)
    return None if attributes is None else attributes.get(name)


def _set_attribute_2(tensor: Any, name: str, value: Any) -> None:
    _attributes.setdefault(tensor, {})[name] = value


def hide_from_tracer(*folders: str) -> None:
    """3.x: Paddle's bytecode tracer (``to_static``) leaves the code in these folders alone, as it does with Paddle's own."""
    skip = getattr(core, "eval_frame_skip_file_prefix", None)
    if skip is not None:
        from paddle.jit.sot.opcode_translator.skip_files import skip_file_names

        skip_file_names.update(folders)
        skip(tuple(skip_file_names))


def _no_tracer(tracer: Any) -> None:
    return None


# 3.x: exchanges what Paddle's bytecode tracer (SOT) does with frames; None: nothing. Called where the frames below must not be
# traced, and never through a function of Python's: a traced frame that ends puts the tracer back.
exchange_tracer: Callable[[Any], Any] = getattr(core, "set_eval_frame", _no_tracer)


def _export(tensor: Any) -> torch.Tensor:
    """paddle -> torch through a DLPack capsule; the cheapest door (1 us), blind to ``stop_gradient``."""
    return torch._C._from_dlpack(tensor.get_tensor()._to_dlpack())


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


def _borrow(tensor: Any, address: int, strides: Sequence[int]) -> torch.Tensor:
    """A torch tensor over the memory of a Paddle tensor, from ``address`` on, with these strides (none negative)."""
    dtype, shape = getattr(torch, str(tensor.dtype).rpartition(".")[2]), list(tensor.shape)
    if not tensor.place.is_cpu_place():
        raw = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
        memory = _CudaMemory(tensor, address, shape, [s * dtype.itemsize for s in strides], f"<i{dtype.itemsize}")
        return torch.as_tensor(memory, device="cuda").view(raw).view(dtype)
    extent = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    buffer = (ctypes.c_char * (extent * dtype.itemsize)).from_address(address)
    buffer.owner = tensor  # torch keeps the buffer, the buffer keeps the tensor
    return torch.frombuffer(buffer, dtype=dtype).as_strided(shape, strides)


def _flipped(tensor: Any) -> torch.Tensor:
    """A copy of a view with negative strides, which torch does not have: that of ``torch.flip``, which a Torch program calls."""
    strides = tensor.strides
    reversed_ = [axis for axis, stride in enumerate(strides) if stride < 0]
    back = sum((tensor.shape[axis] - 1) * strides[axis] for axis in reversed_)
    forth = _borrow(tensor, tensor.data_ptr() + back * tensor.element_size(), [abs(stride) for stride in strides])
    return forth.flip(reversed_)


def is_reversed(tensor: Any) -> bool:
    """Whether a Paddle tensor is a view with a negative stride: torch gets a copy of it."""
    return not tensor.is_contiguous() and has_elements(tensor) and min(tensor.strides, default=0) < 0


def has_elements(tensor: Any) -> bool:
    """Whether there is any. Else its strides say nothing, and to ask for them, or to export it, ends the process where it has none.

    So it does for the real part of nothing, which is not contiguous.
    """
    return bool(math.prod(tensor.shape))


def _empty_of(tensor: Any) -> torch.Tensor:
    """Torch's tensor for a strided one without elements."""
    device = "cpu" if tensor.place.is_cpu_place() else "cuda"
    return torch.empty(list(tensor.shape), dtype=getattr(torch, str(tensor.dtype).rpartition(".")[2]), device=device)


def _to_torch_3(tensor: Any) -> torch.Tensor:
    if not tensor.is_contiguous():
        if not has_elements(tensor):
            return _empty_of(tensor)
        if is_reversed(tensor):  # torch's import throws a C++ exception through C: the process would end
            return _flipped(tensor)
    return torch._C._from_dlpack(tensor.get_tensor()._to_dlpack())  # as _export; the hot path


def _to_torch_30(tensor: Any) -> torch.Tensor:
    """As 3.3; up to 3.2 an axis of size 1 comes out with stride 1, by which torch takes memory for channels last."""
    side = _to_torch_3(tensor)
    return side.as_strided(side.shape, tensor.strides) if 1 in side.shape and side.numel() and not is_reversed(tensor) else side


def _strides_are_whole() -> bool:
    """Whether a DLPack capsule holds the strides of axes of size 1, too."""
    probe = paddle.zeros([2, 1, 2])
    return list(_export(probe).stride()) == list(probe.strides)


def _to_torch_2(tensor: Any) -> torch.Tensor:
    if not tensor.is_contiguous():
        if not has_elements(tensor):
            return _empty_of(tensor)
        return _flipped(tensor) if is_reversed(tensor) else _borrow(tensor, tensor.data_ptr(), tensor.strides)
    exported = _export(tensor)
    return exported.view(torch.bool) if tensor.dtype == paddle.bool else exported


def _to_paddle_2(tensor: torch.Tensor) -> Any:
    """2.6's DLPack import copies and reads strides wrongly. On the CPU the NumPy door shares memory instead."""
    tensor = tensor.contiguous()
    if not tensor.is_cuda:
        return lend_numpy(tensor)
    if not tensor.numel():  # else it would count as not initialised, and could share its memory with none
        place = as_view(copied(torch.empty(1, dtype=tensor.dtype, device=tensor.device)), [0], [1], 0)
        return place.reshape(list(tensor.shape))
    return copied(tensor) if tensor.dtype is torch.bool else import_capsule(tensor)  # whose DLPack knows no bool


# Whether the bare export of a contiguous tensor is what :data:`to_torch` gives: what is quickest may then be written out.
EXPORT_IS_WHOLE = IS_3 and _strides_are_whole()


def _version_alone(tensor: Any) -> Any:
    """A tensor without memory that counts the in-place writes of ``tensor``, under its name."""
    place = as_view(tensor.detach(), [1], [1], 0)  # a view, which shares the counter; what detach gives shares the memory's handle
    place._clear_data()
    place.name = tensor.name
    return place


if IS_3:
    version_alone = _version_alone
    to_torch = _to_torch_3 if EXPORT_IS_WHOLE else _to_torch_30
    to_paddle = lend
    attribute = _attribute_3  # what is kept on a tensor under a name, or None
    set_attribute = setattr
else:

    def version_alone(tensor: Any) -> Any:
        """The tensor itself: no view of 2.6 leaves its memory to others."""
        return tensor

    to_torch = _to_torch_2
    to_paddle = _to_paddle_2
    attribute = _attribute_2
    set_attribute = _set_attribute_2


_give_back = ctypes.pythonapi.Py_DecRef
_give_back.argtypes, _give_back.restype = [ctypes.py_object], None


@functools.cache
def _left_behind() -> int:
    """References to a grad node that each reading of ``Tensor.grad_fn`` leaves behind: 1 in Paddle 3.3.1.

    Measured once, so that a Paddle without that leak is not harmed: of one node read twice, the second reading adds a name for it
    and what it leaves behind.
    """
    leaf = paddle.zeros([1])
    leaf.stop_gradient = False
    with paddle.enable_grad():
        result = leaf.reshape([1, 1])
    node = result.grad_fn
    before = sys.getrefcount(node)
    again = result.grad_fn
    extra = sys.getrefcount(node) - before - 1 if again is node else 0
    for _ in range(2 * extra):
        _give_back(node)
    return extra


def grad_node(tensor: Any) -> Any:
    """``tensor.grad_fn``, without the reference that Paddle leaves behind: the node would live for ever, with all that it holds."""
    extra = _left_behind()
    node = tensor.grad_fn
    if node is not None:
        for _ in range(extra):
            _give_back(node)
    return node
