"""Which dtype a native op has no kernel of: Paddle says so in an error of one form, and keeps a list of its kernels."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from paddle.base import core

# A CPU's kernels are of float32 and float64; those of 16 bits Paddle has for other devices, and documents for all of them.
HALVES = frozenset({"float16", "bfloat16"})
# "(NotFound) The kernel with key (CPU, Undefined(AnyLayout), bfloat16) of kernel `matmul` is not registered."
_OF_A_DTYPE = re.compile(r"\(NotFound\) The kernel with key \(\w+, [^,]*, (\w+)\) of kernel `\w+` is not registered")
_OF_ANY = "(NotFound) The kernel `"  # where it has none for the device at all: in Paddle 2.6 flash_attn on a CPU
_OF_OLD_FORM = "(NotFound) There are no kernels which are registered in the "  # of the legacy form, which names no dtype


def dtype_without_kernel(error: Exception) -> str:
    """The dtype of 16 bits in which a native op would have computed, had Paddle a kernel of it; ``""`` for all other errors."""
    match = _OF_A_DTYPE.search(str(error))
    return match.group(1) if match is not None and match.group(1) in HALVES else ""


def is_without_kernel(error: Exception) -> bool:
    """Whether Paddle has no kernel of an op for the device, whatever the dtype."""
    return _OF_ANY in str(error)


def is_old_form_without_kernel(error: Exception) -> bool:
    """Whether the legacy form of an op found no kernel, be it for the dtype or at all."""
    return _OF_OLD_FORM in str(error)


@functools.cache
def _registered() -> Mapping[str, frozenset[str]]:
    """Kernels of this Paddle by name -> the dtypes that they are of on a CPU."""
    kernels: dict[str, list[str]] = core._get_registered_phi_kernels("function")  # type: ignore[attr-defined]
    return {
        name: frozenset(key.strip("()").split(", ")[-1] for key in keys if key.startswith("(CPU")) for name, keys in kernels.items()
    }


def is_listed_without(kernel: str, dtype: str) -> bool:
    """Whether Paddle lists a CPU kernel of this name, but none of ``dtype``. For what cannot be tried: a call that draws."""
    dtypes = _registered().get(kernel, frozenset())
    return dtype in HALVES and "float32" in dtypes and dtype not in dtypes
