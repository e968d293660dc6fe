"""One call of a run as a script of its own: paddle, torch and numpy, and nothing of this library."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import math
import os
import pprint
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..arguments import path as file
from ..errors import ArgumentError, FileError, PadiffShimError, described
from ..runlog.encoding import finite, numeric
from ..runlog.events import checked
from ..runlog.inputs import pack, strided_view
from ..table.op import Entry, Op
from ..table.signature import parse
from ..text import SENTENCE, escaped, joined, shown, tr
from . import oracles

# ---- Source of functions

_HOMES = ("operator", "math", "torch", "torch.nn.functional", "torch.linalg", "torch.special", "numpy")
_ALWAYS = ("import json", "import sys", "from pathlib import Path", "from typing import Any, NamedTuple", "import numpy as np")


class Excerpt:
    """Definitions and the imports that they need, for another file; ``prefix`` comes before the names of the definitions."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.imports: set[str] = {*_ALWAYS, "import paddle", "import torch"}
        self._pieces: dict[tuple[str, int], str] = {}

    def add(self, module: str, line: int, text: str) -> None:
        """One definition of a module, from its place there."""
        self._pieces[module, line] = text

    def text(self) -> str:
        """All definitions in the order of their modules."""
        return "\n\n\n".join(text for _, text in sorted(self._pieces.items()))

    def header(self) -> str:
        """The imports; plain ones first, as is usual."""
        ordered = sorted(self.imports, key=lambda line: (line.startswith("from"), line))
        return "\n".join(["", "from __future__ import annotations", "", *ordered, "", ""])


def expression(function: Callable[..., Any], excerpt: Excerpt) -> str:
    """Source that names ``function`` in a call; the definitions that it needs are added to ``excerpt``.

    Raises:
        PadiffShimError: the function has neither a public name nor a definition at the top of a module.
    """
    if isinstance(function, functools.partial):  # a formula that several ops share
        excerpt.imports.add("import functools")
        first = [expression(value, excerpt) if callable(value) else repr(value) for value in function.args]
        more = [f"{name}={value!r}" for name, value in function.keywords.items()]
        return f"functools.partial({', '.join([expression(function.func, excerpt), *first, *more])})"
    name = getattr(function, "__name__", "")
    for home in _HOMES:
        framework = importlib.import_module(home)
        public = (
            name
            if getattr(framework, name, None) is function
            else next((word for word, value in vars(framework).items() if value is function and not word.startswith("_")), "")
        )
        if public:
            excerpt.imports.add("import numpy as np" if home == "numpy" else f"import {home}")
            return f"{'np' if home == 'numpy' else home}.{public}"
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    held = getattr(module, name, None)
    if held is not function and getattr(held, "reference", None) is not function:  # an op is known by its formula's name
        raise PadiffShimError(
            "the source of {function} cannot be written out: it is not defined by name in a module", function=repr(function)
        )
    _collect(module, name, excerpt)
    return excerpt.prefix + name


def _collect(module: Any, start: str, excerpt: Excerpt) -> None:
    """Add the definition of ``start`` and of all names of the module that it uses."""
    source = inspect.getsource(module)
    known = _definitions(ast.parse(source))
    lines, queue, taken = source.splitlines(), [start], set()
    imported = set()
    while queue:
        name = queue.pop()
        if name in taken or name not in known:
            continue
        taken.add(name)
        node = known[name]
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            shared = _shared(node, name, module)
            if shared is None:
                excerpt.imports.add(_import(node, name, module))
                imported.add(name)
            else:
                _collect(shared, name, excerpt)
            continue
        if isinstance(node, ast.FunctionDef) and hasattr(getattr(module, name, None), "reference"):
            node.decorator_list = []  # the declaration of an op: a script needs the formula alone
        queue += [name_node.id for name_node in ast.walk(node) if isinstance(name_node, ast.Name)]
    chosen = {id(known[name]): known[name] for name in taken if not isinstance(known[name], (ast.Import, ast.ImportFrom))}
    for node in chosen.values():
        excerpt.add(module.__name__, node.lineno, _text(node, lines, taken - imported, excerpt.prefix))


def _definitions(tree: ast.Module) -> dict[str, Any]:
    """Name -> the statement at the top of a module that binds it."""
    bound: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound[node.name] = node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound.update({alias.asname or alias.name.partition(".")[0]: node for alias in node.names})
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            bound.update(
                {name_node.id: node for target in targets for name_node in ast.walk(target) if isinstance(name_node, ast.Name)}
            )
    return bound


def _shared(node: Any, name: str, module: Any) -> Any:
    """The module that ``name`` comes from, if its definition is written out, too: of the same package, or of Torch's versions."""
    if not isinstance(node, ast.ImportFrom) or node.module is None or not module.__package__:
        return None
    if not any(alias.name == name and alias.asname is None for alias in node.names):
        return None
    if node.level == 1:
        return importlib.import_module(f"{module.__package__}.{node.module}")
    return importlib.import_module(node.module) if node.module == "padiff_shim.torch_versions" else None


def _import(node: Any, name: str, module: Any) -> str:
    """The import of one name alone, in absolute terms."""
    (alias,) = (candidate for candidate in node.names if (candidate.asname or candidate.name.partition(".")[0]) == name)
    own = module.__name__.partition(".")[0]
    origin = (own if node.level else node.module) if isinstance(node, ast.ImportFrom) else alias.name
    if str(origin).partition(".")[0] == "padiff_shim":
        raise PadiffShimError(
            "{type} uses {name} of this library, which a script of its own cannot", type=module.__name__, name=name
        )
    if isinstance(node, ast.Import):
        return ast.unparse(ast.Import([alias]))
    return ast.unparse(ast.ImportFrom(node.module, [alias], 0))


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: set[str], prefix: str) -> None:
        self.names, self.prefix = names, prefix

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.prefix + node.id, node.ctx) if node.id in self.names else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.name = self.prefix + node.name if node.name in self.names else node.name
        return self.generic_visit(node)


def _text(node: Any, lines: list[str], names: set[str], prefix: str) -> str:
    """A definition's source: as written, or with the prefix before these names, which the excerpt defines."""
    if not prefix:
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
        return "\n".join(lines[first - 1 : node.end_lineno])
    return ast.unparse(_Renamed(names, prefix).visit(node))


# ---- The script
#
# A log and its operands may come from elsewhere, and the script will be run: their contents stand in it as literals only; names
# are those of the op's parameters, or the call is refused.

_RESULTS = ("grad", "paddle", "torch")
_DTYPES = frozenset(
    ("bool", "uint8", "int8", "int16", "int32", "int64", "bfloat16", "float16", "float32", "float64", "complex64", "complex128")
)
_MARK = "# --- from here on: the script ---\n"


def _literal(value: Any) -> str:
    """An attribute, as JSON holds it, as Python source; dtypes as the framework's own."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, str) and value.startswith("torch.") and value[6:] in _DTYPES:
        return value
    return repr(value)


class _Arguments:
    """The arguments of one call as source, by parameter name."""

    def __init__(self, op: Op, record: Mapping[str, Any], names: Iterable[str]) -> None:
        parsed, params = parse(op.params), op.names
        self.tensors = [name for name in names if name not in _RESULTS]
        numbers = {operand["name"]: numeric(operand["number"]) for operand in record["inputs"] if "number" in operand}
        self.values: dict[str, str] = {}
        for place, (name, (_, default)) in enumerate(zip(params, parsed)):
            if place >= (1 if op.operands else op.tensors):
                self.values[name] = _literal(numeric(record["attributes"].get(name, default)))
            elif op.operands:
                self.values[name] = "[" + ", ".join(_name(tensor) for tensor in self.tensors) + "]"
            elif name in self.tensors:
                self.values[name] = _name(name)
            else:
                self.values[name] = _literal(numbers.get(name))
        self.dtype = self.values.get("dtype", "None")
        self.head = [_name(tensor) for tensor in self.tensors]

    def torch(self) -> str:
        return ", ".join("dtype" if name == "dtype" and value != "None" else value for name, value in self.values.items())

    def paddle(self, entry: Entry) -> str:
        """As far as the entry point has parameters of the op; the call left out those behind."""
        values = {**self.values, "dtype": self.dtype.replace("torch.", "paddle.")}
        names = [aliases[0] for aliases, _ in parse(entry.params)]
        last = max(place for place, name in enumerate(names) if name in values)
        return ", ".join(values.get(aliases[0], default) for aliases, default in parse(entry.params)[: last + 1])


def _name(tensor: str) -> str:
    """``operands[1]`` as a Python name."""
    return tensor.replace("[", "_").replace("]", "")


def _calls(op: Op, entry: Entry, record: Mapping[str, Any], arrays: Mapping[str, Any]) -> tuple[list[str], Excerpt]:
    """Source of the three functions that the parts call, and the definitions that they need."""
    arguments = _Arguments(op, record, arrays)
    excerpt = Excerpt()
    reference = expression(op.reference, excerpt)
    oracle = oracles.ORACLES.get(op.name) if record["dtype"] == "float64" and record["phase"] == "forward" else None
    lines = [
        f"def run_paddle({', '.join(arguments.head)}):",
        f"    return {entry.target}({arguments.paddle(entry)}){'[0]' if entry.returns_list else ''}",
        "",
        "",
        f"def run_torch({', '.join([*arguments.head, f'dtype={arguments.dtype}'])}):",
        f"    return {reference}({arguments.torch()})",
        "",
        "",
    ]
    if oracle is None:
        return [*lines, "exact = None"], excerpt
    own = Excerpt(prefix="exact_")
    name = expression(oracle, own)
    excerpt.imports |= own.imports
    values = ", ".join("None" if name == "dtype" else value for name, value in arguments.values.items())
    return [*lines, own.text(), "", "", f"def exact({', '.join(arguments.head)}):", f"    return {name}({values})"], excerpt


def write(
    record: Mapping[str, Any],
    arrays: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    environment: Mapping[str, Any] | None = None,
) -> Path:
    """Write the script ``path`` and its data beside it (``.npz``); returns the script's path.

    The script runs Paddle's call by the entry point that the program used, and the torch reference, which is written out in it, on
    the saved tensors; it holds both against the reference in float64 (for float64: a formula in long double where there is one).
    It exits 1 if the side that the verdict blames is off by more than the recorded bound at the recorded place, else 0.

    Args:
        record, arrays: as :func:`~padiff_shim.runlog.inputs.save_inputs` takes them.
        environment: versions of the run, shown beside those found.

    Raises:
        PadiffShimError: an operand is missing, the op is not one of the table, or the record or an array is not what the op has.
        ArgumentError: ``path`` is not that of a script.
        FileError: a file cannot be written.
    """
    script = place(path)
    if environment is not None and not isinstance(environment, Mapping):
        raise ArgumentError("environment= is a table of versions, got {environment}", environment=described(environment))
    known = finite(dict(record))
    # The op and the entry point of a record, from the table of ops
    from ..catalogue.registry import ops

    name, target = known.get("op"), known.get("entry")
    op = ops().get(name) if isinstance(name, str) else None
    entry = next((candidate for candidate in op.entries if candidate.target == target), None) if op is not None else None
    if op is None or entry is None:
        raise PadiffShimError(
            "op {name} with entry {target} is not in the table of this version",
            name=repr(shown(name)),
            target=repr(shown(target)),
        )
    entry = entry if entry.pairs is None else op.entries[0]  # the legacy form of the same kernel
    _check(op, known, arrays)
    known.update(stats=known.get("stats") or {}, environment=finite(dict(environment or {})), transposed=list(op.layouts))
    functions, excerpt = _calls(op, entry, known, arrays)
    expression(strided_view, excerpt)
    body = Path(__file__).with_name("parts.py").read_text(encoding="utf-8").partition(_MARK)[2]
    held = (
        f'DATA = Path(__file__).with_suffix(".npz")\nRECORD = {pprint.pformat(_printable(known), width=120, sort_dicts=False)}\n\n'
    )
    parts = [_opening(known, script), excerpt.header(), held, excerpt.text(), "", "", *functions, "", body]
    try:
        script.parent.mkdir(parents=True, exist_ok=True)
        np.savez(script.with_suffix(".npz"), **pack(record, arrays))  # type: ignore[arg-type]
        script.write_text("\n".join(parts), encoding="utf-8")
    except OSError as error:
        raise FileError(
            "the script {script} cannot be written: {strerror}", script=script, strerror=error.strerror or error
        ) from error
    return script


def place(path: Any) -> Path:
    """``path`` checked: where the script goes; its data lies beside it under the same name."""
    if not file("path", path).name or Path(path).suffix.lower() == ".npz" or Path(path).is_dir():
        raise ArgumentError(
            "path= is that of the script, such as 'show.py' (its data goes into 'show.npz'), got {path}", path=described(path)
        )
    return Path(path)


def _check(op: Op, record: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Refuse anything but a record of this op with tensors of its operands."""
    of = f"call {shown(record.get('index'))}"
    absent = [name for name in ("tensor", "phase", "side", "dtype", "shape", "inputs", "attributes") if record.get(name) is None]
    try:
        if absent:
            raise ValueError(tr("{name} is missing", name=repr(absent[0])))
        checked({**record, "type": "call"})
    except ValueError as wrong:
        raise PadiffShimError("the record of {of} is not one of a comparison: {wrong}", of=of, wrong=wrong) from None
    named = [operand["name"] for operand in record["inputs"]]
    wanted = [operand["name"] for operand in record["inputs"] if "number" not in operand]
    gradient = record["phase"] == "backward"
    for name in (*named, *arrays, *(record.get("needs") or ())):
        if name not in _RESULTS and not _is_operand(op, name):
            known = f"{op.names[0]}[0]" if op.operands else ", ".join(op.names[: op.tensors])
            raise PadiffShimError(
                "{of} has an operand {name}, which op {op} does not have ({known})",
                of=of,
                name=repr(shown(name)),
                op=repr(op.name),
                known=known,
            )
    if record["tensor"] not in ([f"grad:{name}" for name in wanted] if gradient else ["out"]):
        raise PadiffShimError(
            "{of} judged {tensor}, which op {name} does not have in its {phase}",
            of=of,
            tensor=repr(shown(record["tensor"])),
            name=repr(op.name),
            phase=record["phase"],
        )
    missing = [name for name in (*wanted, *(["grad"] if gradient else ())) if name not in arrays]
    if missing:
        raise PadiffShimError("the saved tensors of {of} lack {missing}", of=of, missing=joined(", ", missing))


def _is_operand(op: Op, name: str) -> bool:
    if op.operands:
        return re.fullmatch(re.escape(op.names[0]) + r"\[\d{1,4}\]", name, re.ASCII) is not None
    return name in op.names[: op.tensors]


def _opening(record: Mapping[str, Any], script: Path) -> str:
    """The comment at the top. Its first two lines are fixed: a comment there could name an encoding."""
    reason, where = (
        shown(record.get("reason") or "", SENTENCE),
        f"{shown(record.get('site') or '')} {shown(record.get('layer') or '')}",
    )
    return "\n".join(
        (
            "# One call of a comparison, alone. Written by padiff_shim.",
            "# Exit status 1: the difference is there; 0: it is not.",
            f"# {record['op']} {record['tensor']}, {record['verdict']}, side {record['side']}: {reason}",
            f"# Seen at {where.strip()}.",
            f"# Needs paddle, torch and numpy, and {shown(script.with_suffix('.npz').name)} beside it.",
        )
    )


def _printable(value: Any) -> Any:
    """A record whose texts the script can print as they are."""
    if isinstance(value, dict):
        return {escaped(key): _printable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_printable(item) for item in value]
    return escaped(value) if isinstance(value, str) else value
