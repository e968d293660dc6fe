"""The sources of the project as trees: parsed and walked once, for all tests that read them."""

import ast
import functools
import gc
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ("padiff_shim", "patches")


def nodes_of(source):
    """All nodes of a source, the outer ones first, without the contexts of names."""
    nodes = [ast.parse(source)]
    for node in nodes:  # in less time than ast.walk
        for field in node._fields:
            value = getattr(node, field, None)
            if value.__class__ is list:
                nodes += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                nodes.append(value)
    return nodes


@functools.cache
def _files(folder):
    gc.disable()  # trees are many objects, and none of them is in a circle
    try:
        return {path: nodes_of(path.read_bytes()) for path in sorted((ROOT / folder).rglob("*.py"))}
    finally:
        gc.freeze()
        gc.enable()


def files(*folders):
    """{path: its nodes} of these folders; of the package without any."""
    return {path: nodes for folder in folders or PACKAGE for path, nodes in _files(folder).items()}


def named(path):
    """Where it is in the project."""
    return path.relative_to(ROOT).as_posix()
