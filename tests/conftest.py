"""Settings for the whole suite: one thread, the CPU, reproducible hypothesis, ``gpu`` tests only where there is one."""

import gc
import os

import paddle
import pytest
import torch
from hypothesis import settings

from padiff_shim.catalogue.registry import ops
from padiff_shim.dispatch import frames
from padiff_shim.frameworks import turning
from padiff_shim.frameworks.torch_settings import has_avx512
from padiff_shim.intercept import doors
from padiff_shim.table.op import Op


@pytest.fixture
def undone():
    """The test leaves the process as it was."""
    yield
    gc.collect()
    assert frames.top() is None
    assert not doors.OPS.installed
    assert not frames._shared


settings.register_profile("suite", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("suite")
torch.set_num_threads(1)
paddle.set_device("cpu")
# Reports as wide as where the output is no terminal: once readline is imported, every child inherits a made-up width of 80.
os.environ.pop("COLUMNS", None)
if "PADIFF_TESTS_WARM" in os.environ:  # as in a process that has made many products of each shape: see CONTRIBUTING.md
    turning.WORTH = 0


INSTRUCTION_SETS = ("ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS", "MKL_DEBUG_CPU_TYPE", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA")


def pytest_report_header():
    """Which kernels this machine has chosen: what differs natively depends on it."""
    asked = [f"{name}={os.environ[name]}" for name in INSTRUCTION_SETS if name in os.environ]
    return f"Torch's kernels: {torch.backends.cpu.get_cpu_capability()}; asked for: {' '.join(asked) or 'nothing'}"


def needs_avx512(item):
    """Whether a test is one of an op that Paddle has a kernel of for AVX-512 alone, whatever its door is called."""
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    named = {getattr(one, "name", one) for one in given if isinstance(one, (str, Op))}
    return any(op.name in named for op in ops().values() if op.avx512)


def pytest_collection_modifyitems(items):
    if not has_avx512():
        ends = pytest.mark.skip(reason="Paddle's kernel ends the process on a processor without AVX-512")
        for item in items:
            if "avx512" in item.keywords or needs_avx512(item):
                item.add_marker(ends)
    if paddle.is_compiled_with_cuda() and torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a GPU that both frameworks can use")
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(skip)
