"""Which layers of two trees belong together.

Hard evidence first: layers pair if their weights have the same canonical shapes and their types do not contradict. Where several
could, their names decide, if they tell them apart on both sides, and otherwise the order of construction. What does not fit level
by level (one side nests deeper, a layer is missing) is taken apart into its parts, which are tried again; what is left over in a
pair of layers is tried one level up.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace

from . import fusing, names
from .choices import Choice
from .evidence import (
    NAMES,
    Pairs,
    Pool,
    Ranks,
    agree,
    assign,
    common,
    counted,
    equal_names,
    exact,
    loose,
    main,
    own_names,
    same_name,
    shapes,
    singles,
    units_of,
)
from .lockstep import in_step
from .pairing import ORDER, SlotPair, fit, pair_slots
from .tree import Node, Slot


@dataclass(eq=False)
class UnitPair:
    """Two layers without weighted layers below, and the reason why they were paired if it could be doubted."""

    torch: Node
    paddle: Node
    note: str = ""


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
        self.choices: list[Choice] = []
        self.left: tuple[list[Node], list[Node]] = ([], [])
        self.ranks = Ranks()

    def match(self, torch: Node, paddle: Node) -> None:
        """Match two trees; what finds no partner is in ``left``."""
        torch.fix()
        paddle.fix()
        steps = in_step(torch, paddle, self.ordered)
        if steps is not None:
            self.scopes = [(torch, paddle), *self.scopes, *steps.scopes]
            self.units += [UnitPair(mine, yours) for mine, yours in steps.units]
            self.slots += steps.slots
            return
        if self.ordered:
            self.ranks = Ranks(units_of(torch), units_of(paddle))
        ours, theirs = self.settle(torch.parts(), paddle.parts(), torch.path, paddle.path)
        self.scopes.insert(0, (torch, paddle))
        ours, theirs = self.settle(ours, theirs, torch.path, paddle.path, last=True)
        self.left[0].extend(ours)
        self.left[1].extend(theirs)
        pool = Pool(ours, theirs, torch.path, paddle.path, self.ordered)
        self.scopes += [(mine, yours) for mine, yours, _ in equal_names(ours, theirs, pool) if agree(mine, yours)]

    def settle(
        self, ts: list[Node], ps: list[Node], tscope: str, pscope: str, *, last: bool = False, trusted: bool = False
    ) -> tuple[list[Node], list[Node]]:
        """Pair the layers of two scopes as far as possible; returns the units that are left on either side.

        Args:
            last: the scopes are the models: nothing can be tried elsewhere.
            trusted: names say that the scopes belong together, so that the order of other layers counts no more.
        """
        pool = Pool(list(ts), list(ps), tscope, pscope, self.ordered, trusted)
        steps: list[Callable[[Pool], bool]] = [self.by_shape, self.fused, self.by_name, self.by_content, self.taken_apart]
        if last:
            steps += [self.out_of_order, self.by_own_words, self.of_one_kind, self.singly, self.incomplete, self.one_by_one]
        while pool.ts and pool.ps and any(step(pool) for step in steps):
            pass
        return [unit for node in pool.ts for unit in units_of(node)], [unit for node in pool.ps for unit in units_of(node)]

    # -- one step each; whether it paired or changed anything

    def by_shape(self, pool: Pool) -> bool:
        """Layers with equal shapes: of one kind, of kinds that do not contradict, then of any depth."""
        return any(self.grouped(pool, keys) for keys in (exact, shapes, loose))

    def grouped(self, pool: Pool, keys: Keys, wholly: bool = True) -> bool:
        found = False
        for key in dict.fromkeys(key for node in pool.ts for key in keys(node)):
            ts = [node for node in pool.ts if key in keys(node)]
            ps = [node for node in pool.ps if key in keys(node)]
            found |= bool(ts and ps) and self.take(pool, assign(ts, ps, pool, self.ranks), wholly)
        return found

    def fits(self, torch: Node, paddle: Node, wholly: bool) -> bool:
        """Whether the weights of two units have partners in each other: all of them, or some."""
        if not torch.is_unit or not paddle.is_unit:
            return True
        found = len(pair_slots(torch, paddle, self.ordered))
        return found == len(torch.slots) == len(paddle.slots) if wholly else found > 0

    def take(self, pool: Pool, pairs: Pairs, wholly: bool = True) -> bool:
        """Pair what can be paired; what is left inside of two layers comes back into the pool."""
        found = False
        for torch, paddle, note in pairs:
            named = pool.trusted or note == NAMES or same_name(torch, paddle, pool)
            share = None if named else self.ranks.share(torch, paddle)
            if (share is not None and share < 0.5) or not agree(torch, paddle) or not self.fits(torch, paddle, wholly):
                continue
            found = True
            pool.ts.remove(torch)
            pool.ps.remove(paddle)
            ours, theirs = self.pair(torch, paddle, note, named)
            pool.put_back(ours, theirs)
        return found

    def pair(self, torch: Node, paddle: Node, note: str = "", trusted: bool = False) -> tuple[list[Node], list[Node]]:
        """Pair two layers; returns the units inside them that found no partner there."""
        if torch.is_unit and paddle.is_unit:
            self.units.append(UnitPair(torch, paddle, note))
            found = pair_slots(torch, paddle, self.ordered, note)
            doubted = note == ORDER and not (torch.kind and paddle.kind)
            self.slots += [replace(pair, doubted=True) for pair in found] if doubted else found
            return [], []
        if not torch.is_unit and not paddle.is_unit:
            self.scopes.append((torch, paddle))
        return self.settle(torch.parts(), paddle.parts(), torch.path, paddle.path, trusted=trusted)

    def fused(self, pool: Pool) -> bool:
        """One projection that does the work of several on the other side."""
        found = False
        for projection in list(fusing.candidates(pool.ts, pool.ps)):
            mine, other = (pool.ts, pool.ps) if projection.side == "torch" else (pool.ps, pool.ts)
            if projection.whole in mine and all(part in other for part in projection.parts):
                mine.remove(projection.whole)
                for part in projection.parts:
                    other.remove(part)
                self.choices.append(projection.choice())
                found = True
        return found

    def by_name(self, pool: Pool) -> bool:
        """Layers with layers below and one name; what they hold may differ."""
        return self.take(pool, equal_names([n for n in pool.ts if not n.is_unit], [n for n in pool.ps if not n.is_unit], pool))

    def by_content(self, pool: Pool) -> bool:
        """Layers with layers below that have most of their weights in common, in order."""
        ts, ps = [n for n in pool.ts if not n.is_unit], [n for n in pool.ps if not n.is_unit]
        found: Pairs = []
        for torch in ts:
            likely = [one for one in ps if common(torch, one) > 0.5]
            if likely:
                paddle = max(likely, key=lambda one: (self.ranks.share(torch, one) or 0, common(torch, one)))
                found.append((torch, paddle, ""))
                ps.remove(paddle)
        return self.take(pool, found)

    def taken_apart(self, pool: Pool) -> bool:
        """The largest layers with layers below give way to their parts."""
        whole = [node for node in (*pool.ts, *pool.ps) if not node.is_unit]
        most = max((counted(node).total() for node in whole), default=0)
        large = [node for node in whole if counted(node).total() == most]
        pool.ts = [part for node in pool.ts for part in (node.parts() if node in large else [node])]
        pool.ps = [part for node in pool.ps for part in (node.parts() if node in large else [node])]
        return bool(large)

    def out_of_order(self, pool: Pool) -> bool:
        """From now on by shapes and names alone: what order would have asked for is not there."""
        before, pool.trusted = pool.trusted, True
        return not before

    def by_own_words(self, pool: Pool) -> bool:
        """Layers of which the own names say the same, whatever the layers around them are called."""
        return self.take(pool, own_names(pool))

    def singly(self, pool: Pool) -> bool:
        """Weights of layers of the user's own, one by one."""
        ts, ps = [one for node in pool.ts for one in singles(node)], [one for node in pool.ps for one in singles(node)]
        if (len(ts), len(ps)) == (len(pool.ts), len(pool.ps)):
            return False
        pool.ts, pool.ps = ts, ps
        return True

    def of_one_kind(self, pool: Pool) -> bool:
        """Layers of the frameworks' own of which the main weight fits: a bias is missing."""
        return self.grouped(pool, main, wholly=False)

    def incomplete(self, pool: Pool) -> bool:
        """Layers of one name of which any weight fits."""
        return self.take(pool, equal_names(pool.ts, pool.ps, pool), wholly=False)

    def one_by_one(self, pool: Pool) -> bool:
        """Weights whose full names say the same, whatever layers they are in: those of layers on one side, flat on the other."""
        sides: tuple[dict[tuple[str, ...], list[Node]], dict[tuple[str, ...], list[Node]]] = ({}, {})
        for nodes, groups in zip((pool.ts, pool.ps), sides):
            for node in nodes:
                for slot in node.slots if node.is_unit else ():
                    alone = Node(node.path, node.type, node.kind, [slot], virtual=True, place=node.place)
                    groups.setdefault(names.plain(slot.weight.name) if slot.weight else (), []).append(alone)
        for key, mine in sides[0].items():
            yours = sides[1].get(key, [])
            if key and len(mine) == len(yours) == 1:
                pair = fit(mine[0].slots[0], yours[0].slots[0], mine[0].kind or yours[0].kind)
                if pair is not None:
                    self.slots.append(pair)
                    _without(pool.ts, pair.torch)
                    _without(pool.ps, pair.paddle)
        return False


def _without(nodes: list[Node], taken: Slot) -> None:
    """Take a weight away; the layers stay what they are to others."""
    for place, node in enumerate(nodes):
        kept = [slot for slot in node.slots if slot.weight is not taken.weight]
        if len(kept) < len(node.slots):
            nodes[place] = Node(node.path, node.type, node.kind, kept, virtual=True, place=node.place)
