"""What a mode finds: the two frameworks, importable, real, and able to share the current device; and which process this is."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
import warnings
from collections.abc import Mapping
from typing import Any

from .. import tested
from ..errors import BackendError, MissingFrameworkError, PadiffShimError, described
from ..text import joined, tr

_TORCH_VERSIONS = "padiff_shim.torch_versions"
INSTALL = {"paddle": "paddlepaddle==3.3.1", "torch": "torch==2.13.0"}  # as `make` installs them


def install_command(name: str) -> str:
    """Installs a framework, and the other one if it is missing, too; a build for CUDA or for CPUs alone has an index of its own."""
    return f"pip install {' '.join(INSTALL[each] for each in INSTALL if each == name or not _is_there(each))}"


def _is_there(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


_NAMES = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "bool", "uint8", "int32", "int64")


def explained(error: Exception) -> Exception:
    """What to say where modules could not be imported: what of the frameworks is missing or too old; else the error itself."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, ImportError):
        lacking = (error.name or "").partition(".")[0]
        importing = [lacking, *(module.partition(".")[0] for module in modules)]
        for name in filter(INSTALL.__contains__, importing):
            if lacking != name and isinstance(error, ModuleNotFoundError):
                return MissingFrameworkError(
                    "{name} needs {module}, which is not installed; `pip check` says which package that is",
                    name=name,
                    module=error.name,
                )
            return MissingFrameworkError(
                "{name} cannot be imported ({error}). Install it: {command}",
                name=name,
                error=error,
                command=install_command(name),
            )
    if _TORCH_VERSIONS in modules:
        version = sys.modules["torch"].__version__
        return _too_old({"torch": version}) or BackendError(
            "Torch {version} lacks what padiff_shim uses of it ({error}); the newest that were tested: {versions}",
            version=version,
            error=error,
            versions=", ".join(tested.TORCHES[-2:]),
        )
    return error


def _too_old(environment: Mapping[str, str]) -> BackendError | None:
    old = [
        tr("{name} {version} is older than {oldest}: install a newer one", name=name, version=version, oldest=oldest)
        for name, version, oldest in tested.too_old(environment)
    ]
    return BackendError(joined("; ", old)) if old else None


def not_imported(name: str) -> str:
    """What to say of a program that did not import a framework: how to install it, if it is not there."""
    if _is_there(name):
        return tr("the program did not import {name}", name=name)
    return tr(
        "the program did not import {name}, which is not installed. Install it: {command}", name=name, command=install_command(name)
    )


def _framework(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise explained(error) from error


def frameworks() -> tuple[Any, Any]:
    """Paddle and the real torch. To be asked before anything imports the op table, which imports torch."""
    # Paddle 3.x can put a proxy of itself in torch's place; then even the real torch breaks inside.
    finder = getattr(sys.modules.get("paddle.compat.proxy"), "TORCH_PROXY_FINDER", None)
    module = sys.modules.get("torch")
    if (finder is not None and finder in sys.meta_path) or type(module).__name__ == "ProxyModule":
        raise BackendError(
            "`import torch` gives Paddle's torch proxy now (paddle.enable_compat() or a torch proxy is active), and "
            "the real torch breaks inside while it is. Call paddle.disable_compat() first, or open the mode inside "
            "`with paddle.use_compat_guard(enable=False):`."
        )
    paddle, torch = _framework("paddle"), _framework("torch")
    if not hasattr(torch, "_C") or not hasattr(torch, "from_dlpack"):
        raise BackendError("the module 'torch' at {torch} is not PyTorch", torch=getattr(torch, "__file__", "?"))
    # Where a library has written another dtype under one of these names, Torch's own functions compute in that one, too
    for name in _NAMES:
        if str(getattr(torch, name, "")) != f"torch.{name}":
            raise BackendError(
                "torch.{name} is {other} in this program, and Torch's own functions, which ask for it, compute in that; "
                "put it back before a mode is opened",
                name=name,
                other=getattr(torch, name, None),
            )
    old = _too_old({"paddle": paddle.__version__, "torch": torch.__version__})
    if old is not None:
        raise old
    try:
        importlib.import_module(_TORCH_VERSIONS)
    except (AttributeError, ImportError) as error:
        raise explained(error) from error
    return paddle, torch


def prepare() -> dict[str, str]:
    """Both frameworks, importable and able to share the current device; returns what the run's header says."""
    paddle, torch = frameworks()
    from ..frameworks import settings

    try:
        device = settings.check_devices()
    except ValueError as error:
        raise BackendError(*error.args) from None
    missing = settings.missing_kernels(device)
    if missing is not None:
        warnings.warn(missing, RuntimeWarning, stacklevel=2)
    return {"paddle": paddle.__version__, "torch": torch.__version__, "device": device}


def versions() -> dict[str, str]:
    """Versions and the device of an answer that is found here."""
    from ..frameworks import settings

    return settings.environment()


def rank() -> int:
    """This process's rank in a distributed run (PADDLE_TRAINER_ID or RANK), 0 otherwise."""
    name = "PADDLE_TRAINER_ID" if os.environ.get("PADDLE_TRAINER_ID") else "RANK"
    text = os.environ.get(name) or "0"
    if not text.isascii() or not text.isdigit():
        raise PadiffShimError("the environment's {name} is not the number of a process: {text}", name=name, text=described(text))
    return int(text)


def processes() -> int:
    """How many processes the distributed run has (PADDLE_TRAINERS_NUM or WORLD_SIZE), 1 otherwise."""
    text = os.environ.get("PADDLE_TRAINERS_NUM") or os.environ.get("WORLD_SIZE") or "1"
    return int(text) if text.isascii() and text.isdigit() else 1
