"""A proof as a document: the verdict, the guilty lines of both programs, the stages, then training, carriers and layers."""

from __future__ import annotations

import ast
import difflib
import linecache
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..dispatch.call_site import at_line
from ..present import document as doc
from ..present.annotations import Finding
from ..text import SENTENCE, listed, many, shown, tr
from .findings import LayerRow, Mistake, ProgramPlace, StepRow

if TYPE_CHECKING:
    from .proof import Proof

LAYERS, STEPS = doc.Most(12, 100, 1_000_000), doc.Most(12, 1_000_000, 1_000_000)  # rows
AROUND = 2  # lines of source shown before and behind a guilty one
LINES = 12  # further lines of one mistake
TONES: dict[bool | None, doc.Tone] = {True: "good", False: "bad", None: "open"}
# A number with its sign, a name with its dots, white space, or a character.
_WORD = re.compile(r"(?<![\w.)\]])-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|[^\W\d][\w.]*|\s+|.")
# Spellings of one thing in both frameworks: they are no difference between two lines.
_ALIKE = {"paddle": "torch", "pf": "f", "tf": "f", "pnn": "nn", "tnn": "nn", "axis": "dim", "epsilon": "eps", "keepdims": "keepdim"}
_ALIKE |= {"concat": "cat", "input": "x", "transpose": "permute"}


def proof_document(proof: Proof, following: Sequence[str] = ()) -> doc.Document:
    """All of a proof; ``following``: what to do next."""
    stages = doc.Items([doc.ListItem(stage.text, tr(stage.name), TONES[stage.right]) for stage in proof.stages], marks=True)
    return doc.Document(
        proof.headline,
        [
            doc.Findings([listed_finding(mistake, len(proof.mistakes)) for mistake in proof.mistakes]),
            stages,
            _training(proof.training),
            *([proof.carried.section()] if proof.carried is not None else ()),
            _layers(proof.layers),
            doc.Notes(proof.notes),
            next_steps(following),
        ],
        "good" if proof else "bad",
    )


def next_steps(following: Sequence[str]) -> doc.Items:
    """What to do next."""
    return doc.Items([doc.ListItem(text, tr("next")) for text in following])


def listed_finding(mistake: Mistake, mistakes: int) -> doc.ListedFinding:
    """A mistake with both places (none where neither is known, as of an optimizer that was named), and what else is known."""
    lines = [at_line(file, number) for file, number in mistake.also]
    details = [] if mistake.fix is None else [(mistake.fix.label, str(mistake.fix))]
    details += [(tr("also"), listed(lines, LINES))] if lines else []
    if mistakes > 1 and mistake.effect != 0.0:
        measured = tr("fixing this changes the outputs by up to {size:.3g}", size=mistake.effect or 0.0)
        details.append((tr("effect"), tr("not measured: no change of it was tried alone") if mistake.effect is None else measured))
    write = mistake.fix.text if mistake.fix else ""
    sides = both_places(mistake.paddle, mistake.torch, write, around=True) if mistake.paddle or mistake.torch else []
    return doc.ListedFinding(str(mistake), sides, details)


def annotated(mistake: Mistake, verdict: str) -> Finding:
    """A mistake at the port's lines; related: where to write the fix, and the original's line."""
    port, original, fix = mistake.paddle, mistake.torch, mistake.fix
    places = [*([(port.file, port.line)] if port else []), *mistake.also]
    places += [(other.file, other.line) for other in (fix, original) if other and other.file]
    text = str(mistake)
    if port:
        text = tr("{finding}; the port: {line}", finding=text, line=_where(port))
    if original:
        line = _where(original)
        text = tr("{finding}; the original: {line}: {call}", finding=text, line=line, call=shown(original.call))
    if fix:
        text = tr("{finding}; {label}: {fix}", finding=text, label=fix.label, fix=str(fix))
    write, numbers = fix.text if fix else "", {} if mistake.effect is None else {"effect": mistake.effect}
    patch = fix.patch if fix else None
    rule = f"{verdict}: {mistake.cause.value}"
    return Finding(rule, "error", text, places, patch, what=str(mistake), write=write, numbers=numbers)


def both_places(
    paddle: ProgramPlace | None, torch: ProgramPlace | None, write: str = "", *, around: bool = False
) -> list[doc.Place]:
    """The lines and calls of both programs side by side, the argument marked that differs (that of ``write``, where several do),
    or the words that do; ``around``: with the lines before and behind."""
    places = (paddle, torch)
    lines, texts = ([shown(getattr(place, name), SENTENCE) if place else "" for place in places] for name in ("source", "call"))
    differing = differing_arguments(*texts)
    names = differing & {_key(write.partition("=")[0])} or differing
    sources = [_with_arguments(line, names) for line in lines] if names else _with_ops(lines, texts) or marked(*lines)
    calls = [_with_arguments(text, names) for text in texts] if names else marked_calls(*texts)
    titles = (("paddle", tr("port, Paddle")), ("torch", tr("original, Torch")))
    return [
        doc.Place(side, title, _where(place), source, call, _around(place) if around and place else ((), ()))
        for (side, title), place, source, call in zip(titles, places, sources, calls)
    ]


def _where(place: ProgramPlace | None) -> str:
    """File and line, as people name a file, and the layer."""
    if place is None:
        return tr("has no counterpart")
    line = at_line(place.file, place.line)
    return tr("{line}, layer {layer}", line=line, layer=shown(place.layer)) if place.layer else line


def _around(place: ProgramPlace) -> tuple[list[str], list[str]]:
    """The lines before and behind, while the file still holds the line."""
    lines = linecache.getlines(place.file)
    at = place.line - 1
    if not 0 <= at < len(lines) or lines[at].strip() != place.source:
        return [], []
    indent = len(lines[at]) - len(lines[at].lstrip())

    def shifted(block: list[str]) -> list[str]:
        return [line.rstrip()[min(indent, len(line) - len(line.lstrip())) :] for line in block if line.strip()]

    return shifted(lines[max(at - AROUND, 0) : at]), shifted(lines[at + 1 : at + 1 + AROUND])


def marked(line: str, other: str) -> tuple[list[doc.Word], list[doc.Word]]:
    """The words of both lines; marked are those that the other has not. Nothing is marked where there is no other."""
    words = [_WORD.findall(text) for text in (line, other)]
    if not all(words):
        return _words(words[0], set()), _words(words[1], set())
    keys = [[_key(word) for word in side] for side in words]
    changed: tuple[set[int], set[int]] = (set(), set())
    for kind, first, last, begin, end in difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        if kind != "equal":
            changed[0].update(range(first, last))
            changed[1].update(range(begin, end))
    return _words(words[0], changed[0]), _words(words[1], changed[1])


def marked_calls(call: str, other: str) -> tuple[list[doc.Word], list[doc.Word]]:
    """The same of two calls; of two ops the names alone."""
    names = [text.partition("(")[0] for text in (call, other)]
    if not all(names) or names[0] == names[1]:
        return marked(call, other)
    first, second = (_words([name, text[len(name) :]], {0}) for name, text in zip(names, (call, other)))
    return first, second


def differing_arguments(call: str, other: str) -> set[str]:
    """The arguments for which two calls of one op pass other values."""
    if call.partition("(")[0] != other.partition("(")[0]:
        return set()
    values, others = ({_key(str(word.arg)): ast.unparse(word.value) for word in _keywords(text)} for text in (call, other))
    return {name for name in values.keys() & others.keys() if values[name] != others[name]}


def _with_ops(lines: Sequence[str], calls: Sequence[str]) -> list[list[doc.Word]]:
    """Both lines with the ops marked that they call, where those are others, and their lines name them."""
    names = [{_key(name) for name in re.findall(r"\w+", call.partition("(")[0])} for call in calls]
    words = [_WORD.findall(line) for line in lines]
    chosen = [
        {at for at, word in enumerate(line) if _key(word) in ops - other} for line, ops, other in zip(words, names, reversed(names))
    ]
    return [_words(line, places) for line, places in zip(words, chosen)] if any(chosen) else []


def _keywords(line: str) -> list[ast.keyword]:
    """The named arguments of all calls of a line, as far as it is read alone."""
    try:
        return [node for node in ast.walk(ast.parse(line)) if isinstance(node, ast.keyword) and node.arg]
    except SyntaxError:
        return []


def _with_arguments(line: str, names: set[str]) -> list[doc.Word]:
    """A line in which the arguments of these names are marked as a whole."""
    words, end, text = [], 0, line.encode()  # columns are counted in bytes
    for word in sorted(_keywords(line), key=lambda word: word.col_offset):
        if _key(str(word.arg)) in names and word.col_offset >= end:
            words.append(doc.Word(text[end : word.col_offset].decode()))
            end = word.end_col_offset or len(text)
            words.append(doc.Word(text[word.col_offset : end].decode(), True))
    return [*words, doc.Word(text[end:].decode())]


def _key(word: str) -> str:
    plain = word.casefold().rpartition(".")[2] or word
    return _ALIKE.get(plain, " " if plain.isspace() else plain)


def _words(words: Sequence[str], chosen: set[int]) -> list[doc.Word]:
    """Neighbours under one mark; white space, a bracket or a comma alone is never marked."""
    parts: list[doc.Word] = []
    for place, word in enumerate(words):
        alone = word.isspace() or word in "()[]{},:"
        mark = {place - 1, place + 1} <= chosen if alone else place in chosen
        if parts and parts[-1].marked == mark:
            parts[-1] = doc.Word(parts[-1].text + word, mark)
        elif word:
            parts.append(doc.Word(word, mark))
    return parts


def _layers(rows: Sequence[LayerRow]) -> doc.Part:
    """Those that differ first, where not all are shown; else those whose native difference is largest."""
    heads = (tr("calls"), tr("native"), tr("on Torch's kernels"))
    alike = all(row.paddle == row.torch for row in rows)  # then one column says both
    names = [doc.Column(tr("layer") if alike else tr("port, Paddle")), doc.Column(tr("original, Torch"), 1)]
    columns = [*names, *doc.figures(*heads, leave=(3, 2, 0))]
    cells = [(_name(row.paddle), "" if alike else _name(row.torch), str(row.calls), *_figures(row)) for row in rows]
    tones: list[doc.Tone] = ["good" if row.identical else "bad" for row in rows]
    rank = sorted(
        range(len(rows)),
        key=lambda place: (rows[place].identical, -(rows[place].native or 0.0) if rows[place].identical else place),
    )
    same = sum(row.identical for row in rows)
    title = tr("{same} of {layers} identical on the same kernels", same=same, layers=many(len(rows), "layer"))
    note = tr(
        "Largest absolute difference of a layer's result from the original's: of the port on Paddle's own kernels, and on Torch's."
    )
    table = doc.Table(columns, cells, tones, LAYERS, rank=rank, cards=False, kind="even layers")
    return doc.Section(title, [table], note, folded=True)


def _name(layer: str) -> doc.Cell:
    return doc.Cell([shown(layer) or tr("(the model)")], depth=layer.count("."))


def _figures(row: LayerRow | StepRow) -> tuple[doc.Cell, doc.Cell]:
    """Its differences, natively and on Torch's kernels."""
    shim = doc.Cell([tr("identical")], "good", 0.0) if row.identical else doc.Cell([f"{row.shim:.3g}"], "bad", far(row.shim))
    return doc.Cell([tr("fails") if row.native is None else f"{row.native:.3g}"], "warning", far(row.native)), shim


def far(difference: float | None) -> float:
    """How strong the colour of a difference is: 0 for none, then by its magnitude, from 1e-9 to 1."""
    if not difference:
        return 0.0
    if not math.isfinite(difference):
        return 1.0
    return 0.1 + 0.9 * min(max((math.log10(difference) + 9) / 9, 0.0), 1.0)


def _training(rows: Sequence[StepRow]) -> doc.Part:
    columns = doc.figures(tr("step"), tr("loss"), tr("native"), tr("on Torch's kernels"), leave=(0, 1, 0, 0))
    cells = [(str(row.step), "" if row.loss is None else f"{row.loss:.6g}", *_figures(row)) for row in rows]
    note = tr("Largest difference of losses, gradients, weights and statistics at each step.")
    last = len(rows) - 1
    rank = sorted(range(len(rows)), key=lambda place: (place != last, place))
    return doc.Section(tr("Training"), [doc.Table(columns, cells, most=STEPS, rank=rank, cards=False, kind="training")], note)
