"""Stand-ins for what the libraries of models import and no model computes with.

paddlenlp and PaddleFormers import readers of data sets, hubs and tokenizers on their way to a model: half a gigabyte that the
demo does without. Only the packages of ``NAMES`` are stood in for, and only where they are not installed.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

# fmt: off
NAMES = frozenset({
    "aistudio_sdk", "av", "blobfile", "colorama", "Crypto", "cv2", "datasets", "decord", "dill", "easydict", "einops",
    "erniebot", "evaluate", "faiss", "fastapi", "flashmask", "ftfy", "gradio", "h5py", "hf_transfer", "hydra",
    "imagededup", "imageio", "ipdb", "jieba", "jinja2", "json_repair", "lap", "librosa", "matplotlib", "meshio",
    "ml_dtypes", "modelscope", "motmetrics", "moviepy", "mpl_toolkits", "multiprocess", "natsort", "omegaconf", "onnx",
    "openpyxl", "paddle2onnx", "paddle_bfloat", "paddlefleet", "paddlefleet_ops", "pandas", "partial_json_parser",
    "pathos", "pgl", "pkg_resources", "prettytable", "psutil", "pyarrow", "pycocotools", "pydantic", "pyevtk", "pymesh",
    "pynvml", "rarfile", "resampy", "seaborn", "sentence_transformers", "sentencepiece", "seqeval", "shapely",
    "skimage", "sklearn", "skopt", "soundfile", "soxr", "termcolor", "terminaltables", "tiktoken", "tool_helpers",
    "torchcodec", "use_triton_in_paddle", "uvicorn", "visualdl", "wget", "xgrammar", "yeaudio", "zstandard",
})
# fmt: on


PROVIDER = "paddleformers.transformers.gpt_provider"  # makes models of paddlefleet's, and refuses to be imported without it
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


def older_names() -> None:
    """Names of huggingface_hub that diffusers and ppdiffusers read, and that it has no longer."""
    hub = importlib.import_module("huggingface_hub")
    hub.HfFolder, hub.cached_download = object, MagicMock()
    importlib.import_module("huggingface_hub.constants").hf_cache_home = ""


class Anything(type):
    """The class of stand-ins for classes: they have every attribute."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=f"{cls.__name__}.{name}")


class Base(metaclass=Anything):
    """What stands in for a class: can be made, and inherited from, with any arguments."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __init_subclass__(cls, **_: Any) -> None:
        super().__init_subclass__()


class StandIn(ModuleType):
    """A module whose every name is a stand-in."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (Base,), {}) if name[0].isupper() else MagicMock(name=f"{self.__name__}.{name}")


class Finder:
    """Finds the packages of ``NAMES`` when nobody else does."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        if name.partition(".")[0] not in NAMES:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def install() -> None:
    """From now on stand in for what is missing."""
    declare_operators()  # transformers imports torchvision where there is one
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder())  # type: ignore[arg-type]
        sys.modules[PROVIDER] = StandIn(PROVIDER)
