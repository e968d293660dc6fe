"""Models of ``fresh/`` and of ``examples/zoo``, and ports of them into whose source a mistake is planted."""

import importlib.util
import pathlib
import sys

FRESH = pathlib.Path(__file__).with_name("fresh")
ZOO = pathlib.Path(__file__).resolve().parents[2] / "examples" / "zoo"
sys.path.append(str(ZOO.parent))


def loaded(path, package=""):
    """The module of a file."""
    name = package + path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def planted(kind, exchanged, folder):
    """The module of a port in whose source parts are exchanged, in pairs; one of the zoo has the original behind the port."""
    fresh = FRESH / f"{kind}_paddle.py"
    held = fresh if fresh.exists() else ZOO / f"{kind}.py"
    source, *original = held.read_text().partition("class Torch")
    for old, new in zip(exchanged[::2], exchanged[1::2]):
        assert old in source, old
        source = source.replace(old, new)
    port = folder / f"{kind}_port.py"
    port.write_text("".join([source, *original]))
    return loaded(port, "" if held is fresh else "zoo.")
