"""The machine that a benchmark ran on, in words."""

from __future__ import annotations

import os
import platform

import paddle
import torch

from padiff_shim.frameworks.settings import processor as processor


def machine() -> list[str]:
    """The machine and the versions, a line each."""
    load = f", load average {os.getloadavg()[0]:.1f} at the end" if hasattr(os, "getloadavg") else ""
    return [
        f"{processor()}, {os.cpu_count()} cores, {torch.get_num_threads()} thread used{load}",
        f"Paddle {paddle.__version__}, Torch {torch.__version__}, Python {platform.python_version()}, {platform.system()}",
    ]
