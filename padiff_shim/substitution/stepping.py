"""Paddle's whole ``Optimizer.step()`` passed by, where it would do nothing but look for gradients and hand them on.

Between a program's ``step()`` and its updates Paddle clips, adds decay, and asks for processes, fused memory and static graphs.
Where none of it is there, what its Python hands on is the parameters with their gradients, and that takes as long as to ask whether
a step is as the last one (:mod:`.repeated`). The door is there only in a Paddle whose source was read
(``intercept/optimizers.py``); whatever is not known here goes through Paddle's own Python.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import paddle

from . import repeated

_PADDLES = os.path.dirname(os.path.abspath(sys.modules[paddle.optimizer.Optimizer.__module__].__file__ or "")) + os.sep
_ON_THE_WAY = ("_apply_optimize", "append_regularization_ops", "_create_regularization_of_grad", "_create_optimization_pass")
_MAIN_GRAD = "FLAGS_enable_main_grad"  # up to Paddle 3.2: gradients are looked for elsewhere

Pairs = list[tuple[Any, Any]]


def handed_on(optimizer: Any) -> Pairs | None:
    """The parameters with their gradients that Paddle's Python would hand on; None where it may do anything else."""
    params = optimizer._param_groups
    if (
        not params
        or isinstance(params[0], dict)
        or optimizer._grad_clip is not None
        or optimizer.regularization is not None
        or getattr(optimizer, "enable_tensor_fusion", False)
        or not _goes_paddles_way(optimizer)
        or _is_unusual()
    ):
        return None
    pairs: Pairs = []
    for param in params:
        if param.stop_gradient:
            continue
        if getattr(param, "main_grad", None) is not None:
            return None
        grad = param._grad_ivar()
        if grad is not None:
            pairs.append((param, grad))
    known = repeated.kept(optimizer, pairs[0][0]) if pairs else None
    return pairs if known is not None and known.undecayed else None


_seen: dict[type, tuple[list[Any], bool]] = {}  # by the class: its functions with their code, and whether they are Paddle's


def _goes_paddles_way(optimizer: Any) -> bool:
    """Whether no function between a step and its updates is anybody else's; those of this object alone are asked for behind."""
    kind = type(optimizer)
    functions = [getattr(kind, name, None) for name in _ON_THE_WAY]
    functions += [getattr(function, "__code__", None) for function in functions]
    known = _seen.get(kind)
    if known is None or known[0] != functions:
        if not kind.__module__.startswith("paddle.optimizer."):
            return False  # and not remembered: a program may make any number of classes
        known = _seen[kind] = functions, all(map(_is_paddles, functions[len(_ON_THE_WAY) :]))
    return known[1]


def _is_paddles(code: Any) -> bool:
    return code is not None and code.co_filename.startswith(_PADDLES)


def _is_unusual() -> bool:
    """Whether a step is traced, shared with other processes, or switched off."""
    shared = paddle.distributed.auto_parallel
    data_parallel, fully = getattr(shared, "auto_dp_utils", None), sys.modules.get(f"{shared.__name__}.fully_shard_fusion")
    return bool(
        paddle.base.dygraph.base.in_to_static_mode()
        or getattr(sys.modules[paddle.optimizer.Optimizer.__module__], "g_shard_bypass_dygraph_optimizer", 0)
        or (data_parallel is not None and data_parallel.in_auto_dp_mode())
        or (fully is not None and fully.get_fsdp_context() is not None)
        or _MAIN_GRAD in os.environ
    )
