"""The run's header: versions, flags, switches and devices of both frameworks, and what in them explains a difference by itself."""

from __future__ import annotations

import functools
from typing import Any

import paddle
import torch

from ..language import logged, tr
from . import torch_state

_FLAGS = (
    "FLAGS_use_accuracy_compatible_kernel",
    "FLAGS_cudnn_deterministic",
    "FLAGS_cudnn_exhaustive_search",
    "FLAGS_embedding_deterministic",
    "FLAGS_gemm_use_half_precision_compute_type",
    "FLAGS_cublas_allow_tf32",
    "FLAGS_use_mkldnn",
    "FLAGS_use_onednn",
    "FLAGS_tracer_onednn_ops_on",
    "FLAGS_tracer_onednn_ops_off",
    "FLAGS_use_autotune",
    "FLAGS_paddle_num_threads",
    "FLAGS_inner_op_parallelism",
    "FLAGS_check_nan_inf",
)


def environment() -> dict[str, str]:
    """Versions and the device."""
    environment = torch_state.environment()
    return {
        "paddle": paddle.__version__,
        **environment,
        "device": paddle.device.get_device(),
        "cuda": f"paddle {paddle.version.cuda()}, {environment['cuda']}",
    }


def processor() -> str:
    """The CPU and the instruction set of Torch's kernels: what differs natively depends on both."""
    return f"{torch_state.cpu_model()} ({torch.backends.cpu.get_cpu_capability()})"


def machine() -> dict[str, str]:
    """What else bits depend on, for the header of a recording: the processor, its cores, and the libraries of Paddle's kernels."""
    libraries = {
        "paddle.blas": "MKL" if str(paddle.version.mkl()) == "ON" else "OpenBLAS",
        "paddle.cudnn": str(paddle.version.cudnn()),
    }
    return {**torch_state.machine(), **libraries}


def flags() -> dict[str, Any]:
    """Every switch known to change the bits of a kernel, as it stands now."""
    settings: dict[str, Any] = {}
    for name in _FLAGS:
        try:
            settings[f"paddle.{name}"] = paddle.get_flags(name)[name]
        except ValueError:
            continue  # this version or build does not have it
    return {**settings, **torch_state.flags(), **torch_state.variables()}


def concerns(flags: dict[str, Any]) -> list[str]:
    """What to look at before a kernel is blamed."""
    place = paddle.device.get_device()
    missing, on_gpu = missing_kernels(place), place.startswith("gpu")
    remarks = [] if missing is None else [missing]
    compatible = flags.get("paddle.FLAGS_use_accuracy_compatible_kernel")
    if on_gpu and compatible is False:
        remarks.append(
            logged(
                "FLAGS_use_accuracy_compatible_kernel is off: Paddle's GPU kernels are not asked to follow "
                "torch's order of summation"
            )
        )
    # Paddle's cuBLAS calls may use TF32 unless NVIDIA_TF32_OVERRIDE=0 or the flag forbids it.
    overridden = flags.get("environment.NVIDIA_TF32_OVERRIDE") == "0"
    tf32 = not overridden and bool(flags.get("paddle.FLAGS_cublas_allow_tf32", True))
    if on_gpu and flags["torch.backends.cuda.matmul.allow_tf32"] != tf32:
        remarks.append(logged("TF32 is allowed in one framework's matmul only: differences of 1e-3 relative are its doing"))
    if flags["torch.float32_matmul_precision"] != "highest":
        remarks.append(
            logged(
                "torch.float32_matmul_precision is {word}: float32 products may be rounded",
                word=repr(flags["torch.float32_matmul_precision"]),
            )
        )
    if flags.get("paddle.FLAGS_gemm_use_half_precision_compute_type") and on_gpu:
        remarks.append(
            logged("FLAGS_gemm_use_half_precision_compute_type is on: Paddle sums half precision products in half precision")
        )
    threads = flags.get("paddle.FLAGS_paddle_num_threads")
    if not on_gpu and threads is not None and int(threads) != flags["torch.num_threads"]:
        remarks.append(
            logged(
                "Paddle computes on {threads} CPU thread(s), torch on {others}: sums may be split otherwise; "
                "OMP_NUM_THREADS=1 and torch.set_num_threads(1) make the order of summation repeatable",
                threads=threads,
                others=flags["torch.num_threads"],
            )
        )
    if flags["torch.deterministic_algorithms"] != bool(flags.get("paddle.FLAGS_cudnn_deterministic", False)) and on_gpu:
        remarks.append(logged("deterministic algorithms are on in one framework only"))
    return remarks


@functools.cache
def missing_kernels(place: str) -> str | None:
    """Why Paddle's own kernels write nothing on a device, if so: a wheel may hold none for the card, and says nothing."""
    if not place.startswith("gpu") or paddle.full([1], 7.0).item() == 7.0:
        return None
    major, minor = torch.cuda.get_device_capability(int(place.partition(":")[2] or 0))
    return logged(
        "this Paddle has no CUDA kernels for {device} (compute capability {major}.{minor}): its "
        "own ops leave their results unwritten and say nothing; install a Paddle that is built for this "
        "card",
        device=repr(paddle.device.cuda.get_device_name()),
        major=major,
        minor=minor,
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
        raise ValueError(tr("Paddle is on {place}; torch shares memory with Paddle on 'cpu' and 'gpu' only", place=repr(place)))
    if not torch.cuda.is_available():
        raise ValueError(
            tr(
                "Paddle is on {place} but this torch {version} cannot use a GPU; install a CUDA build of torch, or call "
                "paddle.set_device('cpu')",
                place=repr(place),
                version=torch.__version__,
            )
        )
    if int(index or 0) >= torch.cuda.device_count():
        raise ValueError(
            tr(
                "Paddle is on {place} but torch sees {device_count} device(s): both must see the same",
                place=repr(place),
                device_count=torch.cuda.device_count(),
            )
        )
    torch_name, paddle_name = torch.cuda.get_device_name(int(index or 0)), paddle.device.cuda.get_device_name(int(index or 0))
    if torch_name != paddle_name:
        raise ValueError(
            tr(
                "device {place} is {paddle_name} for Paddle but {torch_name} for torch: both must number devices alike",
                place=repr(place),
                paddle_name=repr(paddle_name),
                torch_name=repr(torch_name),
            )
        )
    return place
