"""Every layer of paddle.nn, as a program first writes it: its float calls run on Torch's kernels, or natively for a told reason.

A layer of a newer Paddle that is not listed is tried on a matrix; where it wants something else, the test says so.
"""

import inspect

import numpy as np
import paddle
import pytest
from paddle import nn

import padiff_shim
from padiff_shim.table.reasons import NO_COUNTERPART, OTHER_WINDOWS
from padiff_shim.tested import PADDLES

pytestmark = pytest.mark.compat
CONTAINERS = set(
    """BeamSearchDecoder BiRNN Layer LayerDict LayerList MaxUnPool1D MaxUnPool2D MaxUnPool3D Module ModuleDict ModuleList
    ParameterDict ParameterList RNN RNNCellBase Sequential TransformerDecoder TransformerEncoder""".split()  # noqa: SIM905
)
NO_CPU = {"SyncBatchNorm"}
NATIVE = {  # op -> why it stays native
    "hsigmoid_loss": NO_COUNTERPART.text,
    "warprnnt": NO_COUNTERPART.text,
    "fractional_max_pool2d": OTHER_WINDOWS.text,
    "fractional_max_pool3d": OTHER_WINDOWS.text,
}
ROWS, SERIES, IMAGE, VOLUME = (2, 4), (2, 4, 8), (2, 4, 8, 8), (1, 2, 5, 5, 5)
RNG = np.random.default_rng(0)


def floats(*shape, low=-2.0, high=2.0, learns=True):
    return paddle.to_tensor(RNG.uniform(low, high, shape).astype("float32"), stop_gradient=not learns)


def whole(*shape, below=3, dtype="int64"):
    return paddle.to_tensor(RNG.integers(0, below, shape).astype(dtype))


def signs(*shape):
    return paddle.sign(floats(*shape, learns=False))


def shares():
    return floats(3, 4, low=0.1, high=0.9, learns=False)


def lengths(*values, dtype="int64"):
    return paddle.to_tensor(values, dtype=dtype)


def alike(*shapes):
    return lambda: tuple(floats(*shape) for shape in shapes)


MADE = {  # layer -> (its arguments, what comes in)
    **dict.fromkeys(("BatchNorm", "BatchNorm2D", "InstanceNorm2D"), ((4,), alike(IMAGE))),
    **dict.fromkeys(("BatchNorm1D", "InstanceNorm1D"), ((4,), alike(SERIES))),
    **dict.fromkeys(("BatchNorm3D", "InstanceNorm3D"), ((2,), alike(VOLUME))),
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN"), ((4, 5), alike((2, 3, 4)))),
    **dict.fromkeys(("LSTMCell", "GRUCell", "SimpleRNNCell"), ((4, 5), alike(ROWS))),
    **dict.fromkeys(("CosineSimilarity", "PairwiseDistance", "L1Loss", "MSELoss", "SmoothL1Loss"), ((), alike((3, 4), (3, 4)))),
    **dict.fromkeys(("TripletMarginLoss", "TripletMarginWithDistanceLoss"), ((), alike(*((3, 4),) * 3))),
    **dict.fromkeys(("BCELoss",), ((), lambda: (floats(3, 4, low=0.1, high=0.9), shares()))),
    **dict.fromkeys(("BCEWithLogitsLoss", "KLDivLoss"), ((), lambda: (floats(3, 4), shares()))),
    **dict.fromkeys(("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss"), ((), lambda: (floats(3, 4), whole(3)))),
    **dict.fromkeys(("HingeEmbeddingLoss", "SoftMarginLoss"), ((), lambda: (floats(3, 4), signs(3, 4)))),
    **{f"Conv{n}D{kind}": ((2, 3, 3), alike((1, 2, *(5,) * n))) for n in (1, 2, 3) for kind in ("", "Transpose")},
    **{
        f"{kind}Pool{n}D": ((2,), alike((1, 2, *(4,) * n)))
        for n in (1, 2, 3)
        for kind in ("Max", "Avg", "AdaptiveAvg", "AdaptiveMax")
    },
    **{
        f"{kind}Pad{n}D": ((1,), alike((1, 2, *(4,) * n)))
        for n in (1, 2, 3)
        for kind in ("Zero", "Circular", "Reflection", "Replication", "")
    },
    **{f"ConstantPad{n}D": ((1, 0.5), alike((1, 2, *(4,) * n))) for n in (1, 2, 3)},
    **{f"FractionalMaxPool{n}D": ((3,), alike((1, 2, *(5,) * n))) for n in (2, 3)},
    **{f"LPPool{n}D": ((2, 2), alike((1, 2, *(4,) * n))) for n in (1, 2)},
    **{name: ((None, 2), alike(IMAGE)) for name in ("Upsample", "UpsamplingNearest2D", "UpsamplingBilinear2D")},
    **{name: ((2,), alike(IMAGE)) for name in ("PixelShuffle", "PixelUnshuffle", "ChannelShuffle", "Maxout")},
    "AdaptiveLogSoftmaxWithLoss": ((32, 10, [3, 6]), lambda: (floats(6, 32), lengths(0, 1, 4, 5, 8, 9))),
    "Bilinear": ((4, 3, 2), alike((2, 4), (2, 3))),
    "CTCLoss": ((), lambda: (floats(8, 2, 5), whole(2, 3, dtype="int32") + 1, lengths(8, 8), lengths(3, 3))),
    "CosineEmbeddingLoss": ((), lambda: (floats(3, 4), floats(3, 4), lengths(1, -1, 1))),
    "Dropout2D": ((), alike(IMAGE)),
    "Dropout3D": ((), alike(VOLUME)),
    "Embedding": ((5, 4), lambda: (whole(2, 3),)),
    "FeatureAlphaDropout": ((), alike(IMAGE)),
    "Flatten": ((), alike(IMAGE)),
    "Fold": (([4, 4], [2, 2]), alike((1, 8, 9))),
    "GaussianNLLLoss": ((), lambda: (floats(3, 4), floats(3, 4), shares())),
    "GroupNorm": ((2, 4), alike(IMAGE)),
    "HSigmoidLoss": ((4, 5), lambda: (floats(3, 4), whole(3, 1))),
    "LayerNorm": ((4,), alike(ROWS)),
    "Linear": ((4, 3), alike(ROWS)),
    "LocalResponseNorm": ((3,), alike(IMAGE)),
    "MarginRankingLoss": ((), lambda: (floats(3), floats(3), signs(3))),
    "MultiHeadAttention": ((8, 2), alike((2, 3, 8))),
    "MultiLabelMarginLoss": ((), lambda: (floats(3, 4), whole(3, 4))),
    "MultiLabelSoftMarginLoss": ((), lambda: (floats(3, 4), whole(3, 4, below=2).astype("float32"))),
    "PoissonNLLLoss": ((), lambda: (floats(3, 4), shares())),
    "RNNTLoss": (
        (),
        lambda: (floats(1, 4, 3, 3), lengths(1, 2, dtype="int32").unsqueeze(0), *(lengths(n, dtype="int32") for n in (4, 2))),
    ),
    "Softmax2D": ((), alike(IMAGE)),
    "SpectralNorm": (([4, 3],), alike((4, 3))),
    "Transformer": ((8, 2, 1, 1, 16), alike((2, 3, 8), (2, 3, 8))),
    "TransformerDecoderLayer": ((8, 2, 16), alike((2, 3, 8), (2, 3, 8))),
    "TransformerEncoderLayer": ((8, 2, 16), alike((2, 3, 8))),
    "Unflatten": ((1, [2, 2]), alike(IMAGE)),
    "Unfold": (([2, 2],), alike(IMAGE)),
}


def layers():
    """The names of all layers, each class once, under the name that it calls itself."""
    results = [name for name in dir(nn) if inspect.isclass(getattr(nn, name)) and issubclass(getattr(nn, name), nn.Layer)]
    return [name for name in results if getattr(nn, name).__name__ == name and name not in CONTAINERS | NO_CPU]


@pytest.mark.parametrize("name", layers())
def test_a_layer_runs_on_torchs_kernels(name):
    arguments, inputs = MADE.get(name, ((), alike(ROWS)))
    layer = getattr(nn, name)(*arguments)
    operands = inputs()
    with padiff_shim.reference("torch", random="torch") as run:
        results = layer(*operands)
        first = results[0] if isinstance(results, (list, tuple)) else results
        if not first.stop_gradient:
            first.sum().backward()
    # On integers and booleans nothing is lost.
    left = {op: reason for op, reasons in run.native.items() for reason in reasons if "exact in both" not in reason}
    assert left == {op: NATIVE[op] for op in left if op in NATIVE}


@pytest.mark.skipif(paddle.__version__ != PADDLES[-1], reason="older ones have fewer layers")
def test_what_is_listed_exists():
    assert set(MADE) <= set(dir(nn))
