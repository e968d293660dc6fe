"""Models of paddle.vision beside torchvision's of the same name."""

from __future__ import annotations

import functools
from typing import Any

from . import stand_ins
from .pair import DIFFERS, Pair, trained_size


def both(name: str, size: int, batch: int, theirs: str | None = None, **options: Any) -> tuple[Any, Any, Any]:
    """The models of this name, and images of ``size`` by ``size``."""
    import numpy as np

    stand_ins.declare_operators()
    import paddle
    import torchvision

    original = getattr(torchvision.models, theirs or name)(weights=None, **options)
    port = getattr(paddle.vision.models, name)(pretrained=False)
    port.eval()
    images = np.random.default_rng(0).standard_normal((batch, 3, size, size)).astype("float32")
    return port, trained_size(original), images


def pair(title: str, name: str, size: int = 64, batch: int = 2, **more: Any) -> Pair:
    options = more.pop("options", {})
    return Pair(title, "vision", functools.partial(both, name, size, batch, more.pop("theirs", None), **options), **more)


DROPOUT = 'Dropout(mode="downscale_in_infer") scales in evaluation'

PAIRS = (
    pair("ResNet-18", "resnet18"),
    pair("ResNet-50", "resnet50"),
    pair("MobileNetV2", "mobilenet_v2"),
    pair("MobileNetV3 small", "mobilenet_v3_small"),
    pair("VGG-11", "vgg11", batch=1),
    pair("SqueezeNet 1.0", "squeezenet1_0", size=96, expected=DIFFERS, reason=f"poolings without ceil_mode=True; {DROPOUT}"),
    pair(
        "SqueezeNet 1.1",
        "squeezenet1_1",
        size=96,
        expected=DIFFERS,
        reason=f"padding=1 in the first convolution, poolings without ceil_mode=True; {DROPOUT}",
    ),
    pair("AlexNet", "alexnet", size=224, batch=1, expected=DIFFERS, reason=DROPOUT),
    pair(
        "InceptionV3",
        "inception_v3",
        size=299,
        batch=1,
        expected=DIFFERS,
        reason=f"epsilon=1e-5 against 1e-3 in all norms; {DROPOUT}",
        options={"aux_logits": False, "init_weights": False},
    ),
)
