"""Where the port's lines lay a value's elements out otherwise than the original's, and the changes of them that would mend it."""

from __future__ import annotations

import ast
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch

from ..dispatch.call_site import CallSite
from .arguments import ApiCall
from .expressions import Rewrite, ValueSource, argument_node
from .match import laid_by
from .rewrites import tensor_arguments
from .trace import Arranged, Step, TraceOperand, Value


class OtherSteps(NamedTuple):
    """Steps in the place of those of the port's from ``start`` to ``end``, with which it lays a value out as the original does."""

    own: TraceOperand
    start: int
    end: int
    steps: tuple[Step, ...]

    @property
    def replaced(self) -> tuple[Step, ...]:
        """The port's own."""
        return self.own.way[self.start : self.end]

    @property
    def new(self) -> bool:
        """Whether the original does not make them."""
        return not all(step.site.file for step in self.steps)

    def rewrites(self, reader: ApiCall | None) -> Iterator[Rewrite]:
        """The changes of the port's lines that make these steps; ``reader``: the call that is given the value."""
        names, way = _names_of_sizes(self.own.way), self.own.way
        if self.replaced:
            yield from self._in_place(names)
            return
        places = list[tuple[ApiCall, ast.expr | None]]()
        if self.end < len(way) and way[self.end].api is not reader:
            api = way[self.end].api
            places += [(api, argument_node(api, "x"))] if api is not None else []
        elif reader is not None:
            before = laid_by(self.own.value.tensor, way[: self.start])
            read = tensor_arguments(reader) if before is not None else ()
            places += [(reader, node) for held, tensor, node in read if _is_held(held, tensor, before)]
        maker = self.own.value.node
        for api in (way[self.start - 1].api if self.start else None, maker.api if maker and not self.start else None):
            places += [(api, api.expression)] if api is not None else []
        for api, node in places:
            if node is not None:
                yield ValueSource(api.file, node, "").replaced_by(_chain(node, self.steps, names))

    def _in_place(self, names: dict[int, list[str]]) -> Iterator[Rewrite]:
        apis = list(dict.fromkeys(step.api for step in self.replaced))
        calls = [(node, x) for api in apis if (node := api.expression) and (x := argument_node(api, "x"))]
        if len({api.file for api in apis}) > 1 or len(calls) < len(apis):
            return
        file, (last, _), (first, source) = apis[0].file, calls[-1], calls[0]
        if source in ast.walk(last):
            yield from ValueSource(file, last, "").replaced_or_left_out(_chain(source, self.steps, names))
        else:  # one behind the other: the first makes all steps, the others none
            texts = [(first, _chain(source, self.steps, names)), *((node, ast.unparse(x)) for node, x in calls[1:])]
            yield Rewrite.of(file, texts)


def _is_held(held: Value, tensor: object, wanted: torch.Tensor) -> bool:
    same = tuple(getattr(tensor, "shape", ())) == tuple(wanted.shape)
    return same and torch.allclose(held.tensor.double(), wanted.detach().double(), 1e-9, 1e-12, equal_nan=True)


def _chain(node: ast.expr, steps: Sequence[Step], names: dict[int, list[str]]) -> str:
    """An expression with steps behind it; sizes as the port's lines name them."""
    text = ast.unparse(node)
    if steps and not isinstance(node, (ast.Name, ast.Call, ast.Attribute, ast.Subscript)):
        text = f"({text})"
    for step in steps:
        left = {size: list(texts) for size, texts in names.items()}
        sizes = [left[size].pop(0) if left.get(size) else str(size) for size in step.shape]
        text += f".transpose({list(step.order)})" if step.order else f".reshape([{', '.join(sizes)}])"
    return text


def _names_of_sizes(way: Sequence[Step]) -> dict[int, list[str]]:
    """How the port's own reshapes write sizes."""
    names: dict[int, list[str]] = defaultdict(list)
    for step in way:
        node = argument_node(step.api, "shape") if step.api is not None and not step.order else None
        sizes = node.elts if isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) == len(step.shape) else []
        for size, text in zip(step.shape, map(ast.unparse, sizes)):
            if text not in ("0", "-1", *names[size]):
                names[size].append(text)
    return names


def other_steps(
    arranged: Arranged, reader: ApiCall | None, in_order: Callable[[Value, torch.Tensor, torch.Tensor], bool]
) -> list[OtherSteps]:
    """The changes of the port's steps with which it lays a value out as the original does, the smallest first.

    Steps are tried that the original makes, and the port's own with other axes.
    """
    wanted, own = arranged
    way, maker = own.way, own.value.node
    originals, laid = ([laid_by(side.value.tensor, side.way[:at]) for at in range(len(side.way) + 1)] for side in arranged)
    inner = [step.api is None or step.api is reader or step.api.layers > 0 for step in way]
    first = next((at for at, step in enumerate(way) if maker is None or step.api is not maker.api), len(way))
    last = max((at + 1 for at in range(first, len(way)) if not inner[at]), default=first)
    cuts = [at for at in range(first, last + 1) if at in (0, len(way)) or way[at - 1].api is not way[at].api]
    shapes = {wanted.tensor.shape} if reader is None else {wanted.tensor.shape, own.tensor.shape}

    def fits(other: OtherSteps) -> bool:
        tensor = laid_by(laid[other.start], (*other.steps, *way[other.end :]))
        if tensor is None or tensor.shape not in shapes or not _begins_as(tensor, wanted.tensor):
            return False
        same = [(step.shape, step.order) for step in other.steps] == [(step.shape, step.order) for step in other.replaced]
        return not same and in_order(wanted.value, wanted.tensor, tensor)

    def tried(start: int, end: int) -> Iterator[OtherSteps]:
        before = laid[start]
        for at, tensor in enumerate(originals):
            if tensor is not None is not before and tensor.shape == before.shape and in_order(wanted.value, tensor, before):
                yield from (OtherSteps(own, start, end, wanted.way[at:to]) for to in range(at, len(originals)))
        axes = 0 if before is None or end > start + 1 else before.dim()
        if end - start == 1 and not way[start].order:
            yield from (OtherSteps(own, start, end, (Step(sizes, _NOWHERE),)) for sizes in _permutations(way[start].shape))
        elif axes:
            yield from (OtherSteps(own, start, end, (Step((), _NOWHERE, order),)) for order in _permutations(range(axes)))

    ranges = [(start, end) for start, end in itertools.combinations_with_replacement(cuts, 2) if not any(inner[start:end])]
    fitting = [other for place in ranges for other in tried(*place) if fits(other)]
    return sorted(fitting, key=lambda other: (other.new, len(other.steps) - (other.end - other.start), other.end - other.start))


_NOWHERE = CallSite("", 0, "")  # of steps that neither program makes
_MOST_AXES = 6


def _permutations(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return iter(()) if len(sizes) > _MOST_AXES else itertools.permutations(sizes)


def _begins_as(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether the first elements of two tensors may be the same, which is quick to tell."""
    first, beside = (side[(0,) * (side.dim() - 1)] if side.dim() else side for side in (tensor, other))
    return first.numel() != beside.numel() or torch.allclose(first, beside, 1e-6, 1e-9, equal_nan=True)
