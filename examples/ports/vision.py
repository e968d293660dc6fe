"""Models of paddle.vision beside torchvision's of the same name."""

from __future__ import annotations

import functools
from typing import Any

from .pair import Pair, trained_size

# Without it torchvision declares operators for a library that its wheel, installed alone, cannot load.
OPERATORS = tuple(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor" for name in ("nms", "qnms"))


@functools.cache
def declare_operators() -> Any:
    """Declare what torchvision's Python registers kernels for; cached, since a collected library forgets its declarations."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for schema in OPERATORS:
        library.define(schema)
    return library


def both(name: str, size: int, batch: int, theirs: str | None = None, **options: Any) -> tuple[Any, Any, Any]:
    """The models of this name, and images of ``size`` by ``size``."""
    import numpy as np

    declare_operators()
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


PAIRS = (
    pair("ResNet-18", "resnet18"),
    pair("ResNet-50", "resnet50"),
    pair("MobileNetV2", "mobilenet_v2"),
    pair("MobileNetV3 small", "mobilenet_v3_small"),
    pair("VGG-11", "vgg11", batch=1),
    pair("SqueezeNet 1.0", "squeezenet1_0", size=96),
    pair("SqueezeNet 1.1", "squeezenet1_1", size=96),
    pair("AlexNet", "alexnet", size=224, batch=1),
    pair("InceptionV3", "inception_v3", size=299, batch=1, options={"aux_logits": False, "init_weights": False}),
)
