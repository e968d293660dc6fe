"""What to write for a mistake, in Paddle's words, and where: at the line that makes the layer, or at the call itself.

Where the text of that call tells it, the changed line, too.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import inspect
import itertools
import linecache
import operator
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import paddle

from ..dispatch.call_site import CallSite, is_library
from ..present.annotations import Patch
from ..text import joined, tr
from .arguments import nodes_of
from .bits.formulation import replay
from .bits.source import PortNames, aliases
from .expressions import Edit, Rewrite, added, extent, names_in, nodes_of_function, parameters_of, resolved
from .findings import Cause, Fix, Mistake
from .programs import generators_restored
from .trace import Model

_WRITE = re.compile(r"\b(?:write|pass) (?=[\w.]+ ?=)")
_ATTRIBUTE = re.compile(r"(?P<name>\w+)=\S+ against (?P<wanted>[\w.+-]+)")
_LAYER = re.compile(r"paddle\.nn\.[A-Z]\w*\(")
_OF_LAYERS = frozenset({Cause.ATTRIBUTE, Cause.OTHER_OP, Cause.UNKNOWN, Cause.BUFFER})  # of all others the call is the line


def with_fixes(mistakes: Sequence[Mistake], port: paddle.nn.Layer) -> list[Mistake]:
    """The mistakes, each with its fix where its text says what to write, else with the line that makes the layer."""
    layers = dict(port.named_sublayers(include_self=True))
    return [replace(mistake, fix=_fix(mistake, layers)) for mistake in mistakes]


def _fix(mistake: Mistake, layers: dict[str, paddle.nn.Layer]) -> Fix | None:
    if mistake.fix is not None:
        return mistake.fix
    place = mistake.paddle
    text = mistake.write or ", ".join(_written(mistake.text)) or _word_of_layer(mistake, layers)
    text = _of_constructor(layers.get(place.layer) if place else None, text)
    if not text:
        return constructor(place.layer, layers) if place and mistake.cause in _OF_LAYERS else None
    if place is None:
        return Fix(text)
    made = _fix_of_layer(place.layer, text, layers)
    return made or (Fix(text) if is_library(place.file) else Fix(text, place.file, place.line))


def _fix_of_layer(path: str, text: str, layers: Mapping[str, paddle.nn.Layer], *, named: bool = True) -> Fix | None:
    """The line that makes a layer, with other arguments or another layer; None where its constructor takes no such arguments.

    ``named``: numbers may take the place of what a caller hands over.
    """
    if _LAYER.match(text) and (line := constructor(path, layers, text)) is not None:
        return replace(line, patch=_another_layer(line, type(layers[path]), path.rpartition(".")[2]))
    made = constructor(path, layers, text) if _takes(layers.get(path), text) else None
    if made is None:
        return None
    names, calls = names_in(made.file), _calls_at(made.file, made.line)
    made_by = [call for call in calls if resolved(call.func, names) is type(layers[path])]
    return replace(made, patch=_patch(made, calls if layers[path]._forward_pre_hooks else made_by, names, named=named))


def is_written(change: Patch | Remade, layers: Mapping[str, paddle.nn.Layer]) -> bool:
    """Whether it is known how the port's lines would be with a change."""
    if isinstance(change, Patch):
        return True
    fix = _fix_of_layer(change.layer, _of_constructor(layers.get(change.layer), change.arguments), layers, named=False)
    return fix is not None and fix.patch is not None


def _another_layer(line: Fix, made: type, place: str) -> Patch | None:
    """The line with another layer; of several such layers the one at a place in a sequence. None where it makes others."""
    names = names_in(line.file)
    calls = _calls_at(line.file, line.line)
    layers = [call for call in calls if resolved(call.func, names) is made]
    if len(layers) > 1 and place.isdigit():
        within = [call.args[int(place)] for call in calls if len(call.args) > int(place)]
        layers = [call for call in layers if call in within]
    tree = PortNames({}, aliases(names), set()).visit(ast.parse(line.text, mode="eval"))
    return Rewrite.of(line.file, [(layers[0], ast.unparse(tree))]).patch() if len(layers) == 1 else None


def _of_constructor(layer: paddle.nn.Layer | None, text: str) -> str:
    """Arguments of a function as the constructor of the layer that calls it names them: ``epsilon`` for ``eps``."""
    if layer is None or not _of_a_library(type(layer)) or not (wanted := _keywords(text)):
        return text
    names = list(inspect.signature(type(layer).__init__).parameters)
    longer = {str(each.arg): [name for name in names if name.startswith(str(each.arg))] for each in wanted}
    if any(each.arg in names or len(longer[str(each.arg)]) != 1 for each in wanted):
        return text
    return ", ".join(f"{longer[str(each.arg)][0]}={ast.unparse(each.value)}" for each in wanted)


def _word_of_layer(mistake: Mistake, layers: Mapping[str, paddle.nn.Layer]) -> str:
    """The argument of a layer of Paddle's that the original's has otherwise, or that names the function which it calls."""
    layer = layers.get(mistake.paddle.layer) if mistake.paddle else None
    if layer is None or mistake.torch is None or not _of_a_library(type(layer)):
        return ""
    if mistake.cause is Cause.ATTRIBUTE:
        match = _ATTRIBUTE.fullmatch(str(mistake.text))
        taken = match and match["name"] in inspect.signature(type(layer).__init__).parameters and match["name"] != "momentum"
        return f"{match['name']}={match['wanted']}" if match and taken else ""
    if mistake.cause is not Cause.OTHER_OP:
        return ""
    own, wanted = (place.call.partition("(")[0] for place in (mistake.paddle, mistake.torch) if place)
    for name, parameter in inspect.signature(type(layer).__init__).parameters.items():
        value = getattr(layer, name, parameter.default)
        if getattr(value, "__name__", value) == own:
            return f"{name}={wanted!r}"
    return ""


def _takes(layer: paddle.nn.Layer | None, text: str) -> bool:
    """Whether a layer's constructor takes what is written, or what norms its weight; else the call does."""
    if layer is None:
        return False
    parameters = inspect.signature(type(layer).__init__).parameters
    hooks = layer._forward_pre_hooks.values()
    return all(each.arg in parameters or any(hasattr(hook, str(each.arg)) for hook in hooks) for each in _keywords(text))


def _keywords(text: str) -> list[ast.keyword]:
    """The arguments in what is written; none where it is no list of arguments."""
    try:
        return ast.parse(f"_({text})", mode="eval").body.keywords  # type: ignore[attr-defined]
    except SyntaxError:
        return []


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:  # a name, which others may read
        return False
    return True


def _calls_at(file: str, line: int) -> list[ast.Call]:
    """The calls of a file that a line has a part of."""
    calls = [node for node in nodes_of(file) if isinstance(node, ast.Call)]
    return [call for call in calls if call.lineno <= line <= (call.end_lineno or call.lineno)]


def _patch(fix: Fix, calls: Sequence[ast.Call], names: Mapping[str, Any], *, named: bool) -> Patch | None:
    """The line with the arguments of ``fix``; None where several calls take such, or they replace names and may not (``named``)."""
    wanted = _keywords(fix.text)
    names_there = {node.id for call in calls for node in ast.walk(call) if isinstance(node, ast.Name)}
    if any(
        isinstance(node, ast.Name) and node.id not in {*names, *names_there} for each in wanted for node in ast.walk(each.value)
    ):
        return None
    parameters = [(call, parameters_of(resolved(call.func, names))) for call in calls]
    fitting = [(call, known) for call, known in parameters if wanted and all(each.arg in known for each in wanted)]
    if len(fitting) != 1:
        return None
    call, known = fitting[0]
    handed = {argument.arg for node in nodes_of(fix.file) if isinstance(node, ast.arguments) for argument in node.args}
    edits = [edit for each in wanted if (edit := _edit(call, each, known, handed - names.keys() if named else ())) is not None]
    return Rewrite(fix.file, frozenset(edits)).patch() if len(edits) == len(wanted) else None


def _edit(call: ast.Call, wanted: ast.keyword, parameters: Sequence[str], handed: Collection[str]) -> Edit | None:
    """Where a call's argument stands, or would stand. ``handed``: names of which a number may take the place."""
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg not in parameters for each in call.keywords):
        return None
    place, text = parameters.index(str(wanted.arg)), ast.unparse(wanted.value)
    written = next((each.value for each in call.keywords if each.arg == wanted.arg), None)
    written = call.args[place] if written is None and place < len(call.args) else written
    if written is not None:
        free = _is_literal(written) or not _is_literal(wanted.value) or ast.unparse(written) in handed
        return Edit(*extent(written), text) if free else None
    return added(call, {str(wanted.arg): text})


def _written(text: str) -> Iterator[str]:
    """What an English sentence says to write: from ``write name=value`` (or ``pass``) to the end of its brackets, or of the clause.

    >>> list(_written("eps=0.001 against 1e-05 (write epsilon=1e-05), dim=1 against 0 (write axis=(0, 1))"))
    ['epsilon=1e-05', 'axis=(0, 1)']
    """
    for match in _WRITE.finditer(text):
        depth, end = 0, match.end()
        while end < len(text) and depth >= 0 and not (depth == 0 and text[end] == ";"):
            depth += (text[end] in "([{") - (text[end] in ")]}")
            end += depth >= 0
        yield text[match.end() : end].strip()


def fix_of_training(port: paddle.nn.Layer, names: Sequence[str], *, frozen: bool) -> Fix:
    """What freezes weights of a port, behind the line that makes them; or what no longer does, where it is done."""
    layers = dict(port.named_sublayers(include_self=True))
    made = [(name, *_made(name, layers)) for name in names]
    parameters = dict(port.named_parameters())
    ends = {name: f".stop_gradient = {frozen}" if name in parameters else " = self.create_parameter(...)" for name in names}
    words = "; ".join(f"{text}{ends[name]}" for name, text, _, _ in made)
    edits: list[tuple[str, Edit]] = []
    for _, text, file, statement in made:
        for node in nodes_of(file) if file and not frozen else ():
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "attr", "") == "stop_gradient":
                edits.append((file, Edit(*extent(node.value), "False")))
            elif isinstance(node, ast.keyword) and node.arg == "trainable":
                edits.append((file, Edit(*extent(node.value), "True")))
        if statement is not None and frozen:
            line, indent = (statement.end_lineno or 0) + 1, " " * statement.col_offset
            edits.append((file, Edit(line, 0, line, 0, f"{indent}{text}.stop_gradient = True\n")))
    whole = {file for file, _ in edits}
    alone = len(whole) == 1 and (frozen or len({edit for _, edit in edits}) == 1)
    patch = Rewrite(whole.pop(), frozenset(edit for _, edit in edits)).patch() if alone else None
    if patch is not None:
        return Fix(words, patch.file, patch.line - frozen, patch=patch)
    file, first = next(((file, statement.lineno) for _, _, file, statement in made if statement is not None), ("", 0))
    return Fix(words, file, first)


def fix_of_detached(site: CallSite) -> Fix | None:
    """A line without its ``detach()``; None where it has several."""
    funcs = [(node, node.func) for node in _calls_at(site.file, site.line) if isinstance(node.func, ast.Attribute)]
    nodes = [(node, ast.unparse(func.value)) for node, func in funcs if func.attr == "detach"]
    patch = Rewrite.of(site.file, nodes).patch() if len(nodes) == 1 else None
    return Fix(" ".join(patch.after.split()), patch.file, patch.line, patch=patch) if patch else None


def _made(name: str, layers: Mapping[str, paddle.nn.Layer]) -> tuple[str, str, ast.stmt | None]:
    """How the port's own layer around a weight names it, and the file and the statement that makes it, or the layer of it."""
    owner, parts = name.rpartition(".")[0], [name.rpartition(".")[2]]
    while owner and _of_a_library(type(layers[owner])):
        owner, _, part = owner.rpartition(".")
        parts.insert(0, part)
    text = "self" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in parts)
    for kind in type(layers[owner]).__mro__:
        file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
        for node in nodes_of(file) if file and not is_library(file) else ():
            if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
                for statement in ast.walk(node):
                    if isinstance(statement, ast.Assign) and any(
                        ast.unparse(target) == f"self.{parts[0]}"
                        for targets in statement.targets
                        for target in getattr(targets, "elts", [targets])
                    ):
                        return text, file, statement
    return text, "", None


def constructor(path: str, layers: Mapping[str, paddle.nn.Layer], text: str = "") -> Fix | None:
    """The line of the port that makes a layer of Paddle's own.

    None where the layer at ``path`` is the port's own, whose lines are fixed themselves, or where the line is not found.
    """
    layer = layers.get(path)
    if layer is None or not _of_a_library(type(layer)):
        return None
    owner, attribute = path, ""
    while owner:
        owner, _, attribute = owner.rpartition(".")
        if owner in layers and not _of_a_library(type(layers[owner])):
            break
    else:
        return None
    for made_by in type(layers[owner]).__mro__:
        for function in vars(made_by).values() if not _of_a_library(made_by) else ():
            alone = path in (attribute, f"{owner}.{attribute}")
            if inspect.isfunction(function) and (line := _assignment(function, attribute, type(layer), alone=alone)):
                file = function.__code__.co_filename
                return Fix(text, file, line, linecache.getline(file, line).strip())
    return None


def functions_of(files: Collection[str]) -> list[FunctionType]:
    """All functions of some files, which refer to the names of their modules; without a module all objects are looked at."""
    names = [vars(module) for module in list(sys.modules.values()) if getattr(module, "__file__", None) in files]
    objects = gc.get_objects() if len(names) < len(files) else gc.get_referrers(*names)
    return [each for each in objects if type(each) is FunctionType and each.__code__.co_filename in files]


@contextlib.contextmanager
def in_place(sources: Mapping[str, str], functions: Sequence[FunctionType] | None = None) -> Iterator[int]:
    """Within it the functions of some files, found if not given, run as if these held other texts; how many with other code.

    Raises:
        SyntaxError: a text is no Python.
    """
    codes = {file: _codes_by_name(file, text) for file, text in sources.items()}
    functions = functions_of(sources) if functions is None else functions
    before, changed = [(function, function.__code__) for function in functions], 0
    try:
        for function, code in before:
            named = codes[code.co_filename].get(code.co_qualname, [])
            others = named if len(named) == 1 else [other for other in named if other.co_firstlineno == code.co_firstlineno]
            if len(others) == 1 and len(others[0].co_freevars) == len(code.co_freevars):
                changed += _RUNS(others[0]) != _RUNS(code)
                function.__code__ = others[0]
        yield changed
    finally:
        for function, code in before:
            function.__code__ = code


_RUNS = operator.attrgetter("co_code", "co_consts", "co_names", "co_varnames")  # `self.a` and `self.b` are one instruction


@functools.lru_cache(64)  # what is tried alone is tried beside other changes, too
def _codes_by_name(file: str, text: str) -> dict[str, list[CodeType]]:
    """The codes of a file that holds this text, by their qualified names."""
    codes: dict[str, list[CodeType]] = {}
    for code in _codes(compile(text, file, "exec", dont_inherit=True)):
        codes.setdefault(code.co_qualname, []).append(code)
    return codes


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


class Remade(NamedTuple):
    """A layer, by its path, and other arguments of its constructor; of one of the port's own what it holds, in ``layers``."""

    layer: str
    arguments: str
    layers: tuple[str, ...] = ()


@contextlib.contextmanager
def remade(model: paddle.nn.Layer, change: Remade) -> Iterator[int]:
    """Within it the layers of one line of a model have what other arguments give them; how many.

    0 where that is not known: such layers are made anew with the arguments that they tell, and with others, and hold what differs.
    """
    layers = dict(model.named_sublayers(include_self=True))
    text = _of_constructor(layers.get(change.layer), change.arguments)
    alone = [change.layer] if _takes(layers.get(change.layer), text) and _of_a_library(type(layers[change.layer])) else []
    held = [_held_otherwise(layers[path], text) for path in of_one_line(layers, change) or alone]
    with _holding(itertools.chain(*held)):
        yield len(held) if all(held) else 0


@contextlib.contextmanager
def rewritten(model: paddle.nn.Layer, change: Patch, functions: Sequence[FunctionType]) -> Iterator[int]:
    """Within it a model runs as if a file of its ``functions`` held other lines; how many functions are others then.

    Where these lines make layers, a model is made anew as they are and with the others, and holds what differs; a large one is not.
    """
    around = [node for node in nodes_of(change.file) if isinstance(node, ast.FunctionDef)]
    names = {node.name for node in around if node.lineno <= change.line <= (node.end_lineno or 0)}
    sources = {change.file: change.apply("".join(linecache.getlines(change.file)))}
    makes = not names.isdisjoint(_makers(around)) and sum(parameter.size for parameter in model.parameters()) <= _MOST_MADE
    known = list(_made_anew(model)) if makes else []
    with in_place(sources, functions) as changed:
        held = [_unlike(layer, plain, _made_as_known(layer, {})) for layer, plain in known] if changed else []
        with _holding(itertools.chain(*held)):
            yield changed if any(held) or "__init__" not in names else 0


_MOST_MADE = 10**8  # elements of parameters: twice as many are drawn for each change of lines that make layers


def _makers(functions: Sequence[ast.FunctionDef]) -> set[str]:
    """The names of constructors, and of what they call."""
    calls = [node for each in functions if each.name == "__init__" for node in ast.walk(each) if isinstance(node, ast.Call)]
    return {"__init__", *(ast.unparse(call.func).rpartition(".")[2] for call in calls)}


@contextlib.contextmanager
def _holding(held: Iterable[tuple[paddle.nn.Layer, dict[str, Any]]]) -> Iterator[None]:
    """Within it layers have other attributes."""
    changed = [(part, attributes, vars(part).copy()) for part, attributes in held]
    try:
        for part, attributes, _ in changed:
            part.__dict__.update(attributes)
        yield
    finally:
        for part, attributes, before in changed:
            for name in attributes.keys() - before.keys():
                del part.__dict__[name]
            part.__dict__.update(before)


def of_one_line(layers: Mapping[str, paddle.nn.Layer], change: Remade) -> list[str]:
    """The paths of the layers that the line to change makes; none where it is not known."""
    if change.layers:
        return [*change.layers]
    layer = layers.get(change.layer)
    text = _of_constructor(layer, change.arguments)
    line = constructor(change.layer, layers, text) if _takes(layer, text) or _LAYER.match(text) else None
    if line is None:
        return []
    names, own = names_in(line.file), change.layer.rpartition(".")[2]
    several = [resolved(call.func, names) for call in _calls_at(line.file, line.line)].count(type(layer)) > 1
    alike = [
        path for path, other in layers.items() if type(other) is type(layer) and (not several or path.rpartition(".")[2] == own)
    ]
    return [path for path in alike if constructor(path, layers, text) == line]


def _held_otherwise(layer: paddle.nn.Layer, text: str) -> list[tuple[paddle.nn.Layer, dict[str, Any]]]:
    """The layers within one to which other arguments of its give other attributes, with these.

    None where its own arguments do not give what it holds, or weights are others.
    """
    try:
        if _LAYER.match(text):
            return [(layer, {"forward": replay(text, {}).forward})]
        wanted = {str(each.arg): ast.literal_eval(each.value) for each in _keywords(text)}
    except Exception:  # whatever a constructor raises
        return []
    if not _of_a_library(type(layer)):
        return [(layer, wanted)]
    return _unlike(layer, *(_made_as_known(layer, changes) for changes in ({}, wanted)))


def _made_anew(layer: paddle.nn.Layer) -> Iterator[tuple[paddle.nn.Layer, paddle.nn.Layer]]:
    """The outermost of a model's own layers that can be made anew, each with a new one."""
    plain = None if _of_a_library(type(layer)) else _made_as_known(layer, {})
    if plain is not None:
        yield layer, plain
        return
    for part in layer.children():
        yield from _made_anew(part)


def _made_as_known(layer: paddle.nn.Layer, changes: Mapping[str, Any]) -> paddle.nn.Layer | None:
    """A new layer with the arguments that one tells, or others; None where it does not tell them."""
    parameters = list(inspect.signature(type(layer).__init__).parameters.values())[1:]
    names = [each.name for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    try:
        with generators_restored(), paddle.utils.unique_name.guard():  # names of parameters are counted, too
            return type(layer)(**{name: _setting(layer, name) for name in names} | dict(changes))
    except Exception:  # whatever a constructor raises that gets what a layer does not tell
        return None


def _unlike(
    layer: paddle.nn.Layer, plain: paddle.nn.Layer | None, other: paddle.nn.Layer | None
) -> list[tuple[paddle.nn.Layer, dict[str, Any]]]:
    """The layers within one that would hold other attributes, with these, if it were another; ``plain``: it, made anew.

    None where that does not hold what it holds, or the other's weights are not its own.
    """
    if plain is None or other is None:
        return []
    parts = [dict(each.named_sublayers(include_self=True)) for each in (layer, plain, other)]
    shapes = [[list(parameter.shape) for parameter in each.parameters()] for each in (layer, other)]
    if shapes[0] != shapes[1] or any(each.keys() != parts[0].keys() for each in parts):
        return []
    if [*map(_settings, parts[0].values())] != [*map(_settings, parts[1].values())]:
        return []
    unlike = [(part, _otherwise(part, parts[1][path], parts[2][path])) for path, part in parts[0].items()]
    return [(part, attributes) for part, attributes in unlike if attributes]


def _otherwise(part: paddle.nn.Layer, plain: paddle.nn.Layer, other: paddle.nn.Layer) -> dict[str, Any]:
    """The plain values that a layer would hold otherwise; of another class also what that computes."""
    attributes = {} if type(other) is type(plain) else {"forward": other.forward}
    before, after = _settings(plain), _settings(other)
    return attributes | {name: after[name] for name in after if after[name] != before.get(name)}


def _settings(layer: paddle.nn.Layer) -> dict[str, Any]:
    return {name: value for name, value in vars(layer).items() if type(value) in _SETTINGS and name not in _OF_EACH}


def _setting(layer: Model, name: str) -> Any:
    """What a layer of a library's tells of an argument of its constructor; the default where it tells nothing."""
    held = {**vars(layer), **getattr(layer, "_config", {})}  # a layer of a transformer keeps its arguments
    return held.get(f"_{name}", held.get(name, inspect.signature(type(layer).__init__).parameters[name].default))


def made_as(originals: Mapping[str, Model], ports: Mapping[str, Model], path: str, own: str) -> Iterator[tuple[Remade, str]]:
    """One argument at a time that the layers around a call of the port's have otherwise than those of the original's.

    With both values, in words. Of the port's own layers it is what they hold, one by one and all of it. ``path``, ``own``: of the
    innermost layers.
    """
    around = [["", *itertools.accumulate(each.split("."), "{}.{}".format)] for each in (own, path)]
    for place, layer in ((place, ports[place]) for place in dict.fromkeys(itertools.chain(*around)) if place in ports):
        others = [originals[place] for place in dict.fromkeys(around[1]) if place in originals]
        if not _of_a_library(type(layer)):
            yield from _held_as(originals, ports, place, others)
            continue
        for name in list(inspect.signature(type(layer).__init__).parameters)[1:]:
            for other in others:
                held = operator.attrgetter(_TORCHS.get(name, name))
                with contextlib.suppress(AttributeError):
                    value, wanted = _setting(layer, name), held(other)
                    if type(value) is type(wanted) and type(wanted) in _SETTINGS and value != wanted:
                        words = tr("{name}={own} against {other}", name=name, own=repr(value), other=repr(wanted))
                        yield Remade(place, f"{name}={wanted!r}"), words


def _held_as(
    originals: Mapping[str, Model], ports: Mapping[str, Model], place: str, others: Sequence[Model]
) -> Iterator[tuple[Remade, str]]:
    """What a layer of the port's own holds otherwise than one of the original's, by name; with it others of its class."""
    layer = ports[place]
    for other in others:
        unlike = {name: (value, wanted) for name, value, wanted in _held_by_both(layer, other) if value != wanted}
        alone = [{name: values} for name, values in unlike.items()] if len(unlike) > 1 else []
        for chosen in (*alone, unlike) if unlike else ():
            same = [
                path
                for path, each in ports.items()
                if type(each) is type(layer) and path in originals and _has(each, originals[path], chosen)
            ]
            words = [tr("{name}={own} against {other}", name=name, own=own, other=wanted) for name, (own, wanted) in chosen.items()]
            text = ", ".join(f"{name}={wanted!r}" for name, (_, wanted) in chosen.items())
            yield Remade(place, text, tuple(dict.fromkeys([place, *same]))), joined(", ", words)


def _held_by_both(layer: Model, other: Model) -> Iterator[tuple[str, Any, Any]]:
    """The plain values that two layers hold under one name: the first's, and the second's as one of the first's type."""
    for name, value in _settings(layer).items():
        wanted = getattr(other, name, None)
        kinds = [list if type(each) is tuple else type(each) for each in (value, wanted)]
        if name in vars(other) and kinds[0] is kinds[1] in _SETTINGS:
            yield name, value, type(value)(wanted) if kinds[0] is list else wanted


def _has(layer: Model, other: Model, chosen: Mapping[str, tuple[Any, Any]]) -> bool:
    """Whether two layers hold the values of two others, too."""
    held = {name: (value, wanted) for name, value, wanted in _held_by_both(layer, other)}
    return all(held.get(name) == values for name, values in chosen.items())


_TORCHS = {"nhead": "self_attn.num_heads", "epsilon": "eps"}  # where a layer of Torch's holds an argument of one of Paddle's


_SETTINGS = (bool, int, float, str, list, tuple, type(None))
_OF_EACH = ("_built", "_dtype", "_full_name", "training")  # of a single layer, whatever its arguments are


def _of_a_library(made: type) -> bool:
    """Whether a class is Paddle's own; a model of its is not, for models are compared."""
    return is_library(getattr(sys.modules.get(made.__module__), "__file__", None) or "")


def _assignment(function: FunctionType, attribute: str, made: type, *, alone: bool) -> int:
    """The line that makes the layer which a method sets as ``self.attribute`` (``alone``), or a layer of that one; 0: none.

    The only call of the class in what is assigned makes it; where there is none, the only call in the method whose list is
    unpacked there, in the function that is called there, or in the file. Else the line is that of the assignment
    (``norm_layer(dim)``), if that may make the layer.
    """
    file = inspect.unwrap(function).__code__.co_filename
    for value in _values_of(nodes_of_function(function), attribute):
        own = _calls(ast.walk(value), function, made)
        maker = function.__globals__.get(getattr(getattr(value, "func", None), "id", ""))
        here = inspect.isfunction(maker) and maker.__code__.co_filename == file
        unpacked = any(isinstance(node, ast.Starred) for node in ast.walk(value))  # a list that the method has made
        calls = own or (_calls(nodes_of_function(function), function, made) if unpacked else [])
        calls = calls or _calls(nodes_of_function(maker) if maker and here else nodes_of(file), function, made)
        return calls[0].lineno if len(calls) == 1 else value.lineno if own or alone else 0
    return 0


def _calls(nodes: Iterable[ast.AST], function: FunctionType, made: type) -> list[ast.Call]:
    """The calls of a class, by its own name or that of the module of ``function``."""
    return [
        node
        for node in nodes
        if isinstance(node, ast.Call)
        and (
            getattr(node.func, "attr", getattr(node.func, "id", "")) == made.__name__
            or (isinstance(node.func, ast.Name) and function.__globals__.get(node.func.id) is made)
        )
    ]


def _values_of(nodes: Iterable[ast.AST], attribute: str) -> Iterator[ast.expr]:
    """What is assigned to ``self.attribute``, of several targets its own part; or handed over under that name or number."""
    for node in nodes:
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("add_sublayer", "__init__"):
            named = [other for name, other in zip(node.args, node.args[1:]) if getattr(name, "value", "") == attribute]
            yield from named or (node.args[int(attribute) :][:1] if attribute.isdigit() else [])
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        for target in targets:
            value = node.value  # type: ignore[attr-defined]
            parts = list(zip(target.elts, value.elts)) if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) else []
            spread = [(part, value) for part in target.elts] if isinstance(target, ast.Tuple) else [(target, value)]
            for part, own in parts or spread:
                if (
                    isinstance(part, ast.Attribute)
                    and isinstance(part.value, ast.Name)
                    and part.attr == attribute
                    and own is not None
                ):
                    yield own
