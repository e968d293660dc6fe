"""The one place that knows that Torch's versions differ, and where its private names are written.

The supported range is that of :mod:`.tested`. A private name may go with any version: it fails here, when a mode opens, and the
error names it (:func:`padiff_shim.modes.environment.frameworks`). ``tests/project/test_torch_names.py`` holds the names of all
sources against each Torch of the range.

| | before | since |
|---|---|---|
| ``enable_gqa=`` of scaled_dot_product_attention | heads repeated by hand | 2.5 |
| ``channel_shuffle`` on a CPU | without a derivative: moved by hand | 2.5 |
| ``torch.cpu._is_avx512_supported`` | ``_is_cpu_support_avx512`` | 2.5 |
| ``decoupled_weight_decay=`` of ``torch.optim.adam.adam`` | ``torch.optim.adamw.adamw``, which all have | 2.7 |
| ``torch._fused_rms_norm``, which returns the roots as well | a composite of steps, rounded before the weight | 2.9 |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch._decomp import get_decompositions
from torch.utils import _python_dispatch
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes, _get_current_dispatch_mode_stack

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])

# ---- Memory and streams.

from_dlpack: Callable[[Any], torch.Tensor] = torch._C._from_dlpack
to_dlpack: Callable[[torch.Tensor], Any] = torch._C._to_dlpack
storage_uses: Callable[[int], int] = torch._C._storage_Use_Count  # of the storage's ``_cdata``


def current_cuda_device() -> int:
    """``torch.cuda.current_device()`` without its checks."""
    return int(torch._C._cuda_getDevice())


def current_cuda_stream(device: int) -> tuple[int, int, int]:
    """A device's current stream, as :func:`set_cuda_stream` takes it."""
    stream: tuple[int, int, int] = torch._C._cuda_getCurrentStream(device)
    return stream


def set_cuda_stream(stream: tuple[int, int, int]) -> None:
    """Launch on this stream from now on."""
    number, device, kind = stream
    torch._C._cuda_setStream(stream_id=number, device_index=device, device_type=kind)


# ---- Switches and modes. Those that are asked at every call of a program take some 50 ns.

set_grad_enabled: Callable[[bool], None] = torch._C._set_grad_enabled
is_any_autocast_enabled: Callable[[], bool] = torch._C._is_any_autocast_enabled
count_function_modes: Callable[[], int] = torch._C._len_torch_function_stack
count_dispatch_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
pop_function_mode: Callable[[], Any] = torch._C._pop_torch_function_stack
push_function_mode: Callable[[Any], None] = torch._C._push_on_torch_function_stack
pop_dispatch_mode: Callable[[Any], Any] = torch._C._pop_torch_dispatch_stack
without_torch_function: Any = torch._C.DisableTorchFunction
open_dispatch_modes: Callable[[], list[Any]] = _get_current_dispatch_mode_stack
without_modes: Any = _disable_current_modes
_FLAGS = [name for name in vars(_python_dispatch) if name.startswith("_is_in_")]  # what Torch keeps beside its stack of modes


def dispatch_flags() -> list[Any]:
    """Which kinds of dispatch modes are open."""
    return [getattr(_python_dispatch, name) for name in _FLAGS]


def set_dispatch_flags(values: Sequence[Any]) -> None:
    """As :func:`dispatch_flags` gave them."""
    for name, value in zip(_FLAGS, values):
        setattr(_python_dispatch, name, value)


class Dispatching(TorchDispatchMode):
    """A dispatch mode whose calls do not pass through Torch's compiler, which Torch would import for it: 0.8 s, once."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: nothing is compiled here, and Torch would load its compiler to say so, with the first call's frames held."""
        return False


# ---- The autograd engine.

# (roots, gradients, keep_graph, create_graph, inputs, allow_unreachable, accumulate_grad=): all sequences are tuples.
# ``torch.autograd.grad`` and ``backward`` check their arguments first, which takes as long as the engine for a small call, and
# for that import symbolic shapes when they are first given a gradient: half a second and 28 MB.
run_engine: Callable[..., Any] = torch.autograd.Variable._execution_engine.run_backward
current_node: Callable[[], Any] = torch._C._current_autograd_node
push_saved_hooks: Callable[..., None] = torch._C._autograd._push_saved_tensors_default_hooks
pop_saved_hooks: Callable[[], None] = torch._C._autograd._pop_saved_tensors_default_hooks


def last_node_number() -> int:
    """The number that the graph's last node of this thread got."""
    return int(torch._C._autograd._get_sequence_nr()) - 1


# ---- Kernels.

decompositions_of: Callable[..., dict[Any, Callable[..., Any]]] = get_decompositions
group_by_dtype: Callable[..., dict[Any, Any]] = _group_tensors_by_device_and_dtype
unscale_with: Callable[..., None] = torch._amp_foreach_non_finite_check_and_unscale_
weight_norm_kernel = torch._weight_norm
standard_gamma_kernel = torch._standard_gamma
dirichlet_kernel = torch._sample_dirichlet
batch_norm_kernel = torch._batch_norm_impl_index


def foreach(name: str) -> Callable[..., Any]:
    """An operation on lists of tensors."""
    operation: Callable[..., Any] = getattr(torch, f"_foreach_{name}")
    return operation


def has_avx512() -> bool:
    """Whether the processor has AVX-512, whichever kernels Torch is set to use."""
    return bool(torch.cpu._is_avx512_supported() if VERSION >= (2, 5) else torch.cpu._is_cpu_support_avx512())


def channel_shuffle_kernel(x: torch.Tensor, groups: int) -> torch.Tensor:
    """``torch.nn.functional.channel_shuffle``."""
    if VERSION >= (2, 5):
        return F.channel_shuffle(x, groups)
    return x.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2).contiguous()


def rms_norm_kernel(
    x: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """``torch.nn.functional.rms_norm``, and the reciprocals of the roots."""
    if VERSION >= (2, 9):
        y, reciprocals = torch._fused_rms_norm(x, list(shape), weight, eps)
        return y, reciprocals
    wide = x.detach().to(torch.promote_types(x.dtype, torch.float32))
    mean = wide.pow(2).mean([-1 - axis for axis in range(len(shape))], keepdim=True)
    return F.rms_norm(x, list(shape), weight, eps), torch.rsqrt(mean + eps)


def attention_kernel(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    causal: bool,
    scale: float | None,
) -> torch.Tensor:
    """``torch.nn.functional.scaled_dot_product_attention``, of fewer heads of keys and values than of queries, too."""
    if q.shape[1] == k.shape[1]:
        return F.scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale=scale)
    if VERSION >= (2, 5):
        return F.scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale=scale, enable_gqa=True)
    k, v = (tensor.repeat_interleave(q.shape[1] // tensor.shape[1], 1) for tensor in (k, v))
    return F.scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale=scale)
