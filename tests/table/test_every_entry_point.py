"""No entry point of Paddle is forgotten: each is a door of the table, moves values, or stays native for a reason of its own."""

import types

import paddle
import pytest
from paddle.base import core
from padiff_shim.patches import _unsubstituted

from padiff_shim.catalogue.registry import ops
from padiff_shim.frameworks.versions import leads_here
from padiff_shim.table.reasons import NO_REFERENCE, NOT_ON_CPU

pytestmark = pytest.mark.compat
DOORS = {entry.target for op in ops().values() for entry in op.entries if leads_here(entry)}
GRADIENTS = ("_grad", "_grad_")  # called by the engine, in C++


def functions(module):
    """The ops among a module's names: C functions, but for the kernels of gradients."""
    return [
        name
        for name in dir(module)
        if isinstance(getattr(module, name), types.BuiltinFunctionType) and not name.endswith(GRADIENTS)
    ]


def reason(place, name):
    """Why a name stays native."""
    legacy = _unsubstituted.LEGACY.get(name) if place == "_legacy_C_ops" else None
    return legacy or _unsubstituted.NATIVE.get(name) or _unsubstituted.reason(name.rstrip("_"))


@pytest.mark.parametrize("place", ["_C_ops", "_legacy_C_ops"])
def test_every_c_function_is_known(place):
    silent = _unsubstituted.EXACT | (_unsubstituted.LEGACY_EXACT if place == "_legacy_C_ops" else frozenset())
    doors = {path.rpartition(".")[2] for path in DOORS if path.startswith((f"paddle.{place}.", "paddle.arg"))}
    # Before 3.3 argmax and argmin are reached through Paddle's own functions alone.
    others = [name for name in functions(getattr(paddle, place)) if name not in doors and name not in silent]
    assert len(others) > 100
    assert [name for name in others if reason(place, name) is NO_REFERENCE] == []


def test_every_operator_of_a_tensor_is_known():
    symbols = ("add", "sub", "mul", "truediv", "div", "floordiv", "mod", "pow", "matmul")
    names = [f"__{prefix}{symbol}__" for symbol in symbols for prefix in ("", "r")]
    built_in = (types.MethodDescriptorType, types.WrapperDescriptorType)
    names = [name for name in names if isinstance(getattr(paddle.Tensor, name, None), built_in)]
    assert [name for name in names if f"paddle.Tensor.{name}" not in DOORS] == []


def test_an_unknown_op_is_told_by_its_name():
    assert _unsubstituted.reason("an_op_of_a_newer_paddle") is NO_REFERENCE
    assert _unsubstituted.reason("add_act_xpu") is not NO_REFERENCE


REFUSING = {"fused_softmax_mask_upper_triangle"}  # its kernel for the CPU says that there is none


def test_what_is_said_to_have_no_kernel_on_the_cpu_has_none():
    kernels = core._get_registered_phi_kernels("function")
    named = [name for name in functions(paddle._C_ops) if f"paddle._C_ops.{name}" not in DOORS]
    explained = [name for name in named if reason("_C_ops", name) is NOT_ON_CPU]
    assert len(explained) > 15
    held = {name.rstrip("_") for name, places in kernels.items() if any("CPU" in place for place in places)}
    assert {name.rstrip("_") for name in explained} & held <= REFUSING
