"""``padiff_shim.difference``: how far tensors of either framework are apart, also those of a whole tree."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import ArgumentError, described
from ..present import document as doc
from ..present.annotations import Finding
from ..present.result import Presented
from ..text import capped, joined, listed, many, shown, tr
from ..trees import PLAIN, Tree, elements, is_tensor, numbers, parts, values
from .bits import Array
from .distance import QUANTILES, Distance, distance, worst_of

Comparator = Callable[[Array, Array, str], bool | None]
ROWS = doc.Most(40, 40, 2000)


@dataclass(repr=False)
class TreeDifference(Presented):
    """How far the tensors of a tree are from those of another one. True in a condition if nothing differs.

    Attributes:
        tensors: the distance of each pair of tensors or numbers, in the first tree's order; ``name`` is where they are.
        differing: the pairs that differ.
        plain: where both trees hold numbers, text or None in place of tensors.
        unlike: (name, value of a, value of b) where such values differ and have no distance.
        unpaired: (name, ``"a"`` or ``"b"``) of what one tree alone holds.
        unmeasured: where objects are that cannot be compared.
        environment: versions of what was imported.

    Each number of a :class:`Distance` can be asked of the whole, too: ``max_abs``, ``ulp``, ``equal_share`` ... are those of the
    pair in which they are worst.
    """

    tensors: list[Distance] = field(default_factory=list)
    differing: list[Distance] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    unlike: list[tuple[str, str, str]] = field(default_factory=list)
    unpaired: list[tuple[str, str]] = field(default_factory=list)
    unmeasured: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=doc.loaded_versions)
    _names = ("tensors", "unlike", "unpaired", "unmeasured", "environment")

    def __bool__(self) -> bool:
        return not (self.differing or self.unlike or self.unpaired)

    def __getattr__(self, name: str) -> Any:
        known = name in Distance.__dataclass_fields__ or isinstance(vars(Distance).get(name), property)
        if name.startswith("_") or not known:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.tensors[0] if len(self.tensors) == 1 else worst_of(self.tensors), name)

    @property
    def findings(self) -> list[Finding]:
        """Each tensor that differs, or is alone."""
        alone = [Finding("DIFFERENT", "error", text, where=name) for name, text in self._alone().items()]
        return alone + [
            Finding("DIFFERENT", "error", in_words(apart), where=apart.name, numbers=figures_of(apart)) for apart in self.differing
        ]

    def _alone(self) -> dict[str, str]:
        """What differs and has no distance, in words, by where it is."""
        alone = {name: tr("{name} only in {side}", name=shown(name), side=side) for name, side in self.unpaired}
        return alone | {name: tr("{name}: {a} and {b}", name=_place(name), a=a, b=b) for name, a, b in self.unlike}

    def _counted(self) -> str:
        """How many tensors and plain values were compared."""
        tensors = sum(apart.name not in self.plain for apart in self.tensors)
        if not self.plain:
            return many(tensors, "tensor") if tensors else ""
        values = many(len(self.plain), "value")
        return tr("{tensors} and {values}", tensors=many(tensors, "tensor"), values=values) if tensors else values

    def _shorter(self) -> Iterator[str]:
        count, compared = len(self.differing) + len(self.unlike), self._counted() or many(0, "tensor")
        if self.unpaired:
            yield tr(
                "DIFFERENT: {alone} only in one of both, {count} of {tensors} differ",
                alone=len(self.unpaired),
                count=count,
                tensors=compared,
            )
        yield tr("DIFFERENT: {count} of {tensors}", count=count, tensors=compared)

    @property
    def answer(self) -> str:
        """The answer in one line."""
        counted = self._counted()
        if self:
            if not counted:
                text = tr("SAME: neither holds a tensor or a value")
            elif all(apart.identical for apart in self.tensors):
                text = tr("SAME: {tensors}, all equal bit for bit", tensors=counted)
            else:
                text = tr("SAME: {tensors}, all within what counts as equal", tensors=counted)
            unmeasured = listed([_place(name) for name in self.unmeasured], 2)
            return tr("{text}; not compared: {unmeasured}", text=text, unmeasured=unmeasured) if self.unmeasured else text
        if alone := self._alone():
            return tr("DIFFERENT: {alone}", alone=listed([*alone.values()], 3))
        worst = max(self.differing, key=lambda apart: math.inf if math.isnan(apart.relative_max) else apart.relative_max)
        what = in_words(worst)
        if len(self.tensors) + len(self.plain) == 1 or worst.name == "":
            return tr("DIFFERENT: {what}", what=what)
        return tr(
            "DIFFERENT: {count} of {all}, most {name}: {what}",
            count=len(self.differing), all=counted, name=shown(worst.name), what=what,
        )  # fmt: skip

    def content(self) -> doc.Document:
        """A row for each tensor."""
        columns = [
            doc.Column(tr("tensor")),
            doc.Column(tr("shape"), 5, markdown="under"),
            doc.Column(tr("dtype"), 6, markdown="under"),
            *doc.figures(tr("max"), tr("mean"), tr("relative"), tr("ULP"), tr("equal"), leave=(0, 4, 2, 3, 1)),
            doc.Column(tr("first at"), 7),
        ]
        differing = {id(apart) for apart in self.differing}
        tones: list[doc.Tone] = ["bad" if id(apart) in differing else "good" for apart in self.tensors]
        rows = [_row(apart) for apart in self.tensors]
        words = tr(
            "max, mean: absolute differences; relative: norm of the difference by that of b; ULP: the largest difference, in units "
            "in the last place of b's largest element."
        )
        # NaN and infinities, and the quantiles of a single pair
        remarks = [
            tr(
                "{name}: NaN {nan_a} and {nan_b}, infinities {infinite_a} and {infinite_b}",
                name=_place(apart.name), nan_a=apart.nan[0], nan_b=apart.nan[1],
                infinite_a=apart.infinite[0], infinite_b=apart.infinite[1],
            )
            for apart in self.tensors
            if any((*apart.nan, *apart.infinite))
        ]  # fmt: skip
        if len(self.tensors) == 1 and self.tensors[0].different and self.tensors[0].quantiles:
            quantiles = [f"{share:.0%}: {self.tensors[0].quantiles[share]:.2g}" for share in QUANTILES]
            remarks.append(tr("quantiles of the differences: {quantiles}", quantiles=", ".join(quantiles)))
        table, notes = doc.Table(columns, rows, tones, most=ROWS), doc.Notes([*self._alone().values(), *remarks])
        explained = doc.Only((doc.MARKDOWN, doc.PAGE), [doc.Paragraph(words)])
        return doc.Document(self.answer, [table, notes, explained], "good" if self else "bad")


def difference(a: Tree, b: Tree, *, atol: float = 0.0, rtol: float = 0.0, equal: Comparator | None = None) -> TreeDifference:
    """Measure how far ``a`` is from ``b``: two tensors or arrays, or tuples, lists and dicts of them, each of either framework.

    Args:
        a, b: what is compared; tensors of one name or place belong together. Numbers, text and None beside them count, too.
        atol, rtol: no element counts as different that differs by no more than ``atol`` plus ``rtol`` of b's largest element.
        equal: a comparator of your own: ``equal(a, b, name)`` gets the values of each pair that differs as arrays, and answers
            True (they count as equal), False (they do not), None (as without it), or a difference of its own.

    Returns:
        A :class:`TreeDifference`, true if nothing differs: ``assert padiff_shim.difference(a, b)``.

    Raises:
        ArgumentError: ``a`` or ``b`` alone holds a tensor or a number, or ``equal`` answers something else.

    >>> import numpy as np, padiff_shim
    >>> apart = padiff_shim.difference(np.float32([1.0, 2.0]), np.float32([1.0, 2.0 + 2**-22]))
    >>> bool(apart), apart.max_abs, apart.ulp, apart.equal_share, apart.first
    (False, 2.384185791015625e-07, 1.0, 0.5, (1,))
    """
    held = dict(_leaves(a)), dict(_leaves(b))
    holding = [any(map(_measured, each.values())) for each in held]
    for side, tree, holds in (("a", a, holding[0]), ("b", b, holding[1])):
        if any(holding) and not holds:
            raise ArgumentError("difference(a, b): there is no tensor in {side}: {got}", side=side, got=described(tree))
    made = TreeDifference()
    made.unpaired = [(name, side) for side, own, other in (("a", *held), ("b", *held[::-1])) for name in own if name not in other]
    for name in held[0]:
        if name not in held[1]:
            continue
        pair = held[0][name], held[1][name]
        if not any(is_tensor(value) or isinstance(value, np.ndarray) for value in pair):
            made.plain.append(name)
        if all(map(_measured, pair)):
            (array, dtype), (other, other_dtype) = map(elements, pair)
            apart = distance(array, other, (dtype, other_dtype), name=name, whole=True)
            made.tensors.append(apart)
            if not apart.identical:
                accepted = accepts(equal, numbers(array, dtype), numbers(other, other_dtype), name)
                if not (accepted if accepted is not None else apart.within(atol, rtol)):
                    made.differing.append(apart)
        elif all(not _measured(value) and not isinstance(value, PLAIN) for value in pair):
            made.unmeasured.append(name)
        elif any(map(_measured, pair)) or pair[0] != pair[1]:
            made.unlike.append((name, described(pair[0]), described(pair[1])))
    made.plain = [name for name in made.plain if name not in made.unmeasured]
    return made


def accepts(equal: Comparator | None, a: Array, b: Array, name: str) -> bool | None:
    """What a comparator of the user's own answers; None without one.

    Raises:
        ArgumentError: neither True, False nor None.
    """
    answer = None if equal is None else equal(a, b, name)
    answer = bool(answer) if isinstance(answer, TreeDifference) else answer
    if answer is not None and not isinstance(answer, (bool, np.bool_)):
        raise ArgumentError("equal= answers True, False or None, got {answer}", answer=described(answer))
    return None if answer is None else bool(answer)


def _leaves(tree: Tree) -> Iterator[tuple[str, Any]]:
    """(name, value) of all that a tree holds; a list of numbers alone is an array, and a sparse tensor has parts with names."""
    held = values(tree)
    if held and isinstance(tree, (list, tuple)) and all(_measured(value) and isinstance(value, PLAIN) for _, value in held):
        with contextlib.suppress(ValueError):  # lists of several lengths
            held = [("", np.asarray(tree))]
    for path, value in held:
        for name, part in parts(value):
            yield ".".join(filter(None, (path, name))), part


def _measured(value: Any) -> bool:
    """Whether a value is a tensor, an array of numbers, or a number."""
    if is_tensor(value):
        return True
    return isinstance(value, (np.ndarray, np.generic, *PLAIN)) and np.asarray(value).dtype.kind in "biufcV"


def _place(name: str) -> str:
    return shown(name) or tr("(the tensor)")


def in_words(apart: Distance) -> str:
    """A distance in a sentence."""
    if apart.how == "shape":
        return tr("shapes {a} and {b}", a=list(apart.shapes[0]), b=list(apart.shapes[1]))
    if not apart.different:
        return tr("equal values in other dtypes, {a} and {b}", a=apart.dtypes[0], b=apart.dtypes[1])
    if math.isinf(apart.max_abs) and any(apart.nan + apart.infinite):
        kinds = [("NaN", apart.nan)] if any(apart.nan) else []
        kinds += [("Inf", apart.infinite)] if any(apart.infinite) else []
        counts = [tr("{kind}: {a} in a, {b} in b", kind=kind, a=sides[0], b=sides[1]) for kind, sides in kinds]
        return tr(
            "{counts}; {different:,} of {elements:,} elements differ, first at {first}",
            counts=joined(", ", counts),
            different=apart.different,
            elements=apart.elements,
            first=list(apart.first or ()),
        )
    if apart.max_abs == 0:
        return tr("equal but for the sign of a zero in {share:.1%} of the elements", share=apart.share)
    return tr(
        "max {largest:.3g}{ulps}, {different:,} of {elements:,} elements, first at {first}",
        largest=apart.max_abs,
        ulps="" if apart.ulp is None else tr(", {ulps} ULP", ulps=ulp_text(apart.ulp)),
        different=apart.different,
        elements=apart.elements,
        first=list(apart.first or ()),
    )


def figures_of(apart: Distance) -> dict[str, float]:
    """The numbers of a distance, by name."""
    figures = {name: getattr(apart, name) for name in ("max_abs", "mean_abs", "relative", "max_rel", "share")}
    return figures if apart.ulp is None else {**figures, "ulp": apart.ulp}


def ulp_text(ulp: float) -> str:
    """Units in the last place, with as many digits as say something."""
    return capped(ulp, f"{ulp:,.0f}" if ulp >= 10 else f"{ulp:.2g}")


def _row(apart: Distance) -> doc.Row:
    shapes, dtypes = ([str(side[0])] if side[0] == side[1] else list(map(str, side)) for side in (apart.shapes, apart.dtypes))
    name = _place(apart.name)
    if apart.how == "shape":
        return name, doc.Cell(shapes), doc.Cell(dtypes), tr("shape"), "", "", "", "", ""
    figures = [f"{value:.2g}" for value in (apart.max_abs, apart.mean_abs, apart.relative)]
    ulp, share = "" if apart.ulp is None else ulp_text(apart.ulp), f"{apart.equal_share:.1%}"
    return name, doc.Cell(shapes), doc.Cell(dtypes), *figures, ulp, share, "" if apart.first is None else str(list(apart.first))
