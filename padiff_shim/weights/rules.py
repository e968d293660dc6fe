"""``rules=``: which weights belong together, and how their values change on the way, in the caller's words.

``rules=`` is a list of

- pairs ``(pattern, transform)`` over the names of weights on either side. ``*`` stands for one component of a name, ``**`` for any
  number, and a pattern covers what lies below it;
- functions ``(torch name, paddle name) -> transform or None``, where None leaves the pair to the other rules;
- AOA statements, ``"q.weight^T, k.weight^T -> qk.weight, axis=1"``: see :mod:`.descriptions`;

or a model, or its class, that describes its own weights: a PaddleFormers model by ``_gen_aoa_config``, one of paddlenlp by
``_get_name_mappings``.

A transform is

- ``None`` (in a pair): leave the weight out, on this side and, if it has a partner, on the other;
- a function of the source's tensor, as a Torch tensor in the source's own layout, that returns the target's values;
- :func:`cast`: as usual, and the values may be rounded to the target's dtype;
- :func:`split` or :func:`concat`: the weight holds several weights of the other side, one after the other or by groups;
- :func:`unstack` or :func:`stack`: the weight holds the weights of all experts;
- :func:`gate_up` or :func:`qkv`: both sides hold several in one weight, in another order.

A rule that cannot be applied raises an error with the reason.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..arguments import whole
from ..errors import ArgumentError, described, nearest
from ..text import joined
from .tree import Blocks

Transform = Callable[[Any], Any]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Parts:
    """One weight on one side that holds ``names`` on the other, along ``axis``, each in as many blocks as there are ``groups``."""

    names: tuple[str, ...]
    axis: int
    groups: int = 1


@dataclass(frozen=True)
class Reordered:
    """One weight on either side that holds the same blocks along ``axis``, each side in its own order."""

    torch: Blocks
    paddle: Blocks
    axis: int = 0


@dataclass(frozen=True)
class Stack:
    """One weight on one side that holds those of all experts on the other, along a first axis.

    ``transposed``: whether its matrices hold [in, out]; None if the shapes tell. ``inner``: how each of them is made of several.
    """

    names: tuple[str, ...]
    transposed: bool | None = None
    inner: Parts | Reordered | None = None


@dataclass(frozen=True)
class Cast:
    """Values may be rounded to the target's dtype, by way of ``dtype`` if one is named."""

    dtype: str = ""


def split(*names: str, axis: int = 0, groups: int = 1) -> Parts:
    """A rule's transform: the source's weight holds these weights of the target.

    Args:
        names: full names of weights, or of layers, for their weights and biases; a ``*`` stands for the same text as the same
            ``*`` of the rule's pattern.
        axis: the axis along which they lie, in Torch's layout: 0 is the output features of a Linear on either side, or the experts
            of a stack, as for :func:`unstack`.
        groups: the number of groups. With 1 all rows of the first weight come first, then all of the second; with more each
            group holds its share of every weight: the number of key-value heads for a qkv that is fused by group (or by head, if
            there are as many), the number of rows for alternating rows.

    Raises:
        ArgumentError: fewer than two names, or impossible numbers.

    Example:
        ``("layers.*.qkv_proj", split("layers.*.q_proj", "layers.*.k_proj", "layers.*.v_proj", groups=8))``: [(h + 16) * d, in]
        holds, eight times, h / 8 heads of q, one of k and one of v; d rows each.
    """
    if len(names) < 2 or not all(isinstance(name, str) and name for name in names):
        raise ArgumentError("split and concat take two or more names of weights, got {names}", names=described(names))
    return Parts(names, whole("axis", axis, 0), whole("groups", groups, 1))


def concat(*names: str, axis: int = 0, groups: int = 1) -> Parts:
    """A rule's transform: the target's weight holds these weights of the source; see :func:`split`."""
    return split(*names, axis=axis, groups=groups)


def unstack(*names: str | Parts, transposed: bool | None = None, inner: Reordered | None = None) -> Stack:
    """A rule's transform: the source's weight [experts, ...] holds one weight of each expert of the target.

    Args:
        names: one name with ``{}`` for the number of the expert, or as many names as there are experts; or :func:`split` of
            names with ``{}``, if each expert's matrix holds several.
        transposed: whether the stacked matrices are [in, out]; None: their shape tells, and a square one raises an error.
        inner: :func:`gate_up` or :func:`qkv`, if each matrix of both sides holds several, in another order.

    Example:
        ``("layers.*.experts.gate_up_proj", unstack(split("layers.*.experts.{}.gate_proj", "layers.*.experts.{}.up_proj")))``:
        [experts, 2 * n, in] into two Linears [n, in] of each expert.
    """
    parts = names[0] if len(names) == 1 and isinstance(names[0], Parts) else None
    listed = parts.names if parts else names
    if not listed or not all(isinstance(name, str) and name for name in listed):
        raise ArgumentError("unstack and stack take names of weights, or split(...) of such, got {names}", names=described(names))
    if (parts or len(listed) == 1) and not all(isinstance(name, str) and name.count("{}") == 1 for name in listed):
        raise ArgumentError(
            "unstack and stack: {listed} needs {{}} once in each name, for the number of the expert", listed=described(listed)
        )
    if inner is not None and (parts or not isinstance(inner, Reordered)):
        raise ArgumentError("inner= is what gate_up or qkv give, without split, got {inner}", inner=described(inner))
    if transposed not in (None, True, False):
        raise ArgumentError("transposed= is True, False or None, got {transposed}", transposed=described(transposed))
    return Stack(tuple(map(str, listed)), transposed, parts or inner)


def stack(*names: str | Parts, transposed: bool | None = None, inner: Reordered | None = None) -> Stack:
    """A rule's transform: the target's weight holds one weight of each expert of the source; see :func:`unstack`."""
    return unstack(*names, transposed=transposed, inner=inner)


_GATE_UP = {"gate, up": Blocks(), "up, gate": Blocks(order=(1, 0)), "alternating": Blocks(groups=0)}


def gate_up(torch: str = "gate, up", paddle: str = "gate, up", *, axis: int = 0) -> Reordered:
    """A rule's transform: both sides hold gate and up in one weight [2 * n, in], each in its own order.

    Args:
        torch, paddle: ``"gate, up"``, ``"up, gate"``, or ``"alternating"``: gate's first row, up's first, gate's second...
        axis: the axis along which they lie, in Torch's layout; 1 in a stack of experts [experts, 2 * n, in].
    """
    for side, word in (("torch", torch), ("paddle", paddle)):
        if word not in _GATE_UP:
            raise ArgumentError(
                "gate_up({side}=...) is {gate_up}, got {word}",
                side=side,
                gate_up=joined(", ", map(repr, _GATE_UP)),
                word=described(word),
            )
    return Reordered(_GATE_UP[torch], _GATE_UP[paddle], whole("axis", axis, 0))


def qkv(heads: int, kv_heads: int | None = None, *, torch: str = "plain", paddle: str = "grouped", axis: int = 0) -> Reordered:
    """A rule's transform: both sides hold q, k and v in one weight [(heads + 2 * kv_heads) * d, in], each in its own order.

    Args:
        heads, kv_heads: the number of heads of q, and of k and v (None: the same number).
        torch, paddle: ``"plain"``: all of q, all of k, all of v; ``"grouped"``: for each key-value head its heads of q, its k and v
            (by head, if there are as many).
        axis: the axis along which they lie, in Torch's layout.
    """
    heads = whole("heads", heads, 1)
    groups = heads if kv_heads is None else whole("kv_heads", kv_heads, 1)
    if heads % groups:
        raise ArgumentError("qkv: {heads} heads are no multiple of {groups} key-value heads", heads=heads, groups=groups)
    ways = {"plain": Blocks(shares=(heads, groups, groups)), "grouped": Blocks(shares=(heads // groups, 1, 1), groups=groups)}
    for side, word in (("torch", torch), ("paddle", paddle)):
        if word not in ways:
            raise ArgumentError("qkv({side}=...) is 'plain' or 'grouped', got {word}", side=side, word=described(word))
    return Reordered(ways[torch], ways[paddle], whole("axis", axis, 0))


def cast() -> Cast:
    """A rule's transform: the values may be rounded to the target's dtype (float32 into bfloat16)."""
    return Cast()


def transpose(value: Any) -> Any:
    """A rule's transform: the matrix turned, whatever the type of its layer says."""
    return value.t()


def as_is(value: Any) -> Any:
    """A rule's transform: the values as they lie, whatever the type of the layer says."""
    return value


@dataclass(eq=False)
class PatternRule:
    """A pattern and its transform, and the names of the weights to which it was applied."""

    pattern: str
    transform: Any
    applied: list[str] = field(default_factory=list)

    @property
    def changes(self) -> bool:
        """Whether the rule changes the values of pairs."""
        return callable(self.transform) or isinstance(self.transform, Reordered)


class Rules:
    """The rules of one match, checked.

    Args:
        written: the caller's ``rules=``.
        speaks: whether an object (a model, or a class) describes weights itself; such objects are in ``languages``.
    """

    def __init__(self, written: Any, speaks: Callable[[Any], bool] = lambda _: False) -> None:
        self.rules: list[PatternRule] = []
        self.functions: list[Callable[[str, str], Any]] = []
        self.statements: list[str] = []
        self.languages: list[Any] = []
        for rule in _listed(written, speaks):
            if isinstance(rule, tuple) and len(rule) == 2 and isinstance(rule[0], str) and rule[0]:
                if not (rule[1] is None or isinstance(rule[1], (Parts, Stack, Reordered, Cast)) or callable(rule[1])):
                    raise ArgumentError(
                        "the transform of rule {rule} is a function, None, or what split, concat, unstack, stack, gate_up, qkv "
                        "or cast give; got {transform}",
                        rule=repr(rule[0]),
                        transform=described(rule[1]),
                    )
                self.rules.append(PatternRule(*rule))
            elif isinstance(rule, str) and "->" in rule:
                self.statements.append(rule)
            elif speaks(rule):
                self.languages.append(rule)
            elif callable(rule):
                self.functions.append(rule)
            else:
                raise ArgumentError(
                    "rules= takes pairs (pattern, transform), functions of two names, AOA statements (with '->') and models "
                    "that describe their weights (_gen_aoa_config, _get_name_mappings), got {rule}",
                    rule=described(rule),
                )

    def check(self, names: Sequence[str]) -> None:
        """Raise ArgumentError for a pattern that matches no weight: it is misspelt."""
        for rule in self.rules:
            if not any(covers(rule.pattern, name) for name in names):
                near = nearest(rule.pattern, names)
                hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
                raise ArgumentError("rule {pattern} matches no weight on either side{hint}", pattern=repr(rule.pattern), hint=hint)

    def left_out(self, name: str) -> bool:
        """Whether a rule leaves a weight out."""
        return any(rule.transform is None and covers(rule.pattern, name) for rule in self.rules)

    def changing(self, torch: str, paddle: str) -> Transform | Reordered | None:
        """The transform of a pair's values; the first rule that covers the pair counts."""
        for rule in self.rules:
            if rule.changes and (covers(rule.pattern, torch) or covers(rule.pattern, paddle)):
                transform: Transform | Reordered = rule.transform
                return transform
        transforms = self._of_functions(torch, paddle)
        return next((transform for transform in transforms if not isinstance(transform, Cast)), None)

    def casting(self, torch: str, paddle: str) -> Cast | None:
        """The cast of a pair whose values may be rounded, or None."""
        for rule in self.rules:
            if isinstance(rule.transform, Cast) and (covers(rule.pattern, torch) or covers(rule.pattern, paddle)):
                return rule.transform
        return next((transform for transform in self._of_functions(torch, paddle) if isinstance(transform, Cast)), None)

    def apply(self, torch: str, paddle: str) -> None:
        """Note that the rules for a pair were applied."""
        spoken = [rule for rule in self.rules if covers(rule.pattern, torch) or covers(rule.pattern, paddle)]
        changing = [rule for rule in spoken if rule.changes][:1]
        for rule in (*changing, *(rule for rule in spoken if isinstance(rule.transform, Cast))):
            rule.applied += [torch, paddle]

    def _of_functions(self, torch: str, paddle: str) -> Iterator[Any]:
        for function in self.functions:
            transform = function(torch, paddle)
            if transform is None:
                continue
            if not (isinstance(transform, (Cast, Reordered)) or callable(transform)):
                raise ArgumentError(
                    "a rule gave {transform} for {torch} and {paddle}; it gives a function, cast(), gate_up(), qkv() or None",
                    transform=described(transform),
                    torch=repr(torch),
                    paddle=repr(paddle),
                )
            yield transform

    def unapplied(self, names: Iterable[str]) -> Iterator[tuple[PatternRule, str]]:
        """(rule, weight) of each weight whose first rule was not applied to it; (rule, "") of a rule that was applied to none."""
        names = list(names)
        for place, rule in enumerate(self.rules):
            if rule.transform is None:
                continue
            earlier = [other.pattern for other in self.rules[:place] if other.changes] if rule.changes else []
            spoken = [name for name in names if covers(rule.pattern, name)]
            own = [name for name in spoken if not any(covers(pattern, name) for pattern in earlier)]
            if rule.changes:
                yield from ((rule, name) for name in own if name not in rule.applied)
            if not rule.applied and not (rule.changes and own):
                yield rule, ""


def _listed(written: Any, speaks: Callable[[Any], bool]) -> list[Any]:
    if written is None:
        return []
    if speaks(written):
        return [written]
    if isinstance(written, Mapping):
        return list(written.items())
    if isinstance(written, (str, bytes)) or not isinstance(written, Sequence):
        raise ArgumentError("rules= is a list of rules, got {written}", written=described(written))
    if len(written) == 2 and isinstance(written[0], str) and not (isinstance(written[1], str) or "->" in written[0]):
        raise ArgumentError("rules= is a list of rules; a single rule stands in a list, too: [(pattern, transform)]")
    return list(written)


def _expression(pattern: str) -> str:
    """A pattern as a regular expression with a group for each wildcard."""
    words = re.split(r"(\*\*|\*)", pattern)
    return "".join({"**": "(.*)", "*": r"([^.]*)"}.get(word, re.escape(word)) for word in words)


def covers(pattern: str, name: str) -> bool:
    """Whether a pattern matches a name, or a layer above it."""
    return re.fullmatch(rf"{_expression(pattern)}(\..*)?", name) is not None


def captured(pattern: str, name: str) -> tuple[str, ...] | None:
    """The texts of a pattern's wildcards in a name; None if the pattern does not match the whole name."""
    match = re.fullmatch(_expression(pattern), name)
    return match.groups() if match else None


def filled(pattern: str, values: tuple[str, ...], argument: str) -> str:
    """A pattern with its wildcards replaced in order.

    Raises:
        ArgumentError: it has more wildcards than there are values.
    """
    left = iter(values)
    try:
        return re.sub(r"\*\*|\*", lambda _: next(left), pattern)
    except (StopIteration, RuntimeError):
        raise ArgumentError(
            "{argument}: {pattern} has more wildcards than the pattern that it belongs to",
            argument=argument,
            pattern=repr(pattern),
        ) from None


@dataclass(frozen=True, eq=False)
class Moves:
    """A function of a weight whose result holds elements of its argument, none of them twice.

    Args:
        index: for each element of the result its place in the argument, both flattened.
        shape: the shape of the result.
        size: the number of the argument's elements.
    """

    index: torch.Tensor
    shape: tuple[int, ...]
    size: int

    @property
    def inverse(self) -> torch.Tensor | None:
        """For each element of the argument its place in the result; None if some are dropped."""
        return torch.argsort(self.index) if self.index.numel() == self.size else None

    def of(self, values: Array) -> Array:
        """The function's result for an array."""
        moved: Array = values.reshape(-1)[self.index.numpy()].reshape(self.shape)
        return moved


def moves(function: Callable[[Any], Any], shape: tuple[int, ...]) -> Moves | None:
    """How a function of a tensor moves its elements, as two trials show; None if it does anything else to them."""
    size = math.prod(shape)
    try:
        places = torch.as_tensor(function(torch.arange(size, dtype=torch.float64).reshape(shape)))
        index = places.reshape(-1).to(torch.int64)
        values = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        made = torch.as_tensor(function(values.clone())).reshape(-1)
    except Exception:  # the weight's own values raise the same error later
        return None
    known = bool((index == places.reshape(-1)).all()) and bool(((index >= 0) & (index < size)).all())
    if not known or index.unique().numel() != index.numel() or not torch.equal(made, values.reshape(-1)[index]):
        return None
    return Moves(index, tuple(places.shape), size)


def is_affine(function: Callable[[Any], Any], shape: tuple[int, ...]) -> bool:
    """Whether a function is a linear map and a shift, so that the adjoint of the map transforms gradients."""
    generator = torch.Generator().manual_seed(0)
    first_values, second_values = (torch.randn(shape, dtype=torch.float64, generator=generator) for _ in range(2))
    try:
        together, first, second, zero = (
            torch.as_tensor(function(value))
            for value in (first_values + second_values, first_values.clone(), second_values.clone(), torch.zeros_like(first_values))
        )
        if not torch.allclose(
            together + zero, first + second, rtol=1e-9, atol=1e-9 * float(first.abs().max() + second.abs().max())
        ):
            return False
        adjoint(function, shape, np.ones(tuple(together.shape)))
    except Exception:  # the result is no tensor, or autograd cannot follow it
        return False
    return True


def adjoint(function: Callable[[Any], Any], shape: tuple[int, ...], gradient: Array) -> Array:
    """The gradient with respect to a function's argument of that shape, from the gradient with respect to its result."""
    with torch.enable_grad():
        start = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
        result = function(start * 1)
        back = torch.autograd.grad(result, start, torch.from_numpy(np.ascontiguousarray(gradient, dtype=np.float64)))[0]
    adjoined: Array = back.numpy().astype(gradient.dtype)
    return adjoined
