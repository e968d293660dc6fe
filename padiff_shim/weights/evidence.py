"""What speaks for two layers being partners: shapes, types, names, and the order in which both models were built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from . import names
from .pairing import ORDER
from .tree import Node, Slot, remembered

Pairs = list[tuple[Node, Node, str]]

NAMES = "paired by name, declared in another order"


@dataclass(eq=False)
class Pool:
    """What is to be paired in one scope."""

    ts: list[Node]
    ps: list[Node]
    tscope: str
    pscope: str
    ordered: bool
    trusted: bool = False  # whether names say that the scopes belong together

    def put_back(self, ts: list[Node], ps: list[Node]) -> None:
        """Take up again what found no partner in a pair of layers, at its place in the order of construction."""
        self.ts = sorted(self.ts + ts, key=lambda node: node.place)
        self.ps = sorted(self.ps + ps, key=lambda node: node.place)

    def name(self, node: Node) -> str:
        """A layer's name in the scope."""
        return name_in(node, self.tscope if any(node is one for one in self.ts) else self.pscope)


def name_in(node: Node, scope: str) -> str:
    """A layer's name in a scope; that of a layer's own only weight is the weight's."""
    inner = node.slots[0].weight if node.virtual and len(node.slots) == 1 and not node.kind else None
    return names.relative(inner.name, scope) if inner else "" if node.path == scope else names.relative(node.path, scope)


@remembered
def units_of(node: Node) -> list[Node]:
    return [node] if node.is_unit else [unit for part in node.parts() for unit in units_of(part)]


def singles(node: Node) -> list[Node]:
    if node.kind or len(node.slots) < 2 or not node.is_unit:
        return [node]
    return [Node(node.path, node.type, "", [slot], virtual=True, place=node.place) for slot in node.slots]


def agree(torch: Node, paddle: Node) -> bool:
    """Whether the types of two layers do not contradict; containers, and classes of the user's own, say nothing."""
    if not torch.is_unit or not paddle.is_unit:
        return True
    return torch.kind == paddle.kind or not torch.kind or not paddle.kind or "sequence" in (torch.kind, paddle.kind)


@remembered
def _readings(node: Node) -> list[tuple]:
    """The sorted shapes of a unit: as they are canonically, and if the layout is open with every matrix turned."""
    slots = node.slots
    plain = tuple(sorted(slot.shape for slot in slots))
    if all(slot.settled for slot in slots):
        return [plain]
    turned = tuple(sorted(slot.shape if slot.settled or len(slot.shape) != 2 else slot.shape[::-1] for slot in slots))
    return list(dict.fromkeys([plain, turned]))


@remembered
def exact(node: Node) -> list[Hashable]:
    return [("unit", node.kind, shapes) for shapes in _readings(node)] if node.is_unit else [("layers", *_multiset(node))]


def shapes(node: Node) -> list[Hashable]:
    return list(_readings(node)) if node.is_unit else []


def loose(node: Node) -> list[Hashable]:
    return [_multiset(node)]


@remembered
def counted(node: Node) -> Counter[tuple[int, ...]]:
    """All shapes below a layer, whichever way matrices lie."""
    found: Counter[tuple[int, ...]] = Counter()
    if not node.taken:
        found.update(tuple(sorted(size for size in slot.shape if size != 1)) for slot in node.slots)
        for child in node.children:
            found.update(counted(child))
    return found


@remembered
def _multiset(node: Node) -> tuple:
    return tuple(sorted(counted(node).items()))


def common(one: Node, other: Node) -> float:
    """Share of the units that two layers have in common, by the shapes of their largest weights, whichever way matrices lie."""
    mine, yours = (
        Counter(tuple(sorted(size for size in _largest(unit).shape if size != 1)) for unit in units_of(node))
        for node in (one, other)
    )
    return sum((mine & yours).values()) / max(mine.total(), yours.total())


def _largest(unit: Node) -> Slot:
    return max(unit.slots, key=lambda slot: slot.size)


def main(node: Node) -> list[Hashable]:
    """The largest weight of a unit."""
    if not node.is_unit or not node.slots:
        return []
    return [("main", shape) for shape in dict.fromkeys(reading.shape for reading in _largest(node).readings())]


def equal_names(ts: list[Node], ps: list[Node], pool: Pool) -> Pairs:
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


def own_names(pool: Pool) -> Pairs:
    """Those whose own names have the same telling words, which no other layer of their side has."""
    found: tuple[dict[frozenset[str], list[Node]], dict[frozenset[str], list[Node]]] = ({}, {})
    for nodes, groups in zip((pool.ts, pool.ps), found):
        for node in nodes:
            groups.setdefault(_own_words(node, pool), []).append(node)
    return [
        (nodes[0], found[1][words][0], "")
        for words, nodes in found[0].items()
        if words and len(nodes) == len(found[1].get(words, ())) == 1
    ]


def assign(ts: list[Node], ps: list[Node], pool: Pool, ranks: Ranks) -> Pairs:
    """Pair layers that could each be the other's partner."""
    if len(ts) != len(ps):
        return equal_names(ts, ps, pool)
    if len(ts) == 1:
        return [(ts[0], ps[0], "")]
    tnames, pnames = [names.words(pool.name(n)) for n in ts], [names.words(pool.name(n)) for n in ps]
    if len(set(tnames)) == len(ts) and sorted(tnames) == sorted(pnames):
        note = "" if tnames == pnames else NAMES
        return [(node, ps[pnames.index(name)], note) for node, name in zip(ts, tnames)]
    return _by_telling_words(ts, ps, pool, ranks)


def _by_telling_words(ts: list[Node], ps: list[Node], pool: Pool, ranks: Ranks) -> Pairs:
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
    several = len(left_t) > 1
    for torch in left_t:
        paddle = left_p[0] if pool.trusted else max(left_p, key=lambda one: ranks.share(torch, one) or 0)
        left_p.remove(paddle)
        doubted = several and _own_words(torch, pool) != _own_words(paddle, pool)
        if pool.ordered or not doubted:
            found.append((torch, paddle, ORDER if doubted else ""))
    return found


def _own_words(node: Node, pool: Pool) -> frozenset[str]:
    """The telling words of a layer's own name, without those of the layers around it."""
    return names.telling(names.leaf(pool.name(node)))


def same_name(torch: Node, paddle: Node, pool: Pool) -> bool:
    """Whether two layers have one name in their scopes that is more than a number."""
    name = names.words(pool.name(torch))
    return name == names.words(pool.name(paddle)) and not all(word.isdigit() for word in name)


class Ranks:
    """Which unit would be whose partner if both sides were built in one order: of equal shapes the first is the first's...

    Args:
        ts, ps: all units of either side in order of construction.
    """

    def __init__(self, ts: Iterable[Node] = (), ps: Iterable[Node] = ()) -> None:
        ts, ps = list(ts), list(ps)
        plain = all(slot.settled for node in (*ts, *ps) for slot in node.slots)
        groups: tuple[dict[Hashable, list[Node]], dict[Hashable, list[Node]]] = ({}, {})
        for nodes, found in zip((ts, ps), groups):
            for node in nodes:
                found.setdefault(_readings(node)[0] if plain else _multiset(node), []).append(node)
        self.partners = {
            _key(mine): _key(yours)
            for shape, nodes in groups[0].items()
            for mine, yours in zip(nodes, groups[1].get(shape, ()))
            if len(nodes) == len(groups[1][shape])
        }

    def share(self, torch: Node, paddle: Node) -> float | None:
        """The share of a layer's units whose partners are in the other layer; None if none has one."""
        wanted = [self.partners[key] for key in map(_key, units_of(torch)) if key in self.partners]
        inside = set(map(_key, units_of(paddle)))
        return sum(key in inside for key in wanted) / len(wanted) if wanted else None


def _key(unit: Node) -> tuple:
    """What a unit is known by, however it was reached."""
    return tuple((slot.weight.name, slot.steps) for slot in unit.slots[:1] if slot.weight) or (unit.path,)
