"""Which layers of two trees belong together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace

from . import pairing, tree
from .pairing import ORDER, Choice, SlotPair, fit, pair_slots
from .tree import LayerNode, Slot, WeightSide, remembered

# ---- What speaks for two layers being partners: shapes, types, names, and the order in which both models were built.

Pairs = list[tuple[LayerNode, LayerNode, str]]

NAMES = "paired by name, declared in another order"


@dataclass(eq=False)
class Candidates:
    """What is to be paired in one scope."""

    ts: list[LayerNode]
    ps: list[LayerNode]
    tscope: str
    pscope: str
    ordered: bool
    trusted: bool = False  # whether names say that the scopes belong together

    def put_back(self, ts: list[LayerNode], ps: list[LayerNode]) -> None:
        """Take up again what found no partner in a pair of layers, at its place in the order of construction."""
        self.ts = sorted(self.ts + ts, key=lambda node: node.place)
        self.ps = sorted(self.ps + ps, key=lambda node: node.place)

    def name(self, node: LayerNode) -> str:
        """A layer's name in the scope."""
        return name_in(node, self.tscope if any(node is torch_node for torch_node in self.ts) else self.pscope)


def name_in(node: LayerNode, scope: str) -> str:
    """A layer's name in a scope; that of a layer's own only weight is the weight's."""
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
    """Whether the types of two layers do not contradict; containers, and classes of the user's own, say nothing."""
    if not torch.is_unit or not paddle.is_unit:
        return True
    return torch.kind == paddle.kind or not torch.kind or not paddle.kind or "sequence" in (torch.kind, paddle.kind)


@remembered
def _readings(node: LayerNode) -> list[tuple]:
    """The sorted shapes of a unit: as they are canonically, and if the layout is open with every matrix turned."""
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
def counted(node: LayerNode) -> Counter[tuple[int, ...]]:
    """All shapes below a layer, whichever way matrices lie."""
    shapes_below: Counter[tuple[int, ...]] = Counter()
    if not node.taken:
        shapes_below.update(tuple(sorted(size for size in slot.shape if size != 1)) for slot in node.slots)
        for child in node.children:
            shapes_below.update(counted(child))
    return shapes_below


@remembered
def _multiset(node: LayerNode) -> tuple:
    return tuple(sorted(counted(node).items()))


def common(first: LayerNode, second: LayerNode) -> float:
    """Share of the units that two layers have in common, by the shapes of their largest weights, whichever way matrices lie."""
    first_shapes, second_shapes = (
        Counter(tuple(sorted(size for size in _largest(unit).shape if size != 1)) for unit in units_of(node))
        for node in (first, second)
    )
    return sum((first_shapes & second_shapes).values()) / max(first_shapes.total(), second_shapes.total())


def _largest(unit: LayerNode) -> Slot:
    return max(unit.slots, key=lambda slot: slot.size)


def main(node: LayerNode) -> list[Hashable]:
    """The largest weight of a unit."""
    if not node.is_unit or not node.slots:
        return []
    return [("main", shape) for shape in dict.fromkeys(reading.shape for reading in _largest(node).readings())]


def equal_names(ts: list[LayerNode], ps: list[LayerNode], pool: Candidates) -> Pairs:
    """Those whose words are the same and stand for one layer on either side; bare numbers tell of order only."""
    of_t, of_p = ({}, {})  # type: dict[tuple, list[LayerNode]], dict[tuple, list[LayerNode]]
    for nodes, groups in ((ts, of_t), (ps, of_p)):
        for node in nodes:
            groups.setdefault(tree.words_of(pool.name(node)), []).append(node)
    return [
        (nodes[0], of_p[name][0], "")
        for name, nodes in of_t.items()
        if len(nodes) == len(of_p.get(name, ())) == 1 and not all(word.isdigit() for word in name)
    ]


def own_names(pool: Candidates) -> Pairs:
    """Those whose own names have the same telling words, which no other layer of their side has."""
    groups_of: tuple[dict[frozenset[str], list[LayerNode]], dict[frozenset[str], list[LayerNode]]] = ({}, {})
    for nodes, groups in zip((pool.ts, pool.ps), groups_of):
        for node in nodes:
            groups.setdefault(_own_words(node, pool), []).append(node)
    return [
        (nodes[0], groups_of[1][words][0], "")
        for words, nodes in groups_of[0].items()
        if words and len(nodes) == len(groups_of[1].get(words, ())) == 1
    ]


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
    return _by_telling_words(ts, ps, pool, ranks)


def _by_telling_words(ts: list[LayerNode], ps: list[LayerNode], pool: Candidates, ranks: BuildOrder) -> Pairs:
    """By the words that both sides use, and what is left in order of construction."""
    words_t, words_p = ({id(n): tree.telling_words(pool.name(n)) for n in nodes} for nodes in (ts, ps))
    left_t, left_p, pairs = list(ts), list(ps), []  # type: list[LayerNode], list[LayerNode], Pairs
    for key in dict.fromkeys(words_t.values()):
        torch_nodes = [n for n in ts if words_t[id(n)] == key]
        paddle_nodes = [n for n in ps if words_p[id(n)] == key]
        if key and len(torch_nodes) == len(paddle_nodes):
            pairs += [(torch, paddle, "") for torch, paddle in zip(torch_nodes, paddle_nodes)]
            left_t = [n for n in left_t if n not in torch_nodes]
            left_p = [n for n in left_p if n not in paddle_nodes]
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


def same_name(torch: LayerNode, paddle: LayerNode, pool: Candidates) -> bool:
    """Whether two layers have one name in their scopes that is more than a number."""
    name = tree.words_of(pool.name(torch))
    return name == tree.words_of(pool.name(paddle)) and not all(word.isdigit() for word in name)


class BuildOrder:
    """Which unit would be whose partner if both sides were built in one order: of equal shapes the first is the first's...

    Args:
        ts, ps: all units of either side in order of construction.
    """

    def __init__(self, ts: Iterable[LayerNode] = (), ps: Iterable[LayerNode] = ()) -> None:
        ts, ps = list(ts), list(ps)
        plain = all(slot.settled for node in (*ts, *ps) for slot in node.slots)
        groups: tuple[dict[Hashable, list[LayerNode]], dict[Hashable, list[LayerNode]]] = ({}, {})
        for nodes, group in zip((ts, ps), groups):
            for node in nodes:
                group.setdefault(_readings(node)[0] if plain else _multiset(node), []).append(node)
        self.partners = {
            _key(torch_unit): _key(paddle_unit)
            for shape, nodes in groups[0].items()
            for torch_unit, paddle_unit in zip(nodes, groups[1].get(shape, ()))
            if len(nodes) == len(groups[1][shape])
        }

    def share(self, torch: LayerNode, paddle: LayerNode) -> float | None:
        """The share of a layer's units whose partners are in the other layer; None if none has one."""
        wanted = [self.partners[key] for key in map(_key, units_of(torch)) if key in self.partners]
        inside = set(map(_key, units_of(paddle)))
        return sum(key in inside for key in wanted) / len(wanted) if wanted else None


def _key(unit: LayerNode) -> tuple:
    """What a unit is known by, however it was reached."""
    return tuple((slot.weight.name, slot.steps) for slot in unit.slots[:1] if slot.weight) or (unit.path,)


# ---- Two trees that are one: the same layers in the same order, by kind, name and shapes. Nothing has to be searched for there.
#
# That is the common case, a port that was written after its original; it is what :class:`Matcher` would find, sooner.


@dataclass
class Steps:
    """The pairs of two such trees: layers with layers below, layers without, and weights."""

    scopes: list[tuple[LayerNode, LayerNode]] = field(default_factory=list)
    units: list[tuple[LayerNode, LayerNode]] = field(default_factory=list)
    slots: list[SlotPair] = field(default_factory=list)


def in_step(torch: LayerNode, paddle: LayerNode, ordered: bool) -> Steps | None:
    """The pairs of two trees that are one; None if they are not."""
    steps = Steps()
    return steps if _walk(torch, paddle, ordered, steps) else None


def _walk(torch: LayerNode, paddle: LayerNode, ordered: bool, steps: Steps) -> bool:
    ts, ps = torch.parts(), paddle.parts()
    if len(ts) != len(ps):
        return False
    words = [tree.words_of(name_in(node, torch.path)) for node in ts]
    if len(set(words)) != len(words) or words != [tree.words_of(name_in(node, paddle.path)) for node in ps]:
        return False  # which of them belong together is to be found out
    return all(_pair(torch_part, paddle_part, ordered, steps) for torch_part, paddle_part in zip(ts, ps))


def _pair(torch: LayerNode, paddle: LayerNode, ordered: bool, steps: Steps) -> bool:
    if torch.is_unit is not paddle.is_unit:
        return False
    if not torch.is_unit:
        steps.scopes.append((torch, paddle))
        return _walk(torch, paddle, ordered, steps)
    if torch.kind != paddle.kind or exact(torch) != exact(paddle):
        return False
    slots = pair_slots(torch, paddle, ordered)
    steps.units.append((torch, paddle))
    steps.slots += slots
    return len(slots) == len(torch.slots) == len(paddle.slots)


# ---- Which layers of two trees belong together.
#
# Hard evidence first: layers pair if their weights have the same canonical shapes and their types do not contradict. Where
# several
# could, their names decide, if they tell them apart on both sides, and otherwise the order of construction. What does not fit
# level
# by level (one side nests deeper, a layer is missing) is taken apart into its parts, which are tried again; what is left over in
# a
# pair of layers is tried one level up.


@dataclass(eq=False)
class UnitPair:
    """Two layers without weighted layers below, and the reason why they were paired if it could be doubted."""

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
        self.slots: list[SlotPair] = []
        self.choices: list[Choice] = []
        self.left: tuple[list[LayerNode], list[LayerNode]] = ([], [])
        self.ranks = BuildOrder()

    def match(self, torch: LayerNode, paddle: LayerNode) -> None:
        """Match two trees; what finds no partner is in ``left``."""
        torch.fix()
        paddle.fix()
        steps = in_step(torch, paddle, self.ordered)
        if steps is not None:
            self.scopes = [(torch, paddle), *self.scopes, *steps.scopes]
            self.units += [UnitPair(torch_unit, paddle_unit) for torch_unit, paddle_unit in steps.units]
            self.slots += steps.slots
            return
        if self.ordered:
            self.ranks = BuildOrder(units_of(torch), units_of(paddle))
        torch_left, paddle_left = self.settle(torch.parts(), paddle.parts(), torch.path, paddle.path)
        self.scopes.insert(0, (torch, paddle))
        torch_left, paddle_left = self.settle(torch_left, paddle_left, torch.path, paddle.path, last=True)
        self.left[0].extend(torch_left)
        self.left[1].extend(paddle_left)
        pool = Candidates(torch_left, paddle_left, torch.path, paddle.path, self.ordered)
        self.scopes += [
            (torch_node, paddle_node)
            for torch_node, paddle_node, _ in equal_names(torch_left, paddle_left, pool)
            if agree(torch_node, paddle_node)
        ]

    def settle(
        self, ts: list[LayerNode], ps: list[LayerNode], tscope: str, pscope: str, *, last: bool = False, trusted: bool = False
    ) -> tuple[list[LayerNode], list[LayerNode]]:
        """Pair the layers of two scopes as far as possible; returns the units that are left on either side.

        Args:
            last: the scopes are the models: nothing can be tried elsewhere.
            trusted: names say that the scopes belong together, so that the order of other layers counts no more.
        """
        pool = Candidates(list(ts), list(ps), tscope, pscope, self.ordered, trusted)
        steps: list[Callable[[Candidates], bool]] = [self.by_shape, self.fused, self.by_name, self.by_content, self.taken_apart]
        if last:
            steps += [self.out_of_order, self.by_own_words, self.of_one_kind, self.singly, self.incomplete, self.one_by_one]
        while pool.ts and pool.ps and any(step(pool) for step in steps):
            pass
        return [unit for node in pool.ts for unit in units_of(node)], [unit for node in pool.ps for unit in units_of(node)]

    # -- one step each; whether it paired or changed anything

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
        """Pair what can be paired; what is left inside of two layers comes back into the pool."""
        paired = False
        for torch, paddle, note in pairs:
            named = pool.trusted or note == NAMES or same_name(torch, paddle, pool)
            share = None if named else self.ranks.share(torch, paddle)
            if (share is not None and share < 0.5) or not agree(torch, paddle) or not self.fits(torch, paddle, wholly):
                continue
            paired = True
            pool.ts.remove(torch)
            pool.ps.remove(paddle)
            torch_left, paddle_left = self.pair(torch, paddle, note, named)
            pool.put_back(torch_left, paddle_left)
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
        """One projection that does the work of several on the other side."""
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
        """Layers with layers below and one name; what they hold may differ."""
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
        """The largest layers with layers below give way to their parts."""
        whole = [node for node in (*pool.ts, *pool.ps) if not node.is_unit]
        most = max((counted(node).total() for node in whole), default=0)
        large = [node for node in whole if counted(node).total() == most]
        pool.ts = [part for node in pool.ts for part in (node.parts() if node in large else [node])]
        pool.ps = [part for node in pool.ps for part in (node.parts() if node in large else [node])]
        return bool(large)

    def out_of_order(self, pool: Candidates) -> bool:
        """From now on by shapes and names alone: what order would have asked for is not there."""
        before, pool.trusted = pool.trusted, True
        return not before

    def by_own_words(self, pool: Candidates) -> bool:
        """Layers of which the own names say the same, whatever the layers around them are called."""
        return self.take(pool, own_names(pool))

    def singly(self, pool: Candidates) -> bool:
        """Weights of layers of the user's own, one by one."""
        ts, ps = [single for node in pool.ts for single in singles(node)], [single for node in pool.ps for single in singles(node)]
        if (len(ts), len(ps)) == (len(pool.ts), len(pool.ps)):
            return False
        pool.ts, pool.ps = ts, ps
        return True

    def of_one_kind(self, pool: Candidates) -> bool:
        """Layers of the frameworks' own of which the main weight fits: a bias is missing."""
        return self.grouped(pool, main, wholly=False)

    def incomplete(self, pool: Candidates) -> bool:
        """Layers of one name of which any weight fits."""
        return self.take(pool, equal_names(pool.ts, pool.ps, pool), wholly=False)

    def one_by_one(self, pool: Candidates) -> bool:
        """Weights whose full names say the same, whatever layers they are in: those of layers on one side, flat on the other."""
        sides: tuple[dict[tuple[str, ...], list[LayerNode]], dict[tuple[str, ...], list[LayerNode]]] = ({}, {})
        for nodes, groups in zip((pool.ts, pool.ps), sides):
            for node in nodes:
                for slot in node.slots if node.is_unit else ():
                    alone = LayerNode(node.path, node.type, node.kind, [slot], virtual=True, place=node.place)
                    groups.setdefault(tree.plain(slot.weight.name) if slot.weight else (), []).append(alone)
        for key, torch_nodes in sides[0].items():
            paddle_nodes = sides[1].get(key, [])
            if key and len(torch_nodes) == len(paddle_nodes) == 1:
                pair = fit(torch_nodes[0].slots[0], paddle_nodes[0].slots[0], torch_nodes[0].kind or paddle_nodes[0].kind)
                if pair is not None:
                    self.slots.append(pair)
                    _without(pool.ts, pair.torch)
                    _without(pool.ps, pair.paddle)
        return False


def _without(nodes: list[LayerNode], taken: Slot) -> None:
    """Take a weight away; the layers stay what they are to others."""
    for place, node in enumerate(nodes):
        others = [slot for slot in node.slots if slot.weight is not taken.weight]
        if len(others) < len(node.slots):
            nodes[place] = LayerNode(node.path, node.type, node.kind, others, virtual=True, place=node.place)


# ---- Which layers of two models stand for each other, layers without weights included.

Owners = dict[LayerNode, list[str]]  # names of the weights that each layer holds itself


def owners(side: WeightSide) -> Owners:
    """The names of every layer's own weights."""
    return {node: [slot.weight.name for slot in node.slots if slot.weight] for node in side.root.walk()}


class Correspondence:
    """Grows from what was matched: layers with weights, then those around them, then those without weights beside them."""

    def __init__(self, torch: WeightSide, paddle: WeightSide) -> None:
        self.sides = torch, paddle
        self.owned = owners(torch), owners(paddle)
        self.of: dict[LayerNode, LayerNode] = {}
        self.back: dict[LayerNode, LayerNode] = {}

    def add(self, torch: LayerNode, paddle: LayerNode) -> bool:
        """Let two layers stand for each other, unless one of them has a partner or is no layer that a program knows."""
        if torch in self.of or paddle in self.back or any(n.virtual or n.again for n in (torch, paddle)):
            return False
        self.of[torch], self.back[paddle] = paddle, torch
        return True

    def complete(self, known: Iterable[tuple[LayerNode, LayerNode]], pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
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
        contents: list[dict[LayerNode, frozenset[int]]] = []
        for place, side in enumerate(self.sides):
            indices: dict[str, set[int]] = {}
            for index, pair in enumerate(pairs):
                indices.setdefault(pair[place], set()).add(index)
            contents.append(_contents(side.root, self.owned[place], indices))
        waiting: dict[tuple[frozenset[int], bool], list[LayerNode]] = {}
        for node, content in contents[1].items():
            if node not in self.back:
                waiting.setdefault((content, node.kind == "list"), []).append(node)
        for node, content in contents[0].items():
            candidates = waiting.get((content, node.kind == "list"), [])
            if content and node not in self.of and candidates and self.add(node, candidates[0]):
                candidates.pop(0)

    def by_place(self, torch: LayerNode, paddle: LayerNode) -> None:
        """The layers without weights directly below two layers: by type, then by name, then the only one left."""
        ts = [child for child in torch.children if child not in self.of and not self.holds(0, child)]
        ps = [child for child in paddle.children if child not in self.back and not self.holds(1, child)] if ts else []
        if not ps:
            return
        for kind in dict.fromkeys(_type(node) for node in ts):
            torch_nodes, paddle_nodes = [n for n in ts if _type(n) == kind], [n for n in ps if _type(n) == kind]
            for torch_node, paddle_node in _in_order(torch_nodes, paddle_nodes):
                self.add(torch_node, paddle_node)
        ts, ps = [n for n in ts if n not in self.of], [n for n in ps if n not in self.back]
        for torch_node, paddle_node in _equal_names(ts, ps):
            self.add(torch_node, paddle_node)
        ts, ps = [n for n in ts if n not in self.of], [n for n in ps if n not in self.back]
        if len(ts) == len(ps) == 1:
            self.add(ts[0], ps[0])

    def holds(self, side: int, node: LayerNode) -> bool:
        return any(self.owned[side].get(layer) for layer in node.walk())


def _contents(root: LayerNode, owned: Owners, indices: dict[str, set[int]]) -> dict[LayerNode, frozenset[int]]:
    """{layer: the indices of all pairs below it}, from the root on."""
    contents: dict[LayerNode, frozenset[int]] = {}

    def fill(node: LayerNode) -> frozenset[int]:
        contents[node] = frozenset()  # keeps the order of construction
        own_indices = {index for name in owned.get(node, ()) for index in indices.get(name, ())}
        contents[node] = frozenset(own_indices.union(*(fill(child) for child in node.children)))
        return contents[node]

    fill(root)
    return contents


def _type(node: LayerNode) -> str:
    return {"silu": "swish", "hardswish": "hardswish"}.get(node.type.lower(), node.type.lower())


def _in_order(ts: list[LayerNode], ps: list[LayerNode]) -> list[tuple[LayerNode, LayerNode]]:
    """As many on either side: in order, or by name if the names are the same. Else those of one name."""
    if len(ts) != len(ps) or {_words_of(n) for n in ts} == {_words_of(n) for n in ps}:
        return _equal_names(ts, ps, numbers=len(ts) == len(ps))
    return list(zip(ts, ps))


def _equal_names(ts: list[LayerNode], ps: list[LayerNode], numbers: bool = False) -> list[tuple[LayerNode, LayerNode]]:
    of_p = {_words_of(node): node for node in ps}
    return [
        (node, of_p[_words_of(node)])
        for node in ts
        if _words_of(node) in of_p and (numbers or not all(word.isdigit() for word in _words_of(node)))
    ]


def _words_of(node: LayerNode) -> tuple[str, ...]:
    return tree.words_of(tree.last_name(node.path))
