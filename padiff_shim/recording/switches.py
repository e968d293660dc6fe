"""Which versions, devices and switches of two recorded runs can be the reason that a call makes other bits of equal operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..text import marked, tr

Families = frozenset[str]
_PRODUCTS = frozenset({"linear", "linalg", "attention", "fused", "devices", "vector", "rnn", "decomposition"})
_CONVOLUTIONS = frozenset({"conv"})
_SUMS = frozenset({"reduction", "norm", "pool", "loss", "margin", "classification", "statistics", "activation"})
_SCATTERS = frozenset({"indexing", "graph", "movement", "ordering"})
_EVERY: Families = frozenset()  # kernels of all families


class SwitchDifference(NamedTuple):
    """A setting that two runs have otherwise, and that can change the bits of a call.

    Attributes:
        name: of the setting in the recording's header.
        a, b: its values.
        why: how it changes them, in a sentence.
    """

    name: str
    a: str
    b: str
    why: str


_VECTORS = marked("kernels for other vector instructions sum in other lanes, and approximate functions otherwise")
_TF32 = marked("products round their operands to TF32, which has 10 binary digits")
_REPEATABLE = marked("another algorithm is chosen, or one whose order of additions is not fixed")


class _SwitchGroup(NamedTuple):
    """Settings with one effect.

    Attributes:
        why: the effect.
        families: of ops; none: all.
        device: ``"cpu"`` or ``"gpu"``, whose kernels they change; "" for both.
        names: in the header. A setting of a framework changes the kernels of that one alone.
    """

    why: str
    families: Families
    device: str
    names: tuple[str, ...]


_SUMMED = _PRODUCTS | _CONVOLUTIONS | _SUMS
_SWITCHES = (
    _SwitchGroup(marked("another device has other kernels"), _EVERY, "", (marked("device"),)),
    _SwitchGroup(marked("other versions have other kernels"), _EVERY, "", ("paddle", "torch")),
    _SwitchGroup(marked("other versions have other kernels"), _EVERY, "gpu", ("cuda",)),
    _SwitchGroup(marked("other versions have other kernels"), _SUMMED, "gpu", ("paddle.cudnn", "torch.cudnn")),
    _SwitchGroup(marked("another library computes products"), _PRODUCTS | _CONVOLUTIONS, "cpu", ("paddle.blas",)),
    _SwitchGroup(
        marked("kernels follow Torch's order of summation, or not"), _EVERY, "gpu", ("paddle.FLAGS_use_accuracy_compatible_kernel",)
    ),
    _SwitchGroup(
        marked("oneDNN's kernel takes the place of Paddle's own"),
        _EVERY,
        "cpu",
        (
            "paddle.FLAGS_use_mkldnn",
            "paddle.FLAGS_use_onednn",
            "paddle.FLAGS_tracer_onednn_ops_on",
            "paddle.FLAGS_tracer_onednn_ops_off",
        ),
    ),
    _SwitchGroup(marked("oneDNN's kernel takes the place of Torch's own"), _SUMMED, "cpu", ("torch.mkldnn",)),
    _SwitchGroup(
        marked("a product or a sum is split among threads, and its parts are added in another order"),
        _SUMMED,
        "cpu",
        (
            "environment.OMP_NUM_THREADS",
            "environment.MKL_NUM_THREADS",
            "environment.OMP_DYNAMIC",
            marked("cores"),
            "paddle.FLAGS_paddle_num_threads",
            "paddle.FLAGS_inner_op_parallelism",
            "torch.num_threads",
        ),
    ),
    _SwitchGroup(
        _VECTORS,
        _EVERY,
        "cpu",
        (
            marked("processor"),
            marked("instruction set"),
            "environment.MKL_ENABLE_INSTRUCTIONS",
            "environment.MKL_DEBUG_CPU_TYPE",
            "environment.MKL_CBWR",
            "environment.ATEN_CPU_CAPABILITY",
            "torch.cpu_capability",
        ),
    ),
    _SwitchGroup(_VECTORS, _SUMMED, "cpu", ("environment.ONEDNN_MAX_CPU_ISA", "environment.DNNL_MAX_CPU_ISA")),
    _SwitchGroup(_TF32, _PRODUCTS | _CONVOLUTIONS, "gpu", ("environment.NVIDIA_TF32_OVERRIDE",)),
    _SwitchGroup(_TF32, _PRODUCTS, "gpu", ("paddle.FLAGS_cublas_allow_tf32",)),
    _SwitchGroup(
        _TF32,
        _PRODUCTS | _CONVOLUTIONS,
        "",
        (
            "torch.backends.cuda.matmul.allow_tf32",
            "torch.backends.cudnn.allow_tf32",
            "torch.float32_matmul_precision",
            "environment.TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        ),
    ),
    _SwitchGroup(
        marked("products of 16 bits are summed in 16 bits, or in float32"),
        _PRODUCTS,
        "gpu",
        (
            "paddle.FLAGS_gemm_use_half_precision_compute_type",
            "torch.allow_fp16_reduced_precision_reduction",
            "torch.allow_bf16_reduced_precision_reduction",
        ),
    ),
    _SwitchGroup(
        _REPEATABLE,
        _CONVOLUTIONS | _SUMS,
        "gpu",
        ("paddle.FLAGS_cudnn_deterministic", "paddle.FLAGS_cudnn_exhaustive_search", "paddle.FLAGS_use_autotune"),
    ),
    _SwitchGroup(_REPEATABLE, _SCATTERS, "gpu", ("paddle.FLAGS_embedding_deterministic",)),
    _SwitchGroup(_REPEATABLE, _CONVOLUTIONS | _SUMS | _SCATTERS, "gpu", ("torch.deterministic_algorithms",)),
    _SwitchGroup(_REPEATABLE, _PRODUCTS, "gpu", ("environment.CUBLAS_WORKSPACE_CONFIG",)),
    _SwitchGroup(marked("other versions have other kernels"), _EVERY, "", ("system", "numpy")),
)


def _framework(name: str) -> str:
    """Whose kernels a setting changes: ``"paddle"``, ``"torch"``, or "" for both."""
    first = name.partition(".")[0]
    return "torch" if "ATEN" in name or "TORCH" in name else first if first in ("paddle", "torch") else ""


def settings_of(header: Mapping[str, Any]) -> dict[str, Any]:
    """All versions, devices and switches of a recording's header by name."""
    return {**(header.get("environment") or {}), **(header.get("flags") or {})}


def candidates(a: Mapping[str, Any], b: Mapping[str, Any], family: str, kernels: str) -> Iterator[SwitchDifference]:
    """The settings in which two runs differ and that can change the bits of a call, the likeliest first.

    Args:
        a, b: the headers of both recordings.
        family: that of the op in docs/ops.md; "" where it is not known, or where it is no single op.
        kernels: ``"paddle"`` or ``"torch"``, whose kernels answered the call.
    """
    here, there = settings_of(a), settings_of(b)
    devices = {_device(here), _device(there)}
    for group in _SWITCHES:
        if (group.device and group.device not in devices) or (family and group.families and family not in group.families):
            continue
        for name in group.names:
            if name == "instruction set" or name.startswith("environment."):
                differ = here.get(name) != there.get(name)
            else:  # an older recording does not have it, or a version has no such switch
                differ = name in here and name in there and here[name] != there[name]
            if differ and _framework(name) in ("", kernels):
                values = [str(known[name]) if name in known else tr("not set") for known in (here, there)]
                yield SwitchDifference(name, values[0], values[1], tr(group.why))


def _device(settings: Mapping[str, Any]) -> str:
    return "cpu" if str(settings.get("device", "cpu")).startswith("cpu") else "gpu"


def device_of(header: Mapping[str, Any]) -> str:
    """The device of a recording, as its header names it."""
    return str(settings_of(header).get("device", "cpu"))


def unfixed(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Switches that are off in both runs, so that a kernel may give other bits each time that it runs."""
    settings = settings_of(a), settings_of(b)
    if {_device(side) for side in settings} != {"gpu"}:
        return []
    names = ("paddle.FLAGS_cudnn_deterministic", "paddle.FLAGS_embedding_deterministic", "torch.deterministic_algorithms")
    return [name for name in names if all(name in side and not int(side[name]) for side in settings)]
