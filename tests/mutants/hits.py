"""Put into a copy of the tree as ``padiff_shim/_reach.py``: notes which test files come by which of the planted places.

The functions get their probes while they are compiled, so that their text, which the product itself reads, stays as it is. Every
process that imports the copy notes its places in one file; those that a test starts inherit PYTEST_CURRENT_TEST.
"""

import ast
import builtins
import importlib.machinery
import os

LOG = ""  # both are set by the lines that are appended to the copy
PLACES: dict[str, dict[str, int]] = {}  # file -> {fault: line}
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_seen: set[tuple[str, str]] = set()


def function_at(tree, line):
    """The innermost function that has a line, or None."""
    holders = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    holders = [node for node in holders if node.lineno <= line <= node.end_lineno]
    return min(holders, key=lambda node: node.end_lineno - node.lineno, default=None)


def _hit(name):
    place = (name, os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0])
    if place in _seen:
        return
    _seen.add(place)
    try:
        file = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, f"{' '.join(place)}\n".encode())
        finally:
            os.close(file)
    except OSError:
        pass


def _probed(loader, data, path, *, _optimize=-1):
    places = PLACES.get(os.path.relpath(str(path), _ROOT))
    if not places:
        return _plain(loader, data, path, _optimize=_optimize)
    tree = ast.parse(data)
    holders = {name: function_at(tree, line) for name, line in places.items()}
    for name, holder in holders.items():
        behind = int(ast.get_docstring(holder) is not None and len(holder.body) > 1)
        probe = ast.parse(f"_mutants_hit({name!r})").body[0]
        for node in ast.walk(probe):
            ast.copy_location(node, holder.body[behind])
        holder.body.insert(behind, probe)
    return compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)


_plain = importlib.machinery.SourceFileLoader.source_to_code


def begin():
    """Probe what is imported from now on."""
    builtins._mutants_hit = _hit
    importlib.machinery.SourceFileLoader.source_to_code = _probed
