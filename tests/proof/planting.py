"""Models of ``fresh/``, and ports of them into whose source a mistake is planted."""

import importlib.util
import pathlib
import sys

FRESH = pathlib.Path(__file__).with_name("fresh")


def loaded(path):
    """The module of a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def planted(kind, exchanged, folder):
    """The module of a port in whose source parts are exchanged, in pairs."""
    source = (FRESH / f"{kind}_paddle.py").read_text()
    for old, new in zip(exchanged[::2], exchanged[1::2]):
        assert old in source, old
        source = source.replace(old, new)
    port = folder / f"{kind}_port.py"
    port.write_text(source)
    return loaded(port)
