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
import sys
from collections.abc import Callable
from typing import Any

import paddle
from paddle.base import core
from torch.utils.weak import WeakIdKeyDictionary

from ..table.op import Entry

# Objects of Paddle, for which it ships no types.
PaddleTensor = Any
PaddleOptimizer = Any
PaddleTracer = Any

_PARTS = tuple(int(part) for part in paddle.__version__.split(".")[:2] if part.isdigit())
VERSION = _PARTS if any(_PARTS) else (99, 0)  # 0.0.0 is a development build
IS_3 = VERSION >= (3, 0)

# C functions that take axes in a list only; Paddle's own functions give them so, and what is called below has to.
AXES_IN_LISTS = frozenset({"paddle._C_ops.logsumexp"} if (3, 0) <= VERSION < (3, 2) else ())


def leads_here(entry: Entry) -> bool:
    """Whether an entry's target is its op's in this Paddle, or an older or a newer one's (``Entry.until``, ``Entry.since``)."""
    passed = entry.until is not None and hasattr(paddle._C_ops, entry.until)
    return not passed and (entry.since is None or hasattr(paddle._C_ops, entry.since))


# Grad nodes of 3.x show what passes through them.
NODE_HOOKS = hasattr(getattr(core, "GradNodeBase", None), "_register_post_hook")


def _attribute_3(tensor: PaddleTensor, name: str) -> Any:
    return tensor.__dict__.get(name)


_attributes = WeakIdKeyDictionary()  # 2.6: tensor -> its attributes, which die with it


def _attribute_2(tensor: PaddleTensor, name: str) -> Any:
    attributes = _attributes.get(tensor)
    return None if attributes is None else attributes.get(name)


def _set_attribute_2(tensor: PaddleTensor, name: str, value: Any) -> None:
    _attributes.setdefault(tensor, {})[name] = value


# What is kept on a tensor under a name, or None; and how it is put there.
attribute = _attribute_3 if IS_3 else _attribute_2
set_attribute = setattr if IS_3 else _set_attribute_2


def hide_from_tracer(*folders: str) -> None:
    """3.x: Paddle's bytecode tracer (``to_static``) leaves the code in these folders alone, as it does with Paddle's own."""
    skip = getattr(core, "eval_frame_skip_file_prefix", None)
    if skip is not None:
        from paddle.jit.sot.opcode_translator.skip_files import skip_file_names

        skip_file_names.update(folders)
        skip(tuple(skip_file_names))


# 3.x: exchanges what Paddle's bytecode tracer (SOT) does with frames; None: nothing. Called where the frames below must not be
# traced, and never through a function of Python's: a traced frame that ends puts the tracer back.
exchange_tracer: Callable[[Any], Any] = getattr(core, "set_eval_frame", lambda tracer: None)


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


def grad_node(tensor: PaddleTensor) -> Any:
    """``tensor.grad_fn``, without the reference that Paddle leaves behind: the node would live for ever, with all that it holds."""
    extra = _left_behind()
    node = tensor.grad_fn
    if node is not None:
        for _ in range(extra):
            _give_back(node)
    return node
