"""What of Torch and of the environment is known to change a kernel's bits; for processes that have no Paddle, too."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

_VARIABLES = (
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "ATEN_CPU_CAPABILITY",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_DEBUG_CPU_TYPE",
    "MKL_CBWR",
    "ONEDNN_MAX_CPU_ISA",
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


def has_avx512() -> bool:
    """Whether the processor has AVX-512, whatever Torch's kernels were told to use."""
    return bool(torch.cpu._is_avx512_supported())
