"""Which layers of two trees belong together.

Hard evidence first: layers pair if their weights have the same canonical shapes and their types do not contradict. Where several
could, their names decide, if they tell them apart on both sides, and otherwise the order of construction. What does not fit level
by level (one side nests deeper, a layer is missing) is taken apart into its parts, which are tried again; what is left over in a
pair of layers is tried one level up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from . import fusing, names
from .pairing import SlotPair, pair_slots
from .tree import Node, Slot

ORDER = "paired by order"
NAMES = "paired by name, declared in another order"


@dataclass(eq=False)
class UnitPair:
    """Two layers without weighted layers below, and the reason why they were paired if it could be doubted."""

    torch: Node
    paddle: Node
    note: str = ""


Pairs = list[tuple[Node, Node, str]]
Keys = Callable[[Node], Iterable[Hashable]]


class Matcher:
    """Collects the pairs of one match.

    Args:
        ordered: whether the order of construction is known on both sides; a safetensors file is sorted by name.
    """

    def __init__(self, ordered: bool = True) -> None:
        self.ordered = ordered
        self.units: list[UnitPair] = []
        self.scopes: list[tuple[Node, Node]] = []  # layers with layers below, paired as wholes
        self.slots: list[SlotPair] = []
        self.left: tuple[list[Node], list[Node]] = ([], [])

    def match(self, torch: Node, paddle: Node) -> None:
        """Match two trees; what finds no partner is in ``left``."""
        ours, theirs = self.settle(torch.parts(), paddle.parts(), torch.path, paddle.path)
        self.scopes.insert(0, (torch, paddle))
        ours, theirs = self.settle(ours, theirs, torch.path, paddle.path, last=True)
        self.left[0].extend(ours)
        self.left[1].extend(theirs)
        pool = _Pool(ours, theirs, torch.path, paddle.path, self.ordered)
        self.scopes += [(mine, yours) for mine, yours, _ in _equal_names(ours, theirs, pool) if _agree(mine, yours)]

    def settle(self, ts: list[Node], ps: list[Node], tscope: str, pscope: str, last: bool = False) -> tuple[list[Node], list[Node]]:
        """Pair the layers of two scopes as far as possible; returns the units that are left on either side."""
        pool = _Pool(list(ts), list(ps), tscope, pscope, self.ordered)
        steps: list[Callable[[_Pool], bool]] = [self.by_shape, self.fused, self.by_name, self.by_content, self.taken_apart]
        if last:
            steps += [self.of_one_kind, self.singly, self.incomplete]
        while pool.ts and pool.ps and any(step(pool) for step in steps):
            pass
        return [unit for node in pool.ts for unit in _units(node)], [unit for node in pool.ps for unit in _units(node)]

    # -- one step each; whether it paired or changed anything

    def by_shape(self, pool: _Pool) -> bool:
        """Layers with equal shapes: of one kind, of kinds that do not contradict, then of any depth."""
        return any(self.grouped(pool, keys) for keys in (_exact, _shapes, _loose))

    def grouped(self, pool: _Pool, keys: Keys, wholly: bool = True) -> bool:
        found = False
        for key in dict.fromkeys(key for node in pool.ts for key in keys(node)):
            ts = [node for node in pool.ts if key in keys(node)]
            ps = [node for node in pool.ps if key in keys(node)]
            found |= bool(ts and ps) and self.take(pool, assign(ts, ps, pool), wholly)
        return found

    def fits(self, torch: Node, paddle: Node, wholly: bool) -> bool:
        """Whether the weights of two units have partners in each other: all of them, or some."""
        if not torch.is_unit or not paddle.is_unit:
            return True
        found = len(pair_slots(torch, paddle, self.ordered))
        return found == len(torch.slots) == len(paddle.slots) if wholly else found > 0

    def take(self, pool: _Pool, pairs: Pairs, wholly: bool = True) -> bool:
        """Pair what can be paired; what is left inside of two layers comes back into the pool."""
        found = False
        for torch, paddle, note in pairs:
            if not _agree(torch, paddle) or not self.fits(torch, paddle, wholly):
                continue
            found = True
            pool.ts.remove(torch)
            pool.ps.remove(paddle)
            ours, theirs = self.pair(torch, paddle, note)
            pool.put_back(ours, theirs)
        return found

    def pair(self, torch: Node, paddle: Node, note: str = "") -> tuple[list[Node], list[Node]]:
        """Pair two layers; returns the units inside them that found no partner there."""
        if torch.is_unit and paddle.is_unit:
            self.units.append(UnitPair(torch, paddle, note))
            self.slots += pair_slots(torch, paddle, self.ordered, note)
            return [], []
        if not torch.is_unit and not paddle.is_unit:
            self.scopes.append((torch, paddle))
        return self.settle(torch.parts(), paddle.parts(), torch.path, paddle.path)

    def fused(self, pool: _Pool) -> bool:
        """One projection that does the work of several on the other side."""
        found = False
        for whole, parts, side in list(fusing.candidates(pool.ts, pool.ps)):
            mine, other = (pool.ts, pool.ps) if side == "torch" else (pool.ps, pool.ts)
            if whole in mine and all(part in other for part in parts):
                mine.remove(whole)
                for part in parts:
                    other.remove(part)
                self.slots += fusing.pairs(whole, parts, side)
                found = True
        return found

    def by_name(self, pool: _Pool) -> bool:
        """Layers with layers below and one name; what they hold may differ."""
        return self.take(pool, _equal_names([n for n in pool.ts if not n.is_unit], [n for n in pool.ps if not n.is_unit], pool))

    def by_content(self, pool: _Pool) -> bool:
        """Layers with layers below that have most of their weights in common, in order."""
        ts, ps = [n for n in pool.ts if not n.is_unit], [n for n in pool.ps if not n.is_unit]
        found: Pairs = []
        for torch in ts:
            paddle = max(ps, key=lambda one: _common(torch, one), default=None)
            if paddle is not None and _common(torch, paddle) > 0.5:
                found.append((torch, paddle, ""))
                ps.remove(paddle)
        return self.take(pool, found)

    def taken_apart(self, pool: _Pool) -> bool:
        """The largest layers with layers below give way to their parts."""
        whole = [node for node in (*pool.ts, *pool.ps) if not node.is_unit]
        most = max((_counted(node).total() for node in whole), default=0)
        large = [node for node in whole if _counted(node).total() == most]
        pool.ts = [part for node in pool.ts for part in (node.parts() if node in large else [node])]
        pool.ps = [part for node in pool.ps for part in (node.parts() if node in large else [node])]
        return bool(large)

    def singly(self, pool: _Pool) -> bool:
        """Weights of layers of the user's own, one by one."""
        ts, ps = [one for node in pool.ts for one in _singles(node)], [one for node in pool.ps for one in _singles(node)]
        if (len(ts), len(ps)) == (len(pool.ts), len(pool.ps)):
            return False
        pool.ts, pool.ps = ts, ps
        return True

    def of_one_kind(self, pool: _Pool) -> bool:
        """Layers of the frameworks' own of which the main weight fits: a bias is missing."""
        return self.grouped(pool, _main, wholly=False)

    def incomplete(self, pool: _Pool) -> bool:
        """Layers of one name of which any weight fits."""
        return self.take(pool, _equal_names(pool.ts, pool.ps, pool), wholly=False)


@dataclass(eq=False)
class _Pool:
    """What is to be paired in one scope."""

    ts: list[Node]
    ps: list[Node]
    tscope: str
    pscope: str
    ordered: bool

    def put_back(self, ts: list[Node], ps: list[Node]) -> None:
        """Take up again what found no partner in a pair of layers, at its place in the order of construction."""
        self.ts = sorted(self.ts + ts, key=lambda node: node.place)
        self.ps = sorted(self.ps + ps, key=lambda node: node.place)

    def name(self, node: Node) -> str:
        """A layer's name in the scope."""
        scope = self.tscope if any(node is one for one in self.ts) else self.pscope
        inner = node.slots[0].weight if node.virtual and len(node.slots) == 1 and not node.kind else None
        return names.relative(inner.name, scope) if inner else "" if node.path == scope else names.relative(node.path, scope)


def _units(node: Node) -> list[Node]:
    return [node] if node.is_unit else [unit for part in node.parts() for unit in _units(part)]


def _singles(node: Node) -> list[Node]:
    if node.kind or len(node.slots) < 2 or not node.is_unit:
        return [node]
    return [Node(node.path, node.type, "", [slot], virtual=True, place=node.place) for slot in node.slots]


def _agree(torch: Node, paddle: Node) -> bool:
    """Whether the types of two layers do not contradict; containers, and classes of the user's own, say nothing."""
    if not torch.is_unit or not paddle.is_unit:
        return True
    return torch.kind == paddle.kind or not torch.kind or not paddle.kind or "sequence" in (torch.kind, paddle.kind)


def _readings(node: Node) -> list[tuple]:
    """The sorted shapes of a unit: as they are canonically, and if the layout is open with every matrix turned."""
    slots = node.slots
    plain = tuple(sorted(slot.shape for slot in slots))
    if all(slot.settled for slot in slots):
        return [plain]
    turned = tuple(sorted(slot.shape if slot.settled or len(slot.shape) != 2 else slot.shape[::-1] for slot in slots))
    return list(dict.fromkeys([plain, turned]))


def _exact(node: Node) -> list[Hashable]:
    return [("unit", node.kind, shapes) for shapes in _readings(node)] if node.is_unit else [("layers", *_multiset(node))]


def _shapes(node: Node) -> list[Hashable]:
    return list(_readings(node)) if node.is_unit else []


def _loose(node: Node) -> list[Hashable]:
    return [_multiset(node)]


def _counted(node: Node) -> Counter[tuple[int, ...]]:
    """All shapes below a layer, whichever way matrices lie."""
    return Counter(tuple(sorted(size for size in slot.shape if size != 1)) for slot in node.all_slots())


def _multiset(node: Node) -> tuple:
    return tuple(sorted(_counted(node).items()))


def _common(one: Node, other: Node) -> float:
    """Share of the units that two layers have in common, by the shapes of their largest weights, whichever way matrices lie."""
    mine, yours = (
        Counter(tuple(sorted(size for size in _largest(unit).shape if size != 1)) for unit in _units(node)) for node in (one, other)
    )
    return sum((mine & yours).values()) / max(mine.total(), yours.total())


def _largest(unit: Node) -> Slot:
    return max(unit.slots, key=lambda slot: slot.size)


def _main(node: Node) -> list[Hashable]:
    """The largest weight of a unit."""
    if not node.is_unit or not node.slots:
        return []
    return [("main", shape) for shape in dict.fromkeys(reading.shape for reading in _largest(node).readings())]


def _equal_names(ts: list[Node], ps: list[Node], pool: _Pool) -> Pairs:
    """Those whose words are the same and stand for one layer on either side; bare numbers tell of order only."""
    of_t, of_p = ({}, {})  # type: dict[tuple, list[Node]], dict[tuple, list[Node]]
    for nodes, found in ((ts, of_t), (ps, of_p)):
        for node in nodes:
            found.setdefault(names.words(pool.name(node)), []).append(node)
    return [
        (nodes[0], of_p[name][0], "")
        for name, nodes in of_t.items()
        if len(nodes) == len(of_p.get(name, ())) == 1 and not all(word.isdigit() for word in name)
    ]


def assign(ts: list[Node], ps: list[Node], pool: _Pool) -> Pairs:
    """Pair layers that could each be the other's partner."""
    if len(ts) != len(ps):
        return _equal_names(ts, ps, pool)
    if len(ts) == 1:
        return [(ts[0], ps[0], "")]
    tnames, pnames = [names.words(pool.name(n)) for n in ts], [names.words(pool.name(n)) for n in ps]
    if len(set(tnames)) == len(ts) and sorted(tnames) == sorted(pnames):
        note = "" if tnames == pnames else NAMES
        return [(node, ps[pnames.index(name)], note) for node, name in zip(ts, tnames)]
    return _by_telling_words(ts, ps, pool)


def _by_telling_words(ts: list[Node], ps: list[Node], pool: _Pool) -> Pairs:
    """By the words that both sides use, and what is left in order of construction."""
    words_t, words_p = ({id(n): names.telling(pool.name(n)) for n in nodes} for nodes in (ts, ps))
    left_t, left_p, found = list(ts), list(ps), []  # type: list[Node], list[Node], Pairs
    for key in dict.fromkeys(words_t.values()):
        mine = [n for n in ts if words_t[id(n)] == key]
        yours = [n for n in ps if words_p[id(n)] == key]
        if key and len(mine) == len(yours):
            found += [(torch, paddle, "") for torch, paddle in zip(mine, yours)]
            left_t = [n for n in left_t if n not in mine]
            left_p = [n for n in left_p if n not in yours]
    for torch, paddle in zip(left_t, left_p):
        doubted = len(left_t) > 1 and _own_words(torch, pool) != _own_words(paddle, pool)
        if pool.ordered or not doubted:
            found.append((torch, paddle, ORDER if doubted else ""))
    return found


def _own_words(node: Node, pool: _Pool) -> frozenset[str]:
    """The telling words of a layer's own name, without those of the layers around it."""
    return names.telling(names.leaf(pool.name(node)))
