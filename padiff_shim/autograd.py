"""The reference's backward as a Paddle grad node: the graft.

``PyLayer`` cannot carry a substituted op: a second backward through its node is a SIGSEGV, double grad through DLPack is silently
None. Instead Paddle's own nodes are used, emptied of their work:

    x --reshape--> a   (native alias node; its storage is then exchanged for one float, TINY)
    a, b... --add--> z (native nodes over the TINY aliases: O(1); z's storage is then exchanged for torch's result)
    z --reshape--> y   (native alias node; the user's hooks and retain_grads live here and see the true gradient)

Backward: a hook on z receives the true gradient, runs torch's backward and sends TINY through the sum; hooks on the aliases
exchange it for torch's gradients. So retain_graph, accumulation, paddle.grad, recompute, hooks and the error of a second backward
are Paddle's own, and no native compute kernel runs. Under ``create_graph`` the gradients are computed by a grafted call again, to
any order. A call with one differentiable input needs no sum: its alias carries the result, and one hook exchanges the gradients.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import paddle
import torch

from . import amp, modes
from .bridge import as_operand, autocast_off, confine_torch, dtype_of, grad_tracer, hand_over, own, stream_of
from .postponed import engine_runs, postpone
from .record import Tally

# The clean C functions, whatever is patched later.
_reshape: Callable[..., Any] = paddle._C_ops.reshape
_add_n: Callable[..., Any] = paddle._C_ops.add_n
_add: Callable[..., Any] = paddle._C_ops.add
_cast: Callable[..., Any] = paddle._C_ops.cast

# One float per dtype, always on the CPU: nothing computed with it ever launches a device kernel.
TINY = {
    dtype: paddle.zeros([1], dtype="float32").cpu().astype(dtype_of(dtype))
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
}

# ``add`` is cheaper than ``add_n`` and survives ``paddle.grad(no_grad_vars=...)``, but has no CPU kernel for the 16-bit types.
_ADDABLE = frozenset({torch.float32, torch.float64})

_MODIFIED = (
    "(PermissionDenied) Tensor '{name}' used in gradient computation of op '{op}' has been modified by an inplace operation. Its "
    "version is {now} but the expected version is {then}. Please fix your code to void calling an inplace operator after using the "
    "Tensor which will used in gradient computation."
)


SKELETON = ("reshape", "add_n", "add", "cast")


def use_clean(**functions: Callable[..., Any]) -> None:
    """Called when hooks are built: the unpatched functions of ``SKELETON`` to build grafts with."""
    global _reshape, _add_n, _add, _cast
    _reshape, _add_n, _add, _cast = (functions[name] for name in SKELETON)


def clean_reshape(tensor: Any, shape: Sequence[int]) -> Any:
    """Paddle's own reshape, whatever is patched: an alias with a node of its own."""
    return _reshape(tensor, shape)


def clean_add() -> Callable[..., Any]:
    """Paddle's own ``_C_ops.add``, whatever is patched."""
    return _add


class ModifiedInPlace(RuntimeError):
    """A saved tensor changed between forward and backward; Paddle's engine reports it as OSError, see :mod:`.hooks`."""


class Node:
    """What the backward of one substituted call needs."""

    __slots__ = ("compute", "grads", "inputs", "op", "saved", "tally", "vjp")

    def __init__(
        self,
        op: str,
        tally: Tally,
        inputs: Sequence[Any],
        saved: Sequence[tuple[Any, int]],
        vjp: Callable[[torch.Tensor], Sequence[torch.Tensor]],
        compute: Callable[..., torch.Tensor] | None,
    ) -> None:
        self.op = op
        self.tally = tally
        self.inputs: Sequence[Any] | None = inputs if compute is not None else None  # needed for create_graph only
        self.saved: Sequence[tuple[Any, int]] | None = saved  # (Paddle tensor, its in-place version at forward)
        self.vjp: Callable[[torch.Tensor], Sequence[torch.Tensor]] | None = vjp
        self.compute = compute  # torch: inputs -> result; None if the vjp reads nothing but the gradient
        self.grads: list[Any] = [None] * len(inputs)

    def receive(self, grad: Any) -> Any:
        """Hook on z: the gradient of the result has arrived. Ctrl-C waits until the engine has returned, as it does natively."""
        try:
            return self._received(grad)
        except KeyboardInterrupt as stop:
            if not engine_runs():
                raise
            postpone(stop)
        return self._received(grad) if self.vjp is not None else TINY[as_operand(grad).dtype]

    def _received(self, grad: Any) -> Any:
        retain, create = backward_options(grad)
        if self.vjp is None:
            raise RuntimeError(f"the graph of op '{self.op}' was freed by an earlier backward without retain_graph=True")
        if self.saved:
            self._check_versions()
        if modes.forked:  # the graph is the parent's: Paddle has no node to run in torch's place
            confine_torch()
        self.tally.backward[self.op] += 1
        incoming = as_operand(grad)
        if create:
            self.grads = self._differentiable(grad)
            return TINY[incoming.dtype]
        if incoming.is_cuda:
            with stream_of(incoming):
                self.grads = self._plain(incoming)
        else:
            self.grads = self._plain(incoming)
        if not retain:
            self.inputs = self.saved = self.vjp = self.compute = None
        return TINY[incoming.dtype]

    def exchange(self, grad: Any) -> Any:
        """Hook of a call with one differentiable input: receive and take at once."""
        self.receive(grad)
        return self.take(0, None)

    def take(self, index: int, _: Any) -> Any:
        """Hook on the alias of input ``index``: hand over its gradient."""
        grad, self.grads[index] = self.grads[index], None
        return grad

    def _plain(self, incoming: torch.Tensor) -> list[Any]:
        grads: list[Any] = []
        seen = {incoming.data_ptr()}
        for grad in self.vjp(incoming):  # type: ignore[misc]
            if grad.requires_grad:
                grad = grad.detach()
            pointer = grad.data_ptr()
            if pointer in seen or grad._is_view():  # a view may share storage at another address
                grad = own(grad, [incoming, *grads])
            seen.add(pointer)
            grads.append(grad)
        return [hand_over(grad) for grad in grads]

    def _differentiable(self, grad: Any) -> list[Any]:
        if self.compute is None:
            return apply(self.op, self.tally, self.vjp, [grad])  # type: ignore[arg-type]
        compute, inputs = self.compute, list(self.inputs or ())

        def gradients(*tensors: torch.Tensor) -> Sequence[torch.Tensor]:
            *xs, incoming = tensors
            with torch.enable_grad():
                xs = [x if x.requires_grad else x.detach().requires_grad_() for x in xs]
                return autograd(compute(*xs), xs, incoming, create_graph=True)

        return apply(self.op, self.tally, gradients, [*inputs, grad])

    def _check_versions(self) -> None:
        for tensor, version in self.saved or ():
            if tensor.inplace_version != version:
                raise ModifiedInPlace(_MODIFIED.format(name=tensor.name, op=self.op, now=tensor.inplace_version, then=version))


def autograd(
    out: torch.Tensor, leaves: Sequence[torch.Tensor], grad: torch.Tensor, *, create_graph: bool = False
) -> list[torch.Tensor]:
    """torch's own gradients of ``leaves``; zeros where the result does not depend on one."""
    if grad.dtype != out.dtype:
        grad = grad.to(out.dtype)
    if not out.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    grads = torch.autograd.grad(out, leaves, grad, retain_graph=True, create_graph=create_graph, allow_unused=True)
    return [torch.zeros_like(leaf) if found is None else found for found, leaf in zip(grads, leaves)]


def attach(result: Any, node: Node, inputs: Sequence[Any], dtypes: Sequence[torch.dtype], dtype: torch.dtype) -> Any:
    """A Paddle tensor with the storage of ``result`` and ``node`` as its backward.

    Args:
        result: the Paddle tensor whose storage is taken over.
        inputs: the Paddle tensors whose gradients the node gives, in its order, and ``dtypes`` theirs.
        dtype: the result's dtype.
    """
    if not amp.active(grad_tracer()):
        return _attach(result, node, inputs, dtypes, dtype)
    with autocast_off():  # the skeleton must not be autocast
        return _attach(result, node, inputs, dtypes, dtype)


def _attach(result: Any, node: Node, inputs: Sequence[Any], dtypes: Sequence[torch.dtype], dtype: torch.dtype) -> Any:
    if (dtype in _ADDABLE or len(inputs) == 1) and all(one is dtype for one in dtypes):
        return graft(result, node, inputs, dtype)
    aliases = []
    for index, tensor in enumerate(inputs):
        alias = _reshape(tensor, tensor.shape)
        TINY[dtypes[index]]._share_underline_tensor_to(alias)
        alias._register_grad_hook(functools.partial(node.take, index))
        # A hook may not change the dtype of a gradient: mixed dtypes need a node that does.
        aliases.append(alias if dtypes[index] is dtype else _cast(alias, getattr(paddle, dtype_of(dtype))))
    joint = functools.reduce(_add, aliases) if dtype in _ADDABLE else _add_n(aliases)
    result._share_underline_tensor_to(joint)
    joint._register_grad_hook(node.receive)
    return _reshape(joint, joint.shape)


def graft(result: Any, node: Node, inputs: Sequence[Any], dtype: torch.dtype) -> Any:
    """:func:`attach` where all are of one dtype that Paddle can add (one input: any dtype), and autocast is off."""
    if len(inputs) == 1:
        # One input: the alias itself carries the result, and one hook exchanges the gradients.
        joint = _reshape(inputs[0], inputs[0].shape)
        result._share_underline_tensor_to(joint)
        joint._register_grad_hook(node.exchange)
        return _reshape(joint, joint.shape)
    tiny, joint = TINY[dtype], None
    for index, tensor in enumerate(inputs):
        alias = _reshape(tensor, tensor.shape)
        tiny._share_underline_tensor_to(alias)
        alias._register_grad_hook(functools.partial(node.take, index))
        joint = alias if joint is None else _add(joint, alias)
    result._share_underline_tensor_to(joint)
    joint._register_grad_hook(node.receive)
    return _reshape(joint, joint.shape)


def apply(op: str, tally: Tally, function: Callable[..., Sequence[torch.Tensor]], inputs: Sequence[Any]) -> list[Any]:
    """Run a torch function of several results on Paddle tensors, differentiably; torch's autograd gives its backward."""
    needed = [index for index, tensor in enumerate(inputs) if not tensor.stop_gradient]
    tensors = [as_operand(tensor).detach() for tensor in inputs]
    for index in needed:
        tensors[index].requires_grad_()
    with torch.enable_grad(), stream_of(tensors[0]):
        outs = list(function(*tensors))
    leaves = [tensors[index] for index in needed]
    sources = [inputs[index] for index in needed]
    saved = [(tensor, tensor.inplace_version) for tensor in sources]
    results = []
    for position, out in enumerate(outs):
        result = hand_over(own(out.detach(), tensors))
        if not needed:
            results.append(result)
            continue

        def compute(*xs: torch.Tensor, position: int = position) -> torch.Tensor:
            values = list(tensors)
            for index, x in zip(needed, xs):
                values[index] = x
            return function(*values)[position]

        node = Node(op, tally, sources, saved, functools.partial(autograd, out, leaves), compute)
        results.append(attach(result, node, sources, [leaf.dtype for leaf in leaves], out.dtype))
    return results


def backward_options(grad: Any) -> tuple[bool, bool]:
    """(retain_graph, create_graph) of the backward that is running, read off the Paddle function that started it.

    Paddle's engine does not tell its hooks. The frame that called into the engine is the one below the hook's.
    """
    caller = sys._getframe(2)
    for _ in range(4):  # hooks of our own stand between
        names = caller.f_code.co_varnames
        if "create_graph" in names:  # paddle.grad works on copies of the nodes: keep what they share
            return True, bool(caller.f_locals["create_graph"])
        if "retain_graph" in names:  # Tensor.backward, paddle.autograd.backward
            return bool(caller.f_locals["retain_graph"]), False
        if caller.f_back is None:
            break
        caller = caller.f_back
    return True, not grad.is_leaf  # started from elsewhere: keep everything
