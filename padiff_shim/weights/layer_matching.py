"""Which layers of two trees belong together.

Hard evidence comes first: layers pair if their weights have the same canonical shapes and their types do not contradict. If several
could pair, names decide, as far as they distinguish the layers on both sides, and otherwise the order of construction. If trees do
not fit level by level (one side nests deeper, a layer is missing), layers are split into their parts, which are tried again; a part
without partner in a pair of layers is tried one level up.

Calls of two runs are paired elsewhere: there the order of calls is evidence, and partners never cross (``recording.alignment``), or
equal values are (``proof.match``). Layers have neither order nor values that both sides must share.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace

from ..text import logged
from . import pairing, tree
from .pairing import ORDER, Choice, Pair, fit, name_of, pair_slots, without_ones
from .tree import LayerNode, Shape, Slot, WeightSide, grouped, remembered, unique_pairs

Pairs = list[tuple[LayerNode, LayerNode, str]]

NAMES = logged("paired by name, declared in another order")


@dataclass(eq=False)
class Candidates:
    """The layers of one scope that have no partner yet."""

    ts: list[LayerNode]
    ps: list[LayerNode]
    tscope: str
    pscope: str
    ordered: bool
    trusted: bool = False  # whether the scopes are paired by name

    def name(self, node: LayerNode) -> str:
        """A layer's name in the scope."""
        # A unit of one bare weight has the weight's name
        scope = self.tscope if any(node is torch_node for torch_node in self.ts) else self.pscope
        inner = node.slots[0].weight if node.virtual and len(node.slots) == 1 and not node.kind else None
        return tree.relative(inner.name, scope) if inner else "" if node.path == scope else tree.relative(node.path, scope)


@remembered
def units_of(node: LayerNode) -> list[LayerNode]:
    return [node] if node.is_unit else [unit for part in node.parts() for unit in units_of(part)]


def singles(node: LayerNode) -> list[LayerNode]:
    if node.kind or len(node.slots) < 2 or not node.is_unit:
        return [node]
    return [LayerNode(node.path, node.type, "", [slot], virtual=True, place=node.place) for slot in node.slots]


def agree(torch: LayerNode, paddle: LayerNode) -> bool:
    """Whether the types of two layers do not contradict; containers and the user's own classes contradict nothing."""
    if not torch.is_unit or not paddle.is_unit:
        return True
    return torch.kind == paddle.kind or not torch.kind or not paddle.kind or "sequence" in (torch.kind, paddle.kind)


@remembered
def _readings(node: LayerNode) -> list[tuple[Shape, ...]]:
    """The sorted canonical shapes of a unit, and, if a layout is open, those with every such matrix transposed."""
    slots = node.slots
    plain = tuple(sorted(slot.shape for slot in slots))
    if all(slot.settled for slot in slots):
        return [plain]
    turned = tuple(sorted(slot.shape if slot.settled or len(slot.shape) != 2 else slot.shape[::-1] for slot in slots))
    return list(dict.fromkeys([plain, turned]))


@remembered
def exact(node: LayerNode) -> list[Hashable]:
    return [("unit", node.kind, shapes) for shapes in _readings(node)] if node.is_unit else [("layers", *_multiset(node))]


def shapes(node: LayerNode) -> list[Hashable]:
    return list(_readings(node)) if node.is_unit else []


def loose(node: LayerNode) -> list[Hashable]:
    return [_multiset(node)]


@remembered
def _without_ones(node: LayerNode) -> tuple[tuple[str, Shape], ...]:
    """The roles and shapes of a unit, without axes of one."""
    return tuple(sorted((slot.role, without_ones(slot.shape)) for slot in node.slots))


def counted(node: LayerNode) -> Counter[Shape]:
    """All shapes below a layer, however matrices lie."""
    return Counter(map(_unordered, node.all_slots()))


def _unordered(slot: Slot) -> Shape:
    return tuple(sorted(size for size in slot.shape if size != 1))


@remembered
def _multiset(node: LayerNode) -> tuple[tuple[Shape, int], ...]:
    return tuple(sorted(counted(node).items()))


def common(first: LayerNode, second: LayerNode) -> float:
    """Share of the units that two layers have in common, by the shapes of their largest weights, however matrices lie."""
    first_shapes, second_shapes = (Counter(_unordered(_largest(unit)) for unit in units_of(node)) for node in (first, second))
    return sum((first_shapes & second_shapes).values()) / max(first_shapes.total(), second_shapes.total())


def _largest(unit: LayerNode) -> Slot:
    return max(unit.slots, key=lambda slot: slot.size)


def main(node: LayerNode) -> list[Hashable]:
    """The largest weight of a unit."""
    if not node.is_unit or not node.slots:
        return []
    return [("main", shape) for shape in dict.fromkeys(reading.shape for reading in _largest(node).readings())]


def equal_names(ts: list[LayerNode], ps: list[LayerNode], pool: Candidates) -> Pairs:
    """The layers whose words are equal and belong to one layer on either side; numbers alone only say an order."""
    pairs = unique_pairs(ts, ps, lambda node: tree.words_of(pool.name(node)))
    return [(torch, paddle, "") for torch, paddle in pairs if not is_number(pool.name(torch))]


def is_number(name: str) -> bool:
    """Whether a name has no words but numbers."""
    return all(word.isdigit() for word in tree.words_of(name))


def assign(ts: list[LayerNode], ps: list[LayerNode], pool: Candidates, ranks: BuildOrder) -> Pairs:
    """Pair layers that could each be the other's partner."""
    if len(ts) != len(ps):
        return equal_names(ts, ps, pool)
    if len(ts) == 1:
        return [(ts[0], ps[0], "")]
    tnames, pnames = [tree.words_of(pool.name(n)) for n in ts], [tree.words_of(pool.name(n)) for n in ps]
    if len(set(tnames)) == len(ts) and sorted(tnames) == sorted(pnames):
        note = "" if tnames == pnames else NAMES
        return [(node, ps[pnames.index(name)], note) for node, name in zip(ts, tnames)]
    # By the words that both sides use, and the other layers in order of construction
    groups_t, groups_p = (grouped(nodes, lambda node: tree.telling_words(pool.name(node))) for nodes in (ts, ps))
    left_t, left_p, pairs = list(ts), list(ps), []  # type: list[LayerNode], list[LayerNode], Pairs
    for words, torch_nodes in groups_t.items():
        paddle_nodes = groups_p.get(words, [])
        if words and len(torch_nodes) == len(paddle_nodes):
            pairs += [(torch, paddle, "") for torch, paddle in zip(torch_nodes, paddle_nodes)]
            left_t = [node for node in left_t if node not in torch_nodes]
            left_p = [node for node in left_p if node not in paddle_nodes]
    several = len(left_t) > 1
    for torch in left_t:
        paddle = left_p[0] if pool.trusted else max(left_p, key=lambda candidate: ranks.share(torch, candidate) or 0)
        left_p.remove(paddle)
        doubted = several and _own_words(torch, pool) != _own_words(paddle, pool)
        if pool.ordered or not doubted:
            pairs.append((torch, paddle, ORDER if doubted else ""))
    return pairs


def _own_words(node: LayerNode, pool: Candidates) -> frozenset[str]:
    """The telling words of a layer's own name, without those of the layers around it."""
    return tree.telling_words(tree.last_name(pool.name(node)))


class BuildOrder:
    """The partner of each unit if both sides were built in one order: among equal shapes the first pairs with the first.

    Args:
        ts, ps: all units of either side in order of construction.
    """

    def __init__(self, ts: Iterable[LayerNode] = (), ps: Iterable[LayerNode] = ()) -> None:
        ts, ps = list(ts), list(ps)
        plain = all(slot.settled for node in (*ts, *ps) for slot in node.slots)
        shapes_of = (lambda node: _readings(node)[0]) if plain else _multiset
        partners = grouped(ps, shapes_of)
        self.partners = {
            _key(torch_unit): _key(paddle_unit)
            for key, units in grouped(ts, shapes_of).items()
            if len(units) == len(partners.get(key, ()))
            for torch_unit, paddle_unit in zip(units, partners[key])
        }

    def share(self, torch: LayerNode, paddle: LayerNode) -> float | None:
        """The share of a layer's units whose partners are in the other layer; None if none has one."""
        wanted = [self.partners[key] for key in map(_key, units_of(torch)) if key in self.partners]
        inside = set(map(_key, units_of(paddle)))
        return sum(key in inside for key in wanted) / len(wanted) if wanted else None


def _key(unit: LayerNode) -> tuple[Hashable, ...]:
    """A key that identifies a unit in whichever tree it stands."""
    return tuple((slot.weight.name, slot.steps) for slot in unit.slots[:1] if slot.weight) or (unit.path,)


@dataclass(eq=False)
class UnitPair:
    """Two layers without weighted layers below. ``note``: why they were paired, if that can be doubted."""

    torch: LayerNode
    paddle: LayerNode
    note: str = ""


Keys = Callable[[LayerNode], Iterable[Hashable]]


class Matcher:
    """Collects the pairs of one match.

    Args:
        ordered: whether the order of construction is known on both sides; a safetensors file is sorted by name.
    """

    def __init__(self, ordered: bool = True) -> None:
        self.ordered = ordered
        self.units: list[UnitPair] = []
        self.scopes: list[tuple[LayerNode, LayerNode]] = []  # layers with layers below, paired as wholes
        self.slots: list[Pair] = []
        self.choices: list[Choice] = []
        self.left: tuple[list[LayerNode], list[LayerNode]] = ([], [])
        self.ranks = BuildOrder()

    def match(self, torch: LayerNode, paddle: LayerNode) -> None:
        """Match two trees; units without partner are in ``left``."""
        torch.fix()
        paddle.fix()
        if self.ordered:
            self.ranks = BuildOrder(units_of(torch), units_of(paddle))
        torch_left, paddle_left = self.settle(torch.parts(), paddle.parts(), torch.path, paddle.path)
        self.scopes.insert(0, (torch, paddle))
        torch_left, paddle_left = self.settle(torch_left, paddle_left, torch.path, paddle.path, last=True)
        self.left[0].extend(torch_left)
        self.left[1].extend(paddle_left)
        self.but_for_ones()
        pool = Candidates(torch_left, paddle_left, torch.path, paddle.path, self.ordered)
        self.scopes += [
            (torch_node, paddle_node)
            for torch_node, paddle_node, _ in equal_names(torch_left, paddle_left, pool)
            if agree(torch_node, paddle_node)
        ]

    def settle(
        self, ts: list[LayerNode], ps: list[LayerNode], tscope: str, pscope: str, *, last: bool = False, trusted: bool = False
    ) -> tuple[list[LayerNode], list[LayerNode]]:
        """Pair the layers of two scopes as far as possible; returns the units without partner of either side.

        Args:
            last: the scopes are the models: there is no level above to try.
            trusted: the scopes are paired by name, so that the order of other layers does not count.
        """
        pool = Candidates(list(ts), list(ps), tscope, pscope, self.ordered, trusted)
        steps: list[Callable[[Candidates], bool]] = [self.by_shape, self.fused, self.by_name, self.by_content, self.taken_apart]
        if last:
            steps += [self.out_of_order, self.by_own_words, self.of_one_kind, self.singly, self.incomplete, self.one_by_one]
        while pool.ts and pool.ps and any(step(pool) for step in steps):
            pass
        return [unit for node in pool.ts for unit in units_of(node)], [unit for node in pool.ps for unit in units_of(node)]

    def but_for_ones(self) -> None:
        """Pair what is left where shapes differ in axes of one alone, whatever the layers are: a Linear and a 1x1 convolution.

        As many of one kind on both sides pair by name, else in order.
        """
        groups = grouped(self.left[1], _without_ones)
        for key, units in grouped(self.left[0], _without_ones).items():
            others = groups.get(key, [])
            named = {unit.path for unit in units} == {unit.path for unit in others}
            if not key or len(units) != len(others) or not (named or self.ordered or len(units) == 1):
                continue
            ordered = [sorted(side, key=lambda unit: unit.path) if named else side for side in (units, others)]
            for torch, paddle in zip(*ordered):
                slots = pair_slots(torch, paddle, self.ordered)
                if len(slots) != len(torch.slots):
                    continue
                self.units.append(UnitPair(torch, paddle))
                self.slots += slots if named or len(units) == 1 else [replace(pair, doubted=True) for pair in slots]
                self.left[0].remove(torch)
                self.left[1].remove(paddle)

    # The steps; each returns whether it paired or changed anything.

    def by_shape(self, pool: Candidates) -> bool:
        """Layers with equal shapes: of one kind, of kinds that do not contradict, then of any depth."""
        return any(self.grouped(pool, keys) for keys in (exact, shapes, loose))

    def grouped(self, pool: Candidates, keys: Keys, wholly: bool = True) -> bool:
        paired = False
        for key in dict.fromkeys(key for node in pool.ts for key in keys(node)):
            ts = [node for node in pool.ts if key in keys(node)]
            ps = [node for node in pool.ps if key in keys(node)]
            paired |= bool(ts and ps) and self.take(pool, assign(ts, ps, pool, self.ranks), wholly)
        return paired

    def fits(self, torch: LayerNode, paddle: LayerNode, wholly: bool) -> bool:
        """Whether the weights of two units have partners in each other: all of them, or some."""
        if not torch.is_unit or not paddle.is_unit:
            return True
        count = len(pair_slots(torch, paddle, self.ordered))
        return count == len(torch.slots) == len(paddle.slots) if wholly else count > 0

    def take(self, pool: Candidates, pairs: Pairs, wholly: bool = True) -> bool:
        """Pair what can be paired; units without partner inside two layers come back into the pool."""
        paired = False
        for torch, paddle, note in pairs:
            name, other = pool.name(torch), pool.name(paddle)
            named = pool.trusted or note == NAMES or (tree.words_of(name) == tree.words_of(other) and not is_number(name))
            share = None if named else self.ranks.share(torch, paddle)
            if (share is not None and share < 0.5) or not agree(torch, paddle) or not self.fits(torch, paddle, wholly):
                continue
            paired = True
            pool.ts.remove(torch)
            pool.ps.remove(paddle)
            torch_left, paddle_left = self.pair(torch, paddle, note, named)
            # What found no partner there goes to its place in the order of construction
            pool.ts = sorted(pool.ts + torch_left, key=lambda node: node.place)
            pool.ps = sorted(pool.ps + paddle_left, key=lambda node: node.place)
        return paired

    def pair(
        self, torch: LayerNode, paddle: LayerNode, note: str = "", trusted: bool = False
    ) -> tuple[list[LayerNode], list[LayerNode]]:
        """Pair two layers; returns the units inside them that found no partner there."""
        if torch.is_unit and paddle.is_unit:
            self.units.append(UnitPair(torch, paddle, note))
            slots = pair_slots(torch, paddle, self.ordered, note)
            doubted = note == ORDER and not (torch.kind and paddle.kind)
            self.slots += [replace(pair, doubted=True) for pair in slots] if doubted else slots
            return [], []
        if not torch.is_unit and not paddle.is_unit:
            self.scopes.append((torch, paddle))
        return self.settle(torch.parts(), paddle.parts(), torch.path, paddle.path, trusted=trusted)

    def fused(self, pool: Candidates) -> bool:
        """A projection that holds several of the other side."""
        paired = False
        for projection in list(pairing.candidates(pool.ts, pool.ps)):
            wholes, parts = (pool.ts, pool.ps) if projection.side == "torch" else (pool.ps, pool.ts)
            if projection.whole in wholes and all(part in parts for part in projection.parts):
                wholes.remove(projection.whole)
                for part in projection.parts:
                    parts.remove(part)
                self.choices.append(projection.choice())
                paired = True
        return paired

    def by_name(self, pool: Candidates) -> bool:
        """Layers with layers below and one name; their contents may differ."""
        return self.take(pool, equal_names([n for n in pool.ts if not n.is_unit], [n for n in pool.ps if not n.is_unit], pool))

    def by_content(self, pool: Candidates) -> bool:
        """Layers with layers below that have most of their weights in common, in order."""
        ts, ps = [n for n in pool.ts if not n.is_unit], [n for n in pool.ps if not n.is_unit]
        pairs: Pairs = []
        for torch in ts:
            likely = [candidate for candidate in ps if common(torch, candidate) > 0.5]
            if likely:
                paddle = max(likely, key=lambda candidate: (self.ranks.share(torch, candidate) or 0, common(torch, candidate)))
                pairs.append((torch, paddle, ""))
                ps.remove(paddle)
        return self.take(pool, pairs)

    def taken_apart(self, pool: Candidates) -> bool:
        """Replace the largest layers with layers below by their parts."""
        whole = [node for node in (*pool.ts, *pool.ps) if not node.is_unit]
        most = max((counted(node).total() for node in whole), default=0)
        large = [node for node in whole if counted(node).total() == most]
        pool.ts = [part for node in pool.ts for part in (node.parts() if node in large else [node])]
        pool.ps = [part for node in pool.ps for part in (node.parts() if node in large else [node])]
        return bool(large)

    def out_of_order(self, pool: Candidates) -> bool:
        """From now on pair by shapes and names alone: the partners that the order of construction suggests do not exist."""
        before, pool.trusted = pool.trusted, True
        return not before

    def by_own_words(self, pool: Candidates) -> bool:
        """Layers whose own names have the same telling words, which no other layer of their side has."""
        pairs = unique_pairs(pool.ts, pool.ps, lambda node: _own_words(node, pool))
        return self.take(pool, [(torch, paddle, "") for torch, paddle in pairs])

    def singly(self, pool: Candidates) -> bool:
        """Split layers of the user's own classes into single weights."""
        ts, ps = [single for node in pool.ts for single in singles(node)], [single for node in pool.ps for single in singles(node)]
        if (len(ts), len(ps)) == (len(pool.ts), len(pool.ps)):
            return False
        pool.ts, pool.ps = ts, ps
        return True

    def of_one_kind(self, pool: Candidates) -> bool:
        """Layers whose main weight fits: a bias is missing."""
        return self.grouped(pool, main, wholly=False)

    def incomplete(self, pool: Candidates) -> bool:
        """Layers of one name, if any of their weights fit."""
        return self.take(pool, equal_names(pool.ts, pool.ps, pool), wholly=False)

    def one_by_one(self, pool: Candidates) -> bool:
        """Weights whose full names have the same words, whatever layers hold them: layers on one side, flat names on the other."""
        slots_t, slots_p = (
            [(slot, node.kind) for node in nodes if node.is_unit for slot in node.slots] for nodes in (pool.ts, pool.ps)
        )
        for (torch, torch_kind), (paddle, paddle_kind) in unique_pairs(
            slots_t, slots_p, lambda entry: tree.plain(name_of(entry[0]))
        ):
            pair = fit(torch, paddle, torch_kind or paddle_kind)
            if pair is not None:
                self.slots.append(pair)
                _without(pool.ts, pair.torch_slot)
                _without(pool.ps, pair.paddle_slot)
        return False


def _without(nodes: list[LayerNode], taken: Slot) -> None:
    """Take a weight out of the layers."""
    for place, node in enumerate(nodes):
        others = [slot for slot in node.slots if slot.weight is not taken.weight]
        if len(others) < len(node.slots):
            nodes[place] = LayerNode(node.path, node.type, node.kind, others, virtual=True, place=node.place)


class Correspondence:
    """Which layers of two models belong together: those with weights, then those around them, then those without weights.

    Grows from the layers that the matcher has paired.
    """

    def __init__(self, torch: WeightSide, paddle: WeightSide) -> None:
        self.sides = torch, paddle
        # The names of the weights that each layer holds itself
        self.owned = [
            {node: [slot.weight.name for slot in node.slots if slot.weight] for node in side.root.walk()} for side in self.sides
        ]
        self.of: dict[LayerNode, LayerNode] = {}
        self.back: dict[LayerNode, LayerNode] = {}

    def add(self, torch: LayerNode, paddle: LayerNode) -> bool:
        """Pair two layers, unless one of them has a partner or is no layer of the program."""
        if torch in self.of or paddle in self.back or any(n.virtual or n.again for n in (torch, paddle)):
            return False
        self.of[torch], self.back[paddle] = paddle, torch
        return True

    def complete(self, known: Iterable[tuple[LayerNode, LayerNode]], pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
        """All pairs of layers, by name, in order of the Torch module's construction.

        Args:
            known: the pairs of layers of the match.
            pairs: the pairs of weights of the match, by name.
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
        """Layers that hold exactly the same weights, the outermost first."""
        contents: list[dict[LayerNode, frozenset[int]]] = []  # the indices of all pairs below a layer
        for place, side in enumerate(self.sides):
            indices: dict[str, list[int]] = {}
            for index, pair in enumerate(pairs):
                indices.setdefault(pair[place], []).append(index)
            own = {node: [index for name in names for index in indices.get(name, ())] for node, names in self.owned[place].items()}
            inside = ((node, [own.get(layer, ()) for layer in node.walk()]) for node in side.root.walk())
            contents.append({node: frozenset(itertools.chain.from_iterable(below)) for node, below in inside})
        waiting: dict[tuple[frozenset[int], bool], list[LayerNode]] = {}
        for node, content in contents[1].items():
            if node not in self.back:
                waiting.setdefault((content, node.kind == "list"), []).append(node)
        for node, content in contents[0].items():
            candidates = waiting.get((content, node.kind == "list"), [])
            if content and node not in self.of and candidates and self.add(node, candidates[0]):
                candidates.pop(0)

    def by_place(self, torch: LayerNode, paddle: LayerNode) -> None:
        """The layers without weights directly below two layers: by type, then by name, then a last pair."""
        ts = [child for child in torch.children if child not in self.of and not self.holds(0, child)]
        ps = [child for child in paddle.children if child not in self.back and not self.holds(1, child)] if ts else []
        if not ps:
            return
        for kind in dict.fromkeys(_type(node) for node in ts):
            torch_nodes, paddle_nodes = [n for n in ts if _type(n) == kind], [n for n in ps if _type(n) == kind]
            as_many = len(torch_nodes) == len(paddle_nodes)
            in_order = as_many and {n.words for n in torch_nodes} != {n.words for n in paddle_nodes}
            pairs = zip(torch_nodes, paddle_nodes) if in_order else _equal_names(torch_nodes, paddle_nodes, numbers=as_many)
            for torch_node, paddle_node in pairs:
                self.add(torch_node, paddle_node)
        ts, ps = [n for n in ts if n not in self.of], [n for n in ps if n not in self.back]
        for torch_node, paddle_node in _equal_names(ts, ps):
            self.add(torch_node, paddle_node)
        ts, ps = [n for n in ts if n not in self.of], [n for n in ps if n not in self.back]
        if len(ts) == len(ps) == 1:
            self.add(ts[0], ps[0])

    def holds(self, side: int, node: LayerNode) -> bool:
        return any(self.owned[side].get(layer) for layer in node.walk())


def _type(node: LayerNode) -> str:
    return {"silu": "swish", "hardswish": "hardswish"}.get(node.type.lower(), node.type.lower())


def _equal_names(ts: list[LayerNode], ps: list[LayerNode], numbers: bool = False) -> list[tuple[LayerNode, LayerNode]]:
    of_p = {node.words: node for node in ps}
    named = [node for node in ts if node.words in of_p and (numbers or not is_number(tree.last_name(node.path)))]
    return [(node, of_p[node.words]) for node in named]
