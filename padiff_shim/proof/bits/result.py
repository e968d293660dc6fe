"""What :meth:`padiff_shim.Proof.bits` answers, and the document that shows it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ...files import write
from ...present.annotations import Finding, Patch
from ...present.document import Cell, Column, Document, Findings, ListedFinding, Most, Notes, Part, Section, Table, Tone
from ...present.result import Presented
from ...text import capped, english, joined, many, shown, tr
from ..findings import ProgramPlace
from ..pages import both_places
from .formulation import LAYOUT
from .origins import OperandLayout

if TYPE_CHECKING:
    from ..proof import Proof

UPDATE = "update"
LONGEST = 400  # characters of a line that is shown
LAYERS = Most(40, 100, 1_000_000)


@dataclass(frozen=True)
class BitOrigin:
    """A line of the port that makes other bits of equal operands.

    Attributes:
        cause: one of the causes in ``formulation.py``.
        name: what is computed.
        why: one sentence.
        torch, paddle: both lines.
        layers: the port's layers that run the line, one per time; "" of an optimizer's line.
        differs: ``"forward"``, ``"gradient"`` or ``"both"``: which results differ; ``"update"``: what an optimizer's step makes.
        ulp: the largest difference, in units in the last place of the tensor's largest element.
        share: of the elements that differ, from 0 to 1.
        torch_operands, paddle_operands: what both calls are given.
        change: the spelling of the original in Paddle's words, tried; "" if none is known. ``reason``: then why.
        patch: the same in the port's own names; None where they do not say it.
        contribution: the share of the final difference that it explains; None if that was not measured.
        names: where there is no patch: what the names of the change stand for.
    """

    cause: str
    name: str
    why: str
    torch: ProgramPlace | None
    paddle: ProgramPlace | None
    layers: tuple[str, ...]
    differs: str
    ulp: float
    share: float
    torch_operands: tuple[OperandLayout, ...] = ()
    paddle_operands: tuple[OperandLayout, ...] = ()
    change: str = ""
    reason: str = ""
    patch: Patch | None = None
    contribution: float | None = None
    names: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        count = len(self.layers) if self.differs == UPDATE else len(set(self.layers))
        often = (
            "" if count < 2 else many(count, "time") if self.differs == UPDATE else tr("in {layers}", layers=many(count, "layer"))
        )
        text = tr(
            "{cause}: {name}{often}: {what} differ by {size} in {share:.1%} of elements",
            cause=tr(self.cause),
            name=self.name,
            often=joined("", [" (", often, ")"]) if often else "",
            what={
                "forward": tr("results"),
                "gradient": tr("gradients"),
                "both": tr("results and gradients"),
                UPDATE: tr("updates"),
            }[self.differs],
            size=tr("{size} ulp", size=capped(self.ulp, f"{self.ulp:.2g}")) if self.ulp else tr("signs of zeros"),
            share=self.share,
        )
        return str(text)


@dataclass(frozen=True)
class TravelRow:
    """The results of one layer: how far the difference has come.

    Attributes:
        layer: of the port. ``calls``: how many.
        largest, mean: in units in the last place of the tensor's largest element.
        share: of the elements that differ.
        origins: the numbers of the origins that lie in it, from 1.
    """

    layer: str
    calls: int
    largest: float
    mean: float
    share: float
    origins: tuple[int, ...] = ()


@dataclass(repr=False)
class Bitwise(Presented):
    """Where the bits of a port part from its original's, and what to write. True in a condition if no bit differs.

    Attributes:
        proof: whether the port is right at all.
        comparable: the mathematics of both is the same. Where it is not, nothing else is known.
        origins: the lines, in the order of the port's calls.
        travel: the layers, in the order in which they end.
        results, gradients, updates: how many tensors are identical, and how many were compared: as the port is. ``updates``: the
            weights behind an optimizer's steps from equal weights and gradients.
        results_changed, gradients_changed, updates_changed: the same with all changes.
        explained: the sum of the origins' contributions; None if that was not measured.
        notes: what else there is to say.
        seconds: how long it took.

    >>> import numpy, paddle, torch, padiff_shim
    >>> answer = padiff_shim.prove(paddle.nn.Linear(4, 3), torch.nn.Linear(4, 3), numpy.eye(4)).bits()
    >>> bool(answer), answer.headline
    (True, "identical bit for bit on Torch's kernels: 2 results and 2 gradients")
    """

    proof: Proof
    comparable: bool = True
    origins: list[BitOrigin] = field(default_factory=list)
    travel: list[TravelRow] = field(default_factory=list)
    results: tuple[int, int] = (0, 0)
    gradients: tuple[int, int] = (0, 0)
    results_changed: tuple[int, int] = (0, 0)
    gradients_changed: tuple[int, int] = (0, 0)
    updates: tuple[int, int] = (0, 0)
    updates_changed: tuple[int, int] = (0, 0)
    explained: float | None = None
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __bool__(self) -> bool:
        return self.identical

    @property
    def identical(self) -> bool:
        """Whether all results, gradients and updates are the original's, bit for bit."""
        return self.comparable and all(same == whole for same, whole in (self.results, self.gradients, self.updates))

    @property
    def mended(self) -> bool:
        """Whether they are with the changes."""
        changed = all(same == whole for same, whole in (self.results_changed, self.gradients_changed, self.updates_changed))
        return self.identical or (self.comparable and bool(self.origins) and changed)

    @property
    def patches(self) -> list[Patch]:
        """All changes as lines of files."""
        return list(dict.fromkeys(origin.patch for origin in self.origins if origin.patch is not None))

    @property
    def answer(self) -> str:
        """The answer in one line."""
        if not self.comparable:
            return tr("the port is not right, so its bits are not looked into: {proof}", proof=self.proof.answer)
        whole = [results for _, results in (self.results, self.gradients, self.updates)]
        if self.identical:
            return tr("identical bit for bit on Torch's kernels: {what}", what=_counted(whole))
        if not self.origins:
            same = [results for results, _ in (self.results, self.gradients, self.updates)]
            return tr("{what} are identical; no line was found that makes the others differ", what=_counted(whole, same))
        changes = sum(bool(origin.change) for origin in self.origins)
        origins = tr("{origins} of different bits", origins=many(len(self.origins), "origin"))
        if not changes:
            return tr("{origins}; no change that was tried makes them equal", origins=origins)
        these = tr("this change") if changes == 1 else tr("these {count} changes", count=changes)
        if not self.mended:
            same = [results for results, _ in (self.results_changed, self.gradients_changed, self.updates_changed)]
            return tr("{origins}; with {these} {what} are identical", origins=origins, these=these, what=_counted(whole, same))
        if whole == [1, 0, 0]:
            return tr("{origins}; with {these} the result is identical", origins=origins, these=these)
        return tr("{origins}; with {these} all {what} are identical", origins=origins, these=these, what=_counted(whole))

    def _shorter(self) -> Iterator[str]:
        if not self.comparable:
            yield from (tr("the port is not right, correct it first: {text}", text=text) for text in self.proof.brief())
            return
        origins = tr("{origins} of different bits", origins=many(len(self.origins), "origin"))
        changes = many(sum(bool(origin.change) for origin in self.origins), "change")
        if self.mended:
            yield tr("{origins}; with {changes} all bits are identical", origins=origins, changes=changes)
        yield tr("{origins}; with {changes} some bits still differ", origins=origins, changes=changes)

    def apply(self) -> list[Path]:
        """Write the patches into their files, and say which they are. Of patches of the same lines the first is written alone.

        What a file was before is kept beside it: ``port.py.orig``, or ``port.py.orig2`` where that is there.

        Raises:
            ValueError: a file was changed since.
            FileError: one cannot be written.
        """
        before = {patch.file: Path(patch.file).read_bytes().decode("utf-8") for patch in self.patches}
        changed = patched(self.patches, before)
        for file, source in before.items():
            names = itertools.chain([f"{file}.orig"], (f"{file}.orig{number}" for number in itertools.count(2)))
            write(next(path for path in map(Path, names) if not path.exists()), source)
        return [write(Path(file), source) for file, source in changed.items()]

    @property
    def findings(self) -> list[Finding]:
        """The origins, each at the port's line."""
        return [_annotated(origin) for origin in self.origins]

    @property
    def environment(self) -> dict[str, str]:  # type: ignore[override]
        """Versions of both frameworks, and the device, of its proof."""
        return self.proof.environment

    def content(self) -> Document:
        """All of it."""
        layers = [_layers(self)] if self.travel and not self.identical else []
        blocks = [
            Findings([_finding(origin) for origin in self.origins]),
            *layers,
            Notes(self.notes),
        ]
        tone: Tone = "good" if self.mended else "open" if self.comparable else "bad"
        return Document(self.answer, blocks, tone, verdict="" if self.identical else str(self.proof.verdict))


def patched(patches: Sequence[Patch], before: Mapping[str, str]) -> dict[str, str]:
    """Files with patches; of patches of the same lines the first alone.

    Raises:
        ValueError: the lines are others.
    """
    chosen: list[Patch] = []
    for patch in patches:
        if not any(patch.file == other.file and patch.line <= other.end_line and other.line <= patch.end_line for other in chosen):
            chosen.append(patch)
    changed = {file: source.replace("\r\n", "\n") for file, source in before.items()}
    for patch in sorted(chosen, key=lambda patch: -patch.line):
        changed[patch.file] = patch.apply(changed[patch.file])
    return {file: source.replace("\n", "\r\n") if "\r\n" in before[file] else source for file, source in changed.items()}


def _counted(numbers: Sequence[int], same: Sequence[int] = ()) -> str:
    """Numbers of results, gradients and updates in words; ``same``: how many of them."""
    words = [many(count, noun) for count, noun in zip(numbers, ("result", "gradient", "update"))]
    words = [tr("{count} of {all}", count=count, all=word) for count, word in zip(same, words)] or words
    words = [word for word, count in zip(words, numbers) if count or not any(numbers)]
    if len(words) == 1:
        return words[0]
    return tr("{first} and {last}", first=joined(", ", words[:-1]), last=words[-1])


def _annotated(origin: BitOrigin) -> Finding:
    places = [(place.file, place.line) for place in (origin.paddle, origin.torch) if place]
    text = tr("{finding}; {why}", finding=origin, why=origin.why)
    if origin.change:
        text = tr("{finding}. Write: {change}", finding=text, change=origin.patch.after.strip() if origin.patch else origin.change)
    rule, numbers = f"bits: {origin.cause}: {english(origin.name)}", {"ulp": origin.ulp, "share": origin.share}
    return Finding(rule, "warning", text, places, origin.patch, what=str(origin), write=origin.change, numbers=numbers)


def _finding(origin: BitOrigin) -> ListedFinding:
    return ListedFinding(str(origin), both_places(origin.paddle, origin.torch), list(_details(origin)))


def _details(origin: BitOrigin) -> Iterator[tuple[str, str]]:
    if origin.cause == LAYOUT:
        for side, operands in (("paddle", origin.paddle_operands), ("torch", origin.torch_operands)):
            yield from ((side, str(operand)) for operand in operands)
    yield tr("why"), origin.why
    if origin.contribution is not None:
        yield tr("share"), tr("{share:.1%} of the final difference", share=origin.contribution)
    if not origin.change:
        yield tr("change"), tr("none is known: {reason}", reason=origin.reason or tr("nothing was tried"))
    elif origin.patch is None:
        yield from ((tr("write"), _shortened(line)) for line in origin.change.splitlines())
        yield from ((tr("where"), tr("{name} is {what}", name=name, what=what)) for name, what in origin.names)
    else:
        before, after = origin.patch.before.splitlines(), origin.patch.after.splitlines()
        yield from ((tr("was"), line.strip()) for line in before if line not in after)
        yield from ((tr("write"), line.strip()) for line in after if line not in before)


def _shortened(line: str) -> str:
    """A line of a change without its middle, where it names very many values; :attr:`BitOrigin.change` has it whole."""
    return line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}"


def _layers(answer: Bitwise) -> Part:
    columns = (
        Column(tr("layer")),
        Column(tr("origins")),
        Column(tr("calls"), 2, right=True),
        Column(tr("largest, ulp"), right=True),
        Column(tr("mean, ulp"), 1, right=True),
        Column(tr("elements that differ"), 3, right=True),
    )
    travel = sorted(answer.travel, key=lambda row: not row.share)  # what differs comes first
    tones: list[Tone] = ["bad" if row.share else "good" for row in travel]
    rank = sorted(range(len(travel)), key=lambda place: (not travel[place].origins, place))
    title = tr("{same} of {all} identical", same=answer.results[0], all=many(answer.results[1], "result"))
    note = (
        "" if answer.explained is None else tr("The origins explain {share:.1%} of the final difference.", share=answer.explained)
    )
    table = Table(columns, [_cells(row) for row in travel], tones, LAYERS, rank=rank, cards=False, kind="even layers")
    return Section(title, [table], note)


def _cells(row: TravelRow) -> tuple[Cell | str, ...]:
    name = Cell([shown(row.layer) or tr("(the model)")], depth=row.layer.count("."))
    largest, mean = capped(row.largest, f"{row.largest:.3g}"), capped(row.mean, f"{row.mean:.2g}")
    far = (largest, mean, f"{row.share:.1%}") if row.share else (tr("identical"), "", "")
    return name, ", ".join(map(str, row.origins)), str(row.calls), *far
