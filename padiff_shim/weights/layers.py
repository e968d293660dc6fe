"""Which layers of two models stand for each other, layers without weights included."""

from __future__ import annotations

from collections.abc import Iterable

from . import names
from .tree import Node, Side

Owners = dict[Node, list[str]]  # names of the weights that each layer holds itself


def owners(side: Side) -> Owners:
    """The names of every layer's own weights."""
    return {node: [slot.weight.name for slot in node.slots if slot.weight] for node in side.root.walk()}


class Correspondence:
    """Grows from what was matched: layers with weights, then those around them, then those without weights beside them."""

    def __init__(self, torch: Side, paddle: Side) -> None:
        self.sides = torch, paddle
        self.owned = owners(torch), owners(paddle)
        self.of: dict[Node, Node] = {}
        self.back: dict[Node, Node] = {}

    def add(self, torch: Node, paddle: Node) -> bool:
        """Let two layers stand for each other, unless one of them has a partner or is no layer that a program knows."""
        if torch in self.of or paddle in self.back or any(n.virtual or n.again for n in (torch, paddle)):
            return False
        self.of[torch], self.back[paddle] = paddle, torch
        return True

    def complete(self, known: Iterable[tuple[Node, Node]], pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
        """All pairs of layers, by name, in order of the Torch module's construction.

        Args:
            known: layers that were paired.
            pairs: names of weights that were paired.
        """
        self.add(self.sides[0].root, self.sides[1].root)
        for torch, paddle in known:
            self.add(torch, paddle)
        self.by_content(list(pairs))
        for torch in list(self.sides[0].root.walk()):  # grows while it is walked: from above to below
            if torch in self.of:
                self.by_place(torch, self.of[torch])
        return {node.path: self.of[node].path for node in self.sides[0].root.walk() if node in self.of}

    def by_content(self, pairs: list[tuple[str, str]]) -> None:
        """Layers that hold the same weights, all of them and no others, the outermost first."""
        held: list[dict[Node, frozenset[int]]] = []
        for place, side in enumerate(self.sides):
            indices: dict[str, set[int]] = {}
            for index, pair in enumerate(pairs):
                indices.setdefault(pair[place], set()).add(index)
            held.append(_contents(side.root, self.owned[place], indices))
        waiting: dict[tuple[frozenset[int], bool], list[Node]] = {}
        for node, content in held[1].items():
            if node not in self.back:
                waiting.setdefault((content, node.kind == "list"), []).append(node)
        for node, content in held[0].items():
            candidates = waiting.get((content, node.kind == "list"), [])
            if content and node not in self.of and candidates and self.add(node, candidates[0]):
                candidates.pop(0)

    def by_place(self, torch: Node, paddle: Node) -> None:
        """The layers without weights directly below two layers: by type, then by name, then the only one left."""
        ts = [child for child in torch.children if child not in self.of and not self.holds(0, child)]
        ps = [child for child in paddle.children if child not in self.back and not self.holds(1, child)] if ts else []
        if not ps:
            return
        for kind in dict.fromkeys(_type(node) for node in ts):
            mine, yours = [n for n in ts if _type(n) == kind], [n for n in ps if _type(n) == kind]
            for one, other in _in_order(mine, yours):
                self.add(one, other)
        ts, ps = [n for n in ts if n not in self.of], [n for n in ps if n not in self.back]
        for one, other in _equal_names(ts, ps):
            self.add(one, other)
        ts, ps = [n for n in ts if n not in self.of], [n for n in ps if n not in self.back]
        if len(ts) == len(ps) == 1:
            self.add(ts[0], ps[0])

    def holds(self, side: int, node: Node) -> bool:
        return any(self.owned[side].get(one) for one in node.walk())


def _contents(root: Node, owned: Owners, indices: dict[str, set[int]]) -> dict[Node, frozenset[int]]:
    """{layer: the indices of all pairs below it}, from the root on."""
    found: dict[Node, frozenset[int]] = {}

    def fill(node: Node) -> frozenset[int]:
        found[node] = frozenset()  # keeps the order of construction
        mine = {index for name in owned.get(node, ()) for index in indices.get(name, ())}
        found[node] = frozenset(mine.union(*(fill(child) for child in node.children)))
        return found[node]

    fill(root)
    return found


def _type(node: Node) -> str:
    return {"silu": "swish", "hardswish": "hardswish"}.get(node.type.lower(), node.type.lower())


def _in_order(ts: list[Node], ps: list[Node]) -> list[tuple[Node, Node]]:
    """As many on either side: in order, or by name if the names are the same. Else those of one name."""
    if len(ts) != len(ps) or {_words(n) for n in ts} == {_words(n) for n in ps}:
        return _equal_names(ts, ps, numbers=len(ts) == len(ps))
    return list(zip(ts, ps))


def _equal_names(ts: list[Node], ps: list[Node], numbers: bool = False) -> list[tuple[Node, Node]]:
    of_p = {_words(node): node for node in ps}
    return [
        (node, of_p[_words(node)])
        for node in ts
        if _words(node) in of_p and (numbers or not all(word.isdigit() for word in _words(node)))
    ]


def _words(node: Node) -> tuple[str, ...]:
    return names.words(names.leaf(node.path))
