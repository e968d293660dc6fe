"""Which versions, devices and switches of two recorded runs can be the reason that a call makes other bits of equal operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True)
class _SwitchGroup:
    """Settings with one effect.

    Attributes:
        names: in the header.
        device: ``"cpu"`` or ``"gpu"``, whose kernels they change; "" for both.
        families: of ops; none: all.
        kernels: ``"paddle"`` or ``"torch"``, whose they are; "" for both.
        why: the effect.
    """

    names: tuple[str, ...]
    device: str
    families: Families
    kernels: str
    why: str


def _switch_groups() -> tuple[_SwitchGroup, ...]:
    split = tr("a product or a sum is split among threads, and its parts are added in another order")
    vectors = tr("kernels for other vector instructions sum in other lanes, and approximate functions otherwise")
    library = tr("oneDNN's kernel takes the place of Paddle's own")
    tf32 = tr("products round their operands to TF32, which has 10 binary digits")
    repeatable = tr("another algorithm is chosen, or one whose order of additions is not fixed")
    version = tr("other versions have other kernels")
    summed = _PRODUCTS | _CONVOLUTIONS | _SUMS
    return (
        _SwitchGroup((marked("device"),), "", _EVERY, "", tr("another device has other kernels")),
        _SwitchGroup(("paddle",), "", _EVERY, "paddle", version),
        _SwitchGroup(("torch",), "", _EVERY, "torch", version),
        _SwitchGroup(("cuda",), "gpu", _EVERY, "", version),
        _SwitchGroup(("paddle.cudnn",), "gpu", _CONVOLUTIONS | _SUMS | _PRODUCTS, "paddle", version),
        _SwitchGroup(("torch.cudnn",), "gpu", _CONVOLUTIONS | _SUMS | _PRODUCTS, "torch", version),
        _SwitchGroup(("paddle.blas",), "cpu", _PRODUCTS | _CONVOLUTIONS, "paddle", tr("another library computes products")),
        _SwitchGroup(
            ("paddle.FLAGS_use_accuracy_compatible_kernel",),
            "gpu",
            _EVERY,
            "paddle",
            tr("kernels follow Torch's order of summation, or not"),
        ),
        _SwitchGroup(
            (
                "paddle.FLAGS_use_mkldnn",
                "paddle.FLAGS_use_onednn",
                "paddle.FLAGS_tracer_onednn_ops_on",
                "paddle.FLAGS_tracer_onednn_ops_off",
            ),
            "cpu",
            _EVERY,
            "paddle",
            library,
        ),
        _SwitchGroup(("torch.mkldnn",), "cpu", summed, "torch", tr("oneDNN's kernel takes the place of Torch's own")),
        _SwitchGroup(
            ("environment.OMP_NUM_THREADS", "environment.MKL_NUM_THREADS", "environment.OMP_DYNAMIC", marked("cores")),
            "cpu",
            summed,
            "",
            split,
        ),
        _SwitchGroup(("paddle.FLAGS_paddle_num_threads", "paddle.FLAGS_inner_op_parallelism"), "cpu", summed, "paddle", split),
        _SwitchGroup(("torch.num_threads",), "cpu", summed, "torch", split),
        _SwitchGroup(
            (
                marked("processor"),
                marked("instruction set"),
                "environment.MKL_ENABLE_INSTRUCTIONS",
                "environment.MKL_DEBUG_CPU_TYPE",
                "environment.MKL_CBWR",
            ),
            "cpu",
            _EVERY,
            "",
            vectors,
        ),
        _SwitchGroup(("environment.ATEN_CPU_CAPABILITY", "torch.cpu_capability"), "cpu", _EVERY, "torch", vectors),
        _SwitchGroup(("environment.ONEDNN_MAX_CPU_ISA", "environment.DNNL_MAX_CPU_ISA"), "cpu", summed, "", vectors),
        _SwitchGroup(("environment.NVIDIA_TF32_OVERRIDE",), "gpu", _PRODUCTS | _CONVOLUTIONS, "", tf32),
        _SwitchGroup(("paddle.FLAGS_cublas_allow_tf32",), "gpu", _PRODUCTS, "paddle", tf32),
        _SwitchGroup(
            (
                "torch.backends.cuda.matmul.allow_tf32",
                "torch.backends.cudnn.allow_tf32",
                "torch.float32_matmul_precision",
                "environment.TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
            ),
            "",
            _PRODUCTS | _CONVOLUTIONS,
            "torch",
            tf32,
        ),
        _SwitchGroup(
            ("paddle.FLAGS_gemm_use_half_precision_compute_type",),
            "gpu",
            _PRODUCTS,
            "paddle",
            tr("products of 16 bits are summed in 16 bits, or in float32"),
        ),
        _SwitchGroup(
            ("torch.allow_fp16_reduced_precision_reduction", "torch.allow_bf16_reduced_precision_reduction"),
            "gpu",
            _PRODUCTS,
            "torch",
            tr("products of 16 bits are summed in 16 bits, or in float32"),
        ),
        _SwitchGroup(
            ("paddle.FLAGS_cudnn_deterministic", "paddle.FLAGS_cudnn_exhaustive_search", "paddle.FLAGS_use_autotune"),
            "gpu",
            _CONVOLUTIONS | _SUMS,
            "paddle",
            repeatable,
        ),
        _SwitchGroup(("paddle.FLAGS_embedding_deterministic",), "gpu", _SCATTERS, "paddle", repeatable),
        _SwitchGroup(("torch.deterministic_algorithms",), "gpu", _CONVOLUTIONS | _SUMS | _SCATTERS, "torch", repeatable),
        _SwitchGroup(("environment.CUBLAS_WORKSPACE_CONFIG",), "gpu", _PRODUCTS, "", repeatable),
        _SwitchGroup(("system", "numpy"), "", _EVERY, "", version),
    )


def settings_of(header: Mapping[str, Any]) -> dict[str, Any]:
    """All versions, devices and switches of a recording's header by name."""
    return {**(header.get("environment") or {}), **(header.get("flags") or {})}


def candidates(a: Mapping[str, Any], b: Mapping[str, Any], family: str, kernels: str) -> list[SwitchDifference]:
    """The settings in which two runs differ and that can change the bits of a call, the likeliest first.

    Args:
        a, b: the headers of both recordings.
        family: that of the op in docs/ops.md; "" where it is not known, or where it is no single op.
        kernels: ``"paddle"`` or ``"torch"``, whose kernels answered the call.
    """
    settings = settings_of(a), settings_of(b)
    devices = {_device(side) for side in settings}
    return list(_candidates(*settings, devices, family, kernels))


def _candidates(
    a: Mapping[str, Any], b: Mapping[str, Any], devices: set[str], family: str, kernels: str
) -> Iterator[SwitchDifference]:
    for group in _switch_groups():
        if group.kernels not in ("", kernels) or (group.device and group.device not in devices):
            continue
        if family and group.families and family not in group.families:
            continue
        for name in group.names:
            if name in _UNSET_IS_ABSENT or name.startswith("environment."):
                differ = a.get(name) != b.get(name)
            else:  # an older recording does not have it, or a version has no such switch
                differ = name in a and name in b and a[name] != b[name]
            if differ:
                yield SwitchDifference(name, _shown(a, name), _shown(b, name), group.why)


_UNSET_IS_ABSENT = frozenset({"instruction set"})


def _shown(settings: Mapping[str, Any], name: str) -> str:
    return str(settings[name]) if name in settings else tr("not set")


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
