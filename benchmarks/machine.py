"""The machine that a benchmark ran on, in words."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import paddle
import torch


def processor() -> str:
    """The CPU and the instruction set of Torch's kernels: what differs natively depends on both."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        model = next((line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line), model)
    return f"{model} ({torch.backends.cpu.get_cpu_capability()})"


def machine() -> list[str]:
    """The machine and the versions, a line each."""
    load = f", load average {os.getloadavg()[0]:.1f} at the end" if hasattr(os, "getloadavg") else ""
    return [
        f"{processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} thread used{load}",
        f"Paddle {paddle.__version__}, Torch {torch.__version__}, Python {platform.python_version()}, {platform.system()}",
    ]
