"""Which names and keywords of Torch the sources write, and which of them a version of Torch lacks.

``python tests/torch_names.py`` says what the installed Torch lacks. For the check without wheels
(``tests/project/test_torch_names.py``) ``tests/torch_names.json`` holds, for each other Torch of the range, what it lacks of what
the pinned one has: names of each namespace that the sources use, and keywords of their functions. ``--list FILE`` writes what the
installed Torch has, ``--table PINNED OTHER...`` makes the table of such files.
"""

import argparse
import ast
import importlib
import inspect
import json
import sys
import warnings
from pathlib import Path

import parsed

TABLE = parsed.ROOT / "tests" / "torch_names.json"
VERSIONS_OF_TORCH = "padiff_shim/torch_versions.py"  # it asks for a version before it uses what not all have
ATEN, ANY = "torch.ops.aten", "**"
# Rooms of Torch whose names nobody lists: nothing of ours is near them. A name in another room needs no new list.
_OTHERS = (
    *(
        "ao",
        "compiler",
        "contrib",
        "distributed",
        "export",
        "fx",
        "hub",
        "jit",
        "library",
        "masked",
        "mps",
        "mtia",
        "nested",
        "onnx",
    ),
    *("onnx", "package", "profiler", "quantization", "sparse", "testing", "xpu", "utils", "modules", "classes"),
)


def sources():
    """Path in the repository -> nodes of each module of the package."""
    return {parsed.named(path): nodes for path, nodes in parsed.files().items()}


def dotted(node, aliases):
    """``torch.nn.functional.pad`` of ``F.pad``; None for what does not begin with a name of Torch's."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    begin = aliases.get(node.id) if isinstance(node, ast.Name) else None
    return ".".join([begin, *reversed(parts)]) if begin else None


def aliases_of(nodes):
    """(name in this module -> name of Torch's, those that are imported with their lines)."""
    aliases, imported = {}, []
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "torch":
                    aliases[alias.asname or "torch"] = alias.name if alias.asname else "torch"
                    imported.append((alias.name, node.lineno))
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "torch":
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                imported.append((f"{node.module}.{alias.name}", node.lineno))
    for node in nodes:  # aten = torch.ops.aten
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute) and isinstance(node.targets[0], ast.Name):
            name = dotted(node.value, aliases)
            if name:
                aliases.setdefault(node.targets[0].id, name)
    return aliases, imported


def written(files):
    """Names -> places, and (name, keyword) -> places; what is an attribute of a longer name is not a name of its own."""
    names, keywords = {}, {}
    for path, nodes in files.items():
        aliases, imported = aliases_of(nodes)
        for name, line in imported:
            names.setdefault(name, set()).add(f"{path}:{line}")
        inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        for node in nodes:
            name = dotted(node, aliases) if isinstance(node, ast.Attribute) and id(node) not in inner else None
            if name:
                names.setdefault(name, set()).add(f"{path}:{node.lineno}")
            called = dotted(node.func, aliases) if isinstance(node, ast.Call) else None
            for keyword in node.keywords if called else ():
                if keyword.arg:
                    keywords.setdefault((called, keyword.arg), set()).add(f"{path}:{node.lineno}")
    return names, keywords


def methods(files):
    """Attributes of what may be a tensor -> places."""
    places = {}
    for path, nodes in files.items():
        aliases, _ = aliases_of(nodes)
        for node in nodes:
            if isinstance(node, ast.Attribute) and dotted(node, aliases) is None:
                places.setdefault(node.attr, set()).add(f"{path}:{node.lineno}")
    return places


def elsewhere(places):
    """Those that are not in the module of Torch's versions."""
    return {place for place in places if not place.startswith(VERSIONS_OF_TORCH)}


def resolved(name):
    """What a dotted name stands for, and the modules and classes that it leads through. Raises an error if it is absent."""
    value, spaces = importlib.import_module("torch"), ["torch"]
    parts = name.split(".")
    for end, part in enumerate(parts[1:], 2):
        here = ".".join(parts[:end])
        try:
            value = getattr(value, part)
        except AttributeError:
            value = importlib.import_module(here)
        else:
            if not inspect.ismodule(value) and end < len(parts) and not hasattr(value, parts[end]):
                value = importlib.import_module(here)  # a function of a module's name hides it
        if end < len(parts) and (inspect.ismodule(value) or inspect.isclass(value)) and not here.startswith(ATEN):
            spaces.append(here)
    return value, spaces


def private(names):
    """Those with a private part -> their places; ATen's ops have such names, too, and are no part of Torch's Python."""
    return {
        name: places
        for name, places in names.items()
        if not name.startswith(ATEN) and any(part.startswith("_") and not part.startswith("__") for part in name.split("."))
    }


def absent(names):
    """Those that the installed Torch lacks -> their places."""
    lacking = {}
    for name, places in names.items():
        try:
            resolved(name)
        except (AttributeError, ImportError, RuntimeError):
            lacking[name] = places
    return lacking


def schemas():
    """ATen's names with their overloads -> keywords."""
    import torch

    keywords_by_name = {}
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        if space == "aten":
            keywords = {argument.name for argument in schema.arguments}
            for key in (name, f"{name}.{schema.overload_name or 'default'}"):
                keywords_by_name.setdefault(key, set()).update(keywords)
    return keywords_by_name


def keywords_of(name, value, aten):
    """Of a function, or None if nobody can tell."""
    if inspect.isclass(value) or not callable(value):
        return None
    if not (inspect.isfunction(value) or inspect.ismethod(value)):
        keywords = aten.get(name.rpartition(".")[2])
        return None if keywords is None else keywords | {"out", "dtype", "device", "requires_grad", "layout", "pin_memory", "input"}
    parameters = inspect.signature(value).parameters.values()
    return {ANY if parameter.kind is parameter.VAR_KEYWORD else parameter.name for parameter in parameters}


def listing(names):
    """What the installed Torch has of the namespaces of these names: their names, and the keywords of their functions."""
    import torch

    modules = [name for name, module in sys.modules.items() if name.startswith("torch.") and module is not None]
    spaces = {name for name in modules if not any(part in _OTHERS or part.startswith("_") for part in name.split("."))}
    spaces |= {"torch", "torch.Tensor"}
    for name in names:
        try:
            spaces.update(resolved(name)[1])
        except (AttributeError, ImportError, RuntimeError):
            continue
    aten, offered, keywords = schemas(), {}, {}
    for space in sorted(spaces):
        owner = resolved(space)[0]
        offered[space] = sorted(name for name in dir(owner) if not name.startswith("__"))
        for name in offered[space]:
            try:
                of_function = keywords_of(name, getattr(owner, name), aten)
            except (AttributeError, RuntimeError, TypeError, ValueError):
                continue
            if of_function:
                keywords[f"{space}.{name}"] = sorted(of_function)
    offered[ATEN] = sorted(aten)
    keywords.update({f"{ATEN}.{name}": sorted(words) for name, words in aten.items()})
    return {"torch": torch.__version__.partition("+")[0], "names": offered, "keywords": keywords}


def lacks(pinned, other):
    """What ``other`` lacks of what ``pinned`` has; of a namespace that it lacks: ["*"]."""
    names = {
        space: sorted({*offered} - {*other["names"][space]}) if space in other["names"] else ["*"]
        for space, offered in pinned["names"].items()
    }
    keywords = {
        name: sorted({*words} - {*other["keywords"][name]})
        for name, words in pinned["keywords"].items()
        if name in other["keywords"] and ANY not in other["keywords"][name]
    }
    return {
        "names": {space: gone for space, gone in names.items() if gone},
        "keywords": {name: gone for name, gone in keywords.items() if gone},
    }


def lacking(table, names, keywords, attributes):
    """Of the names, keywords and tensors' attributes that are written, those that a Torch of the table lacks -> their places."""
    gone = {}
    for name, places in names.items():
        parts = name.split(".")
        for end in range(1, len(parts)):
            space, rest = ".".join(parts[:end]), parts[end]
            absent_here = table["names"].get(space, ())
            if absent_here == ["*"] or rest in absent_here or (space == ATEN and ".".join(parts[end:]) in absent_here):
                gone[name] = places
    for (name, keyword), places in keywords.items():
        if keyword in table["keywords"].get(name, ()):
            gone[f"{name}({keyword}=)"] = places
    of_others = {name for kind in (str, list, dict, set, tuple) for name in dir(kind)}
    for name in table["names"].get("torch.Tensor", ()):
        if name in attributes and name not in of_others:
            gone[f"torch.Tensor.{name}"] = attributes[name]
    return gone


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", type=Path, metavar="FILE", help="write what the installed Torch has")
    parser.add_argument(
        "--table", type=Path, nargs="+", metavar="FILE", help="make the table: the pinned Torch's list, then others'"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.table:
        pinned, *others = (json.loads(path.read_text()) for path in options.table)
        others.sort(key=lambda other: [int(part) for part in other["torch"].split(".")])
        table = {
            "pinned": pinned["torch"],
            "namespaces": sorted(pinned["names"]),
            "lack": {other["torch"]: lacks(pinned, other) for other in others},
        }
        TABLE.write_text(json.dumps(table, indent=0) + "\n")
        print(f"{TABLE}: {TABLE.stat().st_size:,} bytes")
        return
    names, _ = written(sources())
    if options.list:
        options.list.write_text(json.dumps(listing(names)))
    import torch

    gone = absent({name: elsewhere(places) for name, places in names.items() if elsewhere(places)})
    for name, places in sorted(gone.items()):
        print(f"  {name}: {', '.join(sorted(places))}")
    print(f"Torch {torch.__version__}: {len(names)} names, {len(gone)} absent")
    sys.exit(bool(gone))


if __name__ == "__main__":
    main()
