"""Torch's own switches: its settings, and the autocast, inference mode, default device and modes that a program has set."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from .. import torch_versions
from ..torch_versions import Dispatching, run_engine, set_grad_enabled

# ---- Settings of Torch and of the environment that change a kernel's bits; for processes without Paddle, too.

_VARIABLES = (
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "ATEN_CPU_CAPABILITY",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_DEBUG_CPU_TYPE",
    "MKL_CBWR",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "OMP_DYNAMIC",
    "CUBLAS_WORKSPACE_CONFIG",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
)


def environment() -> dict[str, str]:
    """Versions and the device."""
    return {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "device": f"cuda, {torch.cuda.get_device_name()}" if torch.cuda.is_available() else "cpu",
        "cuda": f"torch {torch.version.cuda}",
    }


def machine() -> dict[str, str]:
    """What else bits depend on, for the header of a recording: the processor, its vector instructions, and the cores in use."""
    info = Path("/proc/cpuinfo")
    present = (
        set(next((line for line in info.read_text().splitlines() if line.startswith("flags")), "").split())
        if info.exists()
        else set()
    )
    vectors = next((name for name in _VECTORS if name in present), "")
    return {
        "processor": cpu_model(),
        **({"instruction set": vectors} if vectors else {}),
        "cores": str(len(os.sched_getaffinity(0))),
        # Torch loads it to say so, and where it finds one of another version, without a GPU too, that is an error.
        "torch.cudnn": str(torch.backends.cudnn.version() if torch.cuda.is_available() else None),
    }


_VECTORS = ("amx_tile", "avx512f", "avx2", "avx", "sse4_2", "asimd")  # the widest first


def cpu_model() -> str:
    """The name of the processor."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        model = next((line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line), model)
    return model


def flags() -> dict[str, Any]:
    """Torch's switches as they stand now."""
    matmul = torch.backends.cuda.matmul
    return {
        "torch.float32_matmul_precision": _asked(torch.get_float32_matmul_precision),
        "torch.backends.cuda.matmul.allow_tf32": _asked(lambda: matmul.allow_tf32),
        "torch.backends.cudnn.allow_tf32": _asked(lambda: torch.backends.cudnn.allow_tf32),
        "torch.allow_fp16_reduced_precision_reduction": matmul.allow_fp16_reduced_precision_reduction,
        "torch.allow_bf16_reduced_precision_reduction": matmul.allow_bf16_reduced_precision_reduction,
        "torch.deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "torch.num_threads": torch.get_num_threads(),
        "torch.cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "torch.mkldnn": torch.backends.mkldnn.is_available(),
    }


def _asked(switch: Callable[[], Any]) -> Any:
    """A switch that Torch refuses to read where ``fp32_precision`` of one backend was set: there is no one word for all."""
    try:
        return switch()
    except RuntimeError:
        return "set by backend"


def variables() -> dict[str, str]:
    """The environment's, as far as they are set."""
    return {f"environment.{name}": os.environ[name] for name in _VARIABLES if name in os.environ}


@functools.cache
def confine_torch() -> None:
    """Torch uses one thread from now on. In a forked child its kernels wait for ever for the threads of the parent's pool."""
    torch.set_num_threads(1)


# ---- Torch's own switches as the program has set them around Paddle code: autocast, inference mode, a default device, modes.
#
# They are meant for the program's Torch code. What a Paddle call computes is for Paddle's switches to decide, so a call is made
# with Torch's put aside; left standing they would round to bfloat16 unasked, or have tensors without numbers. Whether gradients
# are recorded is not among them: it is said to Torch at each call. Nor is what a Torch program's bits depend on as much as the
# shim's (threads, precisions, determinism).

# Whether a switch is set; each is called at every call of the program, and takes some 50 ns.
function_modes = torch_versions.count_function_modes  # a default device is one
dispatch_stack = torch_versions.count_dispatch_modes  # ours among them: see dispatch_modes
inference: Callable[[], bool] = torch.is_inference_mode_enabled
autocasting = torch_versions.is_any_autocast_enabled

_DEVICES = ("cpu", "cuda")
_Hook = TypeVar("_Hook", bound=Callable[..., Any])


class LooksOn(Dispatching):
    """What a dispatch mode of ours is that writes down or changes on purpose what a Paddle call computes; it is never put aside."""

    def moved(self, tensor: torch.Tensor, like: torch.Tensor) -> None:
        """A tensor in other memory holds the elements of ``like``, as long as nothing is written into either."""


def looking_on() -> list[LooksOn]:
    """The modes of ours that look on at this thread's calls."""
    return [mode for mode in torch_versions.open_dispatch_modes() if isinstance(mode, LooksOn)]


def dispatch_modes() -> int:
    """How many dispatch modes of the program are open."""
    modes = dispatch_stack()
    return modes and modes - len(looking_on())


def disturbed() -> bool:
    """Whether a switch is set that would change what Torch computes here."""
    return bool(function_modes() or (dispatch_stack() and dispatch_modes()) or inference() or autocasting())


@contextlib.contextmanager
def put_aside() -> Iterator[None]:
    """Torch as it is when nothing is set; afterwards as it was."""
    if not disturbed():
        yield
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        own_modes = looking_on()
        stack.enter_context(torch_versions.without_modes())
        for mode in own_modes:
            stack.enter_context(mode)
        for device in _DEVICES:
            if torch.is_autocast_enabled(device):
                torch.set_autocast_enabled(device, False)
                stack.callback(torch.set_autocast_enabled, device, True)
        for _ in range(function_modes()):
            stack.callback(torch_versions.push_function_mode, torch_versions.pop_function_mode())
        yield


def open_modes() -> tuple[int, int, list[Any]]:
    """Torch's modes that are open: what :func:`close_modes` leaves."""
    return function_modes(), dispatch_stack(), torch_versions.dispatch_flags()


def close_modes(before: tuple[int, int, list[Any]]) -> None:
    """Close the modes that were opened since and stayed open: a Ctrl-C or a timeout fell into Torch's code that opens one."""
    functions, dispatches, flags = before
    if function_modes() == functions and dispatch_stack() == dispatches:
        return
    while function_modes() > functions:
        torch_versions.pop_function_mode()
    while dispatch_stack() > dispatches:
        torch_versions.pop_dispatch_mode(None)
    torch_versions.set_dispatch_flags(flags)


def kept_grad_mode(hook: _Hook) -> _Hook:
    """``hook``, behind which Torch records gradients as before, also where a Ctrl-C fell into the end of a ``torch.no_grad()``."""

    @functools.wraps(hook)
    def called(*args: Any, **kwargs: Any) -> Any:
        recorded = torch.is_grad_enabled()
        try:
            return hook(*args, **kwargs)
        finally:
            set_grad_enabled(recorded)

    return called  # type: ignore[return-value]


def undisturbed(hook: _Hook) -> _Hook:
    """``hook``, called with Torch's switches put aside."""

    @functools.wraps(hook)
    def called(*args: Any, **kwargs: Any) -> Any:
        if (
            function_modes() or (dispatch_stack() and dispatch_modes()) or inference() or autocasting()
        ):  # disturbed(), without its call
            with put_aside():
                return hook(*args, **kwargs)
        return hook(*args, **kwargs)

    return called  # type: ignore[return-value]


def gradients_of(
    roots: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor], grads: Sequence[torch.Tensor], *, create_graph: bool
) -> tuple[torch.Tensor | None, ...]:
    """As ``torch.autograd.grad`` with ``retain_graph`` and ``allow_unused``; each gradient has shape and dtype of its root."""
    wanted_grads: tuple[torch.Tensor | None, ...] = run_engine(
        tuple(roots), tuple(grads), True, create_graph, tuple(wanted), True, accumulate_grad=False
    )
    return wanted_grads
