"""The rules of diagnosis: which differences of calls are one mistake, and which are no mistake of their own.

The search (:mod:`.locate`) sees one difference of calls after the other. :data:`RULES` names every rule that replaces, fuses or
drops some of them, in the order of application, and :func:`diagnosed` is the one place that applies them. :func:`mistakes` then
makes one mistake of all differences of a line, and of a setting.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..dispatch.call_site import CallSite
from ..present.annotations import Patch
from ..text import fields_of, joined, tr, with_fields
from .arguments import ApiCall, Constant, Name, OtherArguments, as_read, explained_by_arguments, shown, shown_item, write
from .arrangements import other_steps
from .causes import (
    FORWARD,
    WRITTEN_OTHERWISE,
    CallDifference,
    advice_on_definition,
    has_name,
    role,
    unlike_attributes,
)
from .expressions import (
    Rewrite,
    ValueSource,
    argument_source,
    both,
    registered,
    reordered_source,
    with_arguments,
)
from .findings import Cause, Fix, Mistake, ProgramPlace, merged
from .fixes import Remade, is_written, made_as, of_one_line
from .match import Matching, depends_on, kind, roots, same_numbers, wrong_calls
from .rewrites import (
    MENDS,
    UNTRIED,
    Evidence,
    LayersOfBoth,
    is_one,
    layer_of,
    rewrites_of,
    tensor_arguments,
    transposed,
)
from .statements import Otherwise, otherwise
from .trace import Key, Model, Trace, TraceCall, TraceOperand, Value

Differences = list[CallDifference]


def diagnosed(differences: Sequence[CallDifference], evidence: Evidence) -> Differences:
    """The differences that remain when all rules were applied that the evidence is there for."""
    remaining, searching = list(differences), evidence.matching is not None
    for rule in RULES_OF_A_SEARCH if searching else RULES:
        if not (searching and remaining[-1].attribute):
            remaining = rule(remaining, evidence)
    return remaining if remaining or evidence.tied else [*differences]  # what is wrong is never dropped as a whole


# ---- While the search goes on: the cause behind a difference.


def turned_masks(differences: Differences, evidence: Evidence) -> Differences:
    """Replaces calls that are written differently by their cause: a mask whose True keeps in the port, and drops in the original.

    True keeps in Paddle's attention, and drops in Torch's.
    """
    if evidence.matching is None or differences[-1].cause not in WRITTEN_OTHERWISE:
        return differences
    turned = _turned_mask(evidence.matching, evidence.original, evidence.port)
    if turned is None or turned.mend is None or turned.mend[0].key in evidence.mended:
        return differences
    return [*differences[:-1], turned]


def _turned_mask(matching: Matching, original: Trace, port: Trace) -> CallDifference | None:
    """The first softmax of the port that keeps exactly where a mask of either program is True, and the original drops there."""
    for original_node, port_node in zip(_softmaxes(original), _softmaxes(port)):
        expected, actual = original_node.result, port_node.result
        if matching.same(expected, actual) or expected.tensor.numel() != actual.tensor.numel():
            continue
        wanted = expected.tensor.reshape(actual.tensor.shape)
        values = (value for trace in (port, original) for value in trace.values())
        masks = (value for value in values if value.tensor.dtype is torch.bool and value.tensor.dim() > 0)
        mask = next((value for value in masks if _is_turned(value, wanted == 0, actual.tensor == 0)), None)
        if mask is None:
            return None
        name = mask.label or tr("a mask of {shape}", shape=list(mask.tensor.shape))
        text = tr(
            "the mask is inverted: True of {name} keeps in the port and drops in the original: pass its paddle.logical_not",
            name=name,
        )
        return CallDifference(Cause.CONSTANT, text, original_node, port_node, (port_node, [wanted]), part=FORWARD)
    return None


def _softmaxes(trace: Trace) -> list[TraceCall]:
    return [node for node in trace.nodes if node.name == "_softmax" and not node.backward]


def _is_turned(mask: Value, original_drops: torch.Tensor, port_drops: torch.Tensor) -> bool:
    """Whether the original drops where a mask is true, and the port where it is false."""
    try:
        shown = mask.tensor.expand(port_drops.shape)
    except RuntimeError:
        return False
    mixed = shown.any(-1) & ~shown.all(-1)  # softmax weighs a row evenly in which nothing is kept
    return bool(mixed.any()) and bool((original_drops == shown)[mixed].all()) and bool((port_drops == ~shown)[mixed].all())


def as_the_original_has_it(differences: Differences, evidence: Evidence) -> Differences:
    """Replaces a difference that nothing mends by what the port's statements have otherwise than the original's, if that does."""
    difference = differences[-1]
    change, traces = difference.change(), (evidence.original, evidence.port)
    ends = [next((node for node in reversed(trace.nodes) if not node.backward), None) for trace in traces]
    original, port = difference.original or ends[0], difference.port or ends[1]
    mended = change is not None and evidence.helps(change) == MENDS
    written = is_written(change, evidence.layers[1]) if change is not None and mended else False
    if evidence.matching is None or original is None or port is None or difference.cause is Cause.GRAPH_ENDS:
        return differences
    if written or (change is None and _is_within(port, evidence.written)):
        return differences
    settled = replace(difference, port=port, write="", arguments=(), spelled="", attribute="", rewrite=None, settles=True)
    known = difference.text if difference.cause is Cause.ATTRIBUTE and not difference.write else ""
    for made, words in made_as(*evidence.layers, original.layer, port.layer) if not (mended or evidence.mended) else ():
        if evidence.helps(made, True) == MENDS:
            known = words
            text = tr("{text} (write {write})", text=words, write=made.arguments)
            changed = replace(settled, cause=Cause.ATTRIBUTE, text=text, port=replace(port, layer=made.layer))
            held = f"{made.layer}.{made.arguments.partition('=')[0]}".removeprefix(".") if made.layers else ""
            difference = replace(changed, write=made.arguments, rewrite=made if held else None, attribute=held)
            if is_written(made, evidence.layers[1]):
                return [*differences[:-1], difference]
            break
    within = difference.cause is Cause.ATTRIBUTE and port.api is not None and port.api.layers > 0
    best, helps = _other_statement(difference, original, port, evidence, makers=mended or difference.settles or within)
    if best is None:
        return [*differences[:-1], difference]
    text = tr("{own}, where the original has {wanted}", own=best.own, wanted=best.wanted)
    text = text if best.own else tr("the original has {wanted} here, the port does not", wanted=best.wanted)
    text = tr("{first}: {second}", first=known, second=text) if known else text
    sites = original.site._replace(line=best.original), port.site._replace(line=best.line)
    cause = difference.cause if difference.cause in (Cause.PLACE, Cause.SWAPPED) else best.cause
    settled = replace(settled, cause=cause, text=text, sites=sites, rewrite=best.rewrite, settles=helps == MENDS)
    return [*differences[:-1], settled]


def _other_statement(
    difference: CallDifference, original: TraceCall, port: TraceCall, evidence: Evidence, *, makers: bool
) -> tuple[Otherwise | None, int]:
    """What the port's statements have otherwise that mends a difference, and how far, as :attr:`Evidence.helps` answers.

    An operation that stands in another place is mended beside other mistakes, too. ``makers``: of what makes layers alone.
    """
    sites = [operand.value.node.site for operand in port.operands if operand.value.node is not None]
    best, most, tried = None, int(difference.change() is not None), 0
    for other in otherwise(port.site, original.site, sites, makers=makers):
        patch = other.rewrite.patch()
        moves = Cause.PLACE in (difference.cause, other.cause)
        here = patch is not None and moves and _is_within(port, [patch])
        if here or not evidence.mended:
            helps = evidence.helps(patch, not here)
            best, most = (other, helps) if most < helps != UNTRIED and (here or helps == MENDS) else (best, most)
            tried += helps != UNTRIED
        if most == MENDS or tried == _MOST_TRIED:
            break
    return best, most


def names_before_operands(differences: Differences, evidence: Evidence) -> Differences:
    """The same first of operands that are swapped, where a line in front gives them each other's names."""
    difference = differences[-1]
    changed = as_the_original_has_it(differences, evidence) if difference.cause is Cause.SWAPPED else differences
    line = changed[-1].sites[1] if changed[-1].sites else None
    in_front = line is not None and difference.port is not None and line.line < difference.port.site.line
    return changed if in_front else differences


def exchanged_arguments(differences: Differences, evidence: Evidence) -> Differences:
    """Replaces a difference by the arguments with which a call of Paddle's API, there or in front, gives what the original has."""
    difference = differences[-1]
    original, matching = difference.original, evidence.matching
    settled = difference.write or difference.rewrite or difference.backward or difference.cause is Cause.WEIGHT
    if matching is None or evidence.answering is None or settled:
        return differences
    beside = [call for call in evidence.original.nodes if original and not call.backward and call.site == original.site]
    values = evidence.original.values()
    mended = [tensor for tensor in difference.mend[1] if tensor is not None] if difference.mend else []
    if original is not None and difference.cause in (Cause.EXTRA, Cause.ORDER, Cause.OPERAND):  # what its reader reads, or should
        every = difference.cause is Cause.ORDER
        read = [operand.tensor for operand in original.operands if every or operand.value.node is not None]
        if difference.cause is Cause.OPERAND:  # indices alone: the call in front that gives them has the argument
            read = [tensor for tensor in read if not tensor.is_floating_point()]
        mended += read
    causes = {"attributes": difference.cause is Cause.ATTRIBUTE, "exchanged": difference.cause is not Cause.CONSTANT}
    for api, nodes in _calls_of_api(difference, evidence):
        if (api.symbol or "alpha" in api.arguments) and difference.cause in _OF_CALLS:
            continue
        own = [value for node in nodes for value in node.results]
        within = [value for value in own if value.readers and all(reader in nodes for reader in value.readers)]
        lacking = [value for value in values if value not in matching.of_first]
        fits = functools.partial(_is_wanted, difference, matching, own, mended, lacking)
        with evidence.answering():
            answer = explained_by_arguments(api, nodes, original, beside, fits, **causes)
            if answer is None and (hidden := [value for value in values if matching.of_first.get(value) in within]):
                fits = functools.partial(_is_wanted, difference, matching, own, mended, [*lacking, *hidden])
                answer = explained_by_arguments(api, nodes, original, beside, fits, **causes)
        if answer is not None and evidence.training and difference.cause in _OF_CALLS and answer.changes == {"training": False}:
            return differences  # a dropout too many, or elsewhere
        untold = any(  # the line does not say what it hands over where a tensor is to be another
            isinstance(value, Constant) and api.arguments[name] is not None and argument_source(api, name) is None
            for name, value in (answer.changes.items() if answer is not None else ())
        )
        other = None if answer is None or untold else _of_arguments(difference, answer, nodes)
        if other is not None and evidence.helps(other.change()):
            return [*differences[:-1], other]
    return differences


def _is_wanted(
    difference: CallDifference,
    matching: Matching,
    own: Sequence[Value],
    mended: Sequence[torch.Tensor],
    lacking: Sequence[Value],
    result: torch.Tensor,
) -> bool:
    """Whether a call's result is a value of the original that the port lacks; other than its own in another order."""
    made, original, port = Value(result), difference.original, difference.port
    if difference.mend is None and original is not None and port is not None and matching.same(original.result, port.result):
        for value, own_value in zip(original.results, port.results):
            shape_alone = matching.in_order(value, value.tensor, own_value.tensor)
            alike = matching.same(value, made) and matching.in_order(value, value.tensor, result)
            if alike and (not shape_alone or result.shape == value.tensor.shape):
                return True
        return False
    several = made.ends[0] != made.ends[1] or not made.ends[0].is_integer()  # many calls give a whole number
    partners = [value for value in lacking if several and matching.same(value, made)]
    if any(matching.in_order(value, value.tensor, result) for value in partners):
        return True
    moved = any(same_numbers(value.sorted, made.sorted) for value in own)
    return (bool(partners) and not moved) or any(same_numbers(tensor, result) for tensor in mended)


def attention_scales(differences: Differences, evidence: Evidence) -> Differences:
    """Replaces a difference at the original's attention by its scale, where the port's scores are the same but for one factor.

    Fused attention and ``baddbmm(beta=0, alpha=scale)`` have no call for the scale.
    """
    difference = differences[-1]
    original, matching = difference.original, evidence.matching
    if matching is None or difference.backward:
        return differences
    if difference.cause is Cause.ATTRIBUTE and original is not None and original.name != "mul":  # baddbmm says its alpha
        return differences
    parts = [] if original is None else [original]
    if original is None:  # attention that nothing reads
        parts = [
            call for call in evidence.original.nodes if call.name in ("baddbmm", "mul") and call.result not in matching.of_first
        ]
    scored = ((call, *_scaled_scores(call, evidence.original)) for call in parts)
    original, expected, wanted = next((each for each in scored if each[1] is not None), (None, None, 0.0))
    if original is None or expected is None:
        return differences
    for node in _softmaxes(evidence.port):
        own = node.operands[0].tensor.detach()
        if own.numel() != expected.numel() or node.key in evidence.mended:
            continue
        turned, factor = False, _factor(expected, own.reshape(expected.shape))
        if factor is None:
            turned, factor = True, _factor(expected, own.mT.reshape(expected.shape))
        if factor is None or (abs(factor - 1.0) < 1e-6 and not turned):
            continue
        scores, calls = (own.mT if turned else own) / factor, [value.node for value in _behind(node) if value.node is not None]
        mend = (node, [torch.softmax(scores, node.attributes["dim"])])
        if turned and (product := next((call for call in calls if kind(call) == "product"), None)) is not None:
            turned_product = replace(difference, cause=Cause.SWAPPED, original=original, port=product, mend=mend)
            return [*differences[:-1], replace(turned_product, rewrite=transposed(product.api))]
        text = tr(
            "the scores are multiplied by {own:.6g}, in the original by {wanted:.6g}, "
            "the scale= of its attention (by default 1 / sqrt(the size of a head))",
            own=wanted * factor,
            wanted=wanted,
        )
        numbers = (call for call in calls if call.api is not None and "other" in call.attributes)
        scaling = next((call for call in numbers if call.api.symbol in ("*", "/")), None)
        if scaling is not None and scaling.api is not None:
            number = scaling.attributes["other"]
            number = as_read(number / factor if scaling.api.symbol == "*" else number * factor)
            words, rewrite = write(scaling.api, {"y": number}), with_arguments(scaling.api, {"y": shown(number)})
        else:
            number = shown(as_read(1 / factor))
            rewrite = _multiplied(calls, number)
            words = tr("multiply the scores by {factor}", factor=number) if rewrite is None else ""
        return [
            *differences[:-1],
            CallDifference(
                *(Cause.ATTRIBUTE, text, original, scaling or node, mend),
                part=FORWARD,
                write=words,
                arguments=("scale",),
                rewrite=rewrite,
            ),
        ]
    return differences


def _multiplied(calls: Sequence[TraceCall], number: str) -> Rewrite | None:
    """The line that makes the scores with a number as a factor; ``calls``: behind the softmax, the nearest first."""
    product = next((call.api for call in calls if kind(call) == "product" and call.api is not None), None)
    if product is None or product.expression is None:
        return None
    return ValueSource(product.file, product.expression, "").replaced_by(f"{ast.unparse(product.expression)} * {number}")


def _behind(node: TraceCall) -> Iterator[Value]:
    """The results of calls behind one, the nearest first."""
    waiting, seen = [operand.value for operand in node.operands], set[Value]()
    while waiting:
        value = waiting.pop(0)
        if value.node is not None and value not in seen:
            yield value
            seen.add(value)
            waiting += [operand.value for operand in value.node.operands]


def _scaled_scores(call: TraceCall, trace: Trace) -> tuple[torch.Tensor | None, float]:
    """The scores of the original's attention of which a call is a part, and their scale; None where it is none."""
    tensors, attributes = [operand.tensor.detach() for operand in call.operands], call.attributes
    if call.name == "baddbmm" and attributes.get("beta") == 0 and len(tensors) > 1:
        return tensors[-2] @ tensors[-1] * attributes["alpha"], attributes["alpha"]
    beside = [node for node in trace.nodes if (node.site, node.layer) == (call.site, call.layer)]
    factors = [node for node in beside if node.name == call.name == "mul" and node.attributes == attributes]
    softmax = next((node for node in beside if node.name.endswith("softmax") and not node.backward), None)
    parted = any((key.site, key.layer) == (call.site, call.layer) for key in trace.parted)
    if softmax is None or "other" not in attributes or len(factors) != (1 if parted else 2):
        return None, 0.0
    scores = softmax.operands[0].tensor.detach()
    return scores, attributes["other"] ** len(factors)  # of three axes both operands of the product get the scale's root


def _factor(expected: torch.Tensor, own: torch.Tensor) -> float | None:
    """The one factor between two tensors, but for places that are masked; None where it is none."""
    seen = (own.abs() < _MASKED) & (expected.abs() > torch.finfo(expected.dtype).eps ** 0.5)
    ratios = (own / expected)[seen]
    if 2 * len(ratios) < own.numel() // 2 or not len(ratios):
        return None
    return float(ratios.mean()) if bool((ratios - ratios.mean()).abs().max() <= 1e-6 * ratios.mean().abs()) else None


_OF_CALLS = (Cause.MISSING, Cause.EXTRA, Cause.PLACE)  # no operator with another number stands for a call
_MASKED = 1e3  # a score that no softmax sees


def rearrangements(differences: Differences, evidence: Evidence) -> Differences:
    """Says which steps of the port lay a value out otherwise, and how its lines would be, which have run so."""
    difference = differences[-1]
    matching, original, port = evidence.matching, difference.original, difference.port
    if matching is None or difference.arranged is None or difference.write or difference.rewrite or not (original and port):
        return differences
    own = difference.arranged[1]
    reader = port.api if own.name else None
    others = other_steps(difference.arranged, reader, matching.in_order)
    changed = [(other, rewrite) for other in others for rewrite in other.rewrites(reader)]
    for other, rewrite in changed[:_MOST_TRIED]:
        patch = rewrite.patch()
        if patch is not None and evidence.helps(patch):
            here, there = (", ".join(map(str, steps)) for steps in (other.replaced, other.steps))
            whose = role(own) if own.name else tr("the model's result")
            if here and other.new:
                text = tr("{role} is arranged by {here}, in the original as by {there}", role=whose, here=here, there=there)
            elif here and there:
                text = tr("{role} is arranged by {here}, in the original by {there}", role=whose, here=here, there=there)
            elif here:
                text = tr("{role} is arranged by {here}, in the original it is not", role=whose, here=here)
            else:
                text = tr("{role} is not arranged by {there}, as in the original", role=whose, there=there)
            origins = [step.site for step in other.steps if not other.new]
            origins += [difference.sites[0] if difference.sites else original.site]
            sites = origins[0], port.site._replace(file=patch.file, line=patch.line)
            return [*differences[:-1], replace(difference, text=text, sites=sites, rewrite=rewrite)]
    return differences


def rearranged_operands(differences: Differences, evidence: Evidence) -> Differences:
    """The same of an operand; a result may be laid out otherwise because of an argument (``keepdim``)."""
    arranged = differences[-1].arranged
    return rearrangements(differences, evidence) if arranged is not None and arranged[1].name else differences


_MOST_TRIED = 8  # changes of lines, each a run of the port
_ROOTS = 3  # calls with which a wrong value begins


def other_expressions(differences: Differences, evidence: Evidence) -> Differences:
    """Says how the port's line would have it, in its own expressions."""
    difference = differences[-1]
    if evidence.matching is None or evidence.answering is None or difference.write or difference.rewrite or difference.backward:
        return differences
    if difference.cause in (Cause.OTHER_OP, Cause.MISSING) and (layer := layer_of(difference, evidence)):
        return [*differences[:-1], replace(difference, write=layer)]
    rewrite, most = None, 0
    for other in rewrites_of(difference, evidence):
        if most < 2 and (helps := evidence.helps(other.patch())) > most:
            rewrite, most = other, helps
    patch, call = rewrite.patch() if rewrite else None, difference.port.api if difference.port else None
    if difference.cause is Cause.SWAPPED and patch is not None and call is not None:
        words = {"call": call.symbol or call.name, "write": _in_one_line(patch.after)}
        difference = replace(difference, text=tr("the operands of {call} are exchanged (write {write})", **words))
    return [*differences[:-1], replace(difference, rewrite=rewrite)]


def held_otherwise(differences: Differences, evidence: Evidence) -> Differences:
    """Says which buffer or attribute of a layer holds the other values: the line that makes them is wrong, no reader's."""
    difference = differences[-1]
    original, port, matching = difference.original, difference.port, evidence.matching
    unsaid = difference.cause in (Cause.CONSTANT, Cause.WEIGHT) and not (difference.write or difference.rewrite)
    if matching is None or original is None or port is None or not unsaid:
        return differences
    wrong = [own.value for own in port.operands if own.value.node is None and _is_wrong(own, original, matching)]
    for value in wrong:
        if has_name(value) and not value.label.startswith("input ") and value.label not in evidence.weights:
            text = with_fields(difference.text, role=value.label, where="")
            return [*differences[:-1], replace(difference, cause=Cause.BUFFER, text=text, attribute=value.label)]
    for value, _, node in tensor_arguments(port.api) if port.api is not None else ():
        attribute = ast.unparse(node).removeprefix("self.")
        same = [other for other in wrong if same_numbers(value.sorted, other.sorted)]
        if same and isinstance(node, ast.Attribute) and attribute.isidentifier():
            return [*differences[:-1], replace(difference, attribute=f"{port.layer}.{attribute}".removeprefix("."))]
    return differences


def _is_wrong(own: TraceOperand, original: TraceCall, matching: Matching) -> bool:
    """Whether the original has no such value, or reads it in another order; a value that it has elsewhere is another one."""
    partner = matching.of_second.get(own.value)
    read = [other.tensor for other in original.operands if other.value is partner]
    return partner is None or any(not matching.in_order(partner, tensor, own.tensor) for tensor in read)


def _calls_of_api(difference: CallDifference, evidence: Evidence) -> list[tuple[ApiCall, list[TraceCall]]]:
    """The port's call of Paddle's API in which a difference shows, and those that made its operands; each with its nodes."""
    port = difference.port
    if port is None:
        return []
    made = [port, *(operand.value.node for operand in port.operands if operand.value.node is not None)]
    if (matching := evidence.matching) is not None:  # what is wrong may begin further in front
        wrong = [operand.value for operand in port.operands if not matching.is_matched(operand.value)]
        made += roots(wrong_calls(wrong, matching.is_matched), matching.is_matched)[:_ROOTS]
    if difference.cause is Cause.ORDER:
        made += [node for node in evidence.port.repeats if any(is_one(node.result.tensor, other.tensor) for other in port.operands)]
    if difference.mend is not None:
        made.insert(0, difference.mend[0])
    apis = dict.fromkeys(node.api for node in made if node.api is not None and not node.backward)
    wholes = dict.fromkeys(api.whole for api in apis if api.whole is not None)
    return [
        (api, [node for node in evidence.port.nodes if node.api is not None and api in (node.api, node.api.whole)])
        for api in (*apis, *wholes)
    ]


def _of_arguments(difference: CallDifference, answer: OtherArguments, nodes: Sequence[TraceCall]) -> CallDifference:
    """The difference as one of arguments; where no attribute mends it, the call's result is exchanged."""
    port, mend, original = difference.port, difference.mend, difference.original
    of_attribute = difference.cause is Cause.ATTRIBUTE and port in nodes
    whole = bool(nodes) and not (of_attribute and port and [node.name for node in nodes].count(port.name) == 1)
    if whole:
        last = nodes[-1]
        port = port if of_attribute else last
        if answer.value is not None and answer.value.numel() == last.result.tensor.numel():
            mend = (last, [answer.value.reshape(last.result.tensor.shape)])
    unlike = unlike_attributes(original, port) if original and port and original.name == port.name else {}
    changes = answer.changes
    if port is not None:
        changes = {name: _source(answer.call, name, value) for name, value in changes.items()}
    place = answer.call.place
    if changes.get("training") is False and place is not None and "self" in place[0].co_varnames:
        changes = {**changes, "training": _OwnMode()}
    written, names = write(answer.call, changes), [value for value in changes.values() if isinstance(value, Name)]
    if len(names) > 1 or (names and names[0].startswith("[") and not isinstance(next(iter(answer.changes.values()))[0], int)):
        name = answer.call.symbol or answer.call.name
        cause, text = Cause.SWAPPED, tr("the operands of {call} are exchanged (write {write})", call=name, write=written)
    else:
        cause, words = (
            Cause.ATTRIBUTE,
            (_against(answer.call, name, value, unlike if len(changes) == 1 else {}) for name, value in changes.items()),
        )
        first, *rest = words
        text = joined(", ", [first, *rest]) if rest else first
    own = [f"{name}={_own_text(answer.call, name)}" for name in changes]
    texts = {name: (shown_item if name == "item" else shown)(value) for name, value in changes.items()}
    return replace(
        difference,
        cause=cause,
        text=text,
        port=port,
        sites=(difference.sites[0], port.site) if difference.sites and port and port is not difference.port else difference.sites,
        mend=mend,
        write=written,
        arguments=tuple(changes),
        whole=whole,
        rewrite=with_arguments(answer.call, texts),
        spelled="" if answer.call.symbol or cause is not Cause.ATTRIBUTE else f"{answer.call.name}({', '.join(own)})",
    )


class _OwnMode:
    """The mode of the layer whose forward has the line: what is wrong in evaluation must not be right there alone."""

    def __repr__(self) -> str:
        return "self.training"


def _own_text(call: ApiCall, name: str) -> str:
    """What a call has as an argument, as its line writes it."""
    value = call.arguments[name]
    return str((argument_source(call, name) or "...") if hasattr(value, "stop_gradient") else shown(value))


def _source(call: ApiCall, name: str, value: Any) -> Any:
    """An argument as the port's line has it, where it is one or several of the call's operands."""
    if isinstance(value, Name):
        return argument_source(call, value) or value
    own: Any = call.arguments.get(name)
    whole = isinstance(own, list) and isinstance(value, list) and all(type(part) is int for part in (*own, *value))
    if whole and value != own and sorted(value) == sorted(own):
        text = reordered_source(call, name, [own.index(part) for part in value])
        return text if not call.layers and any(isinstance(part, ast.Name) for part in ast.walk(ast.parse(text))) else value
    if isinstance(own, (list, tuple)) and type(value) is type(own) and any(hasattr(part, "stop_gradient") for part in own):
        order = [next(at for at, other in enumerate(own) if other is part) for part in value]
        return reordered_source(call, name, order)
    return value


def _against(call: ApiCall, name: str, wanted: Any, unlike: Mapping[str, Any]) -> str:
    """An argument that differs, in Paddle's word and, where Torch's is another, in Torch's."""
    ((torchs, value),) = unlike.items() if len(unlike) == 1 else [(name, wanted)]
    if isinstance(value, bool) is not isinstance(wanted, bool):
        torchs = name  # an attribute that only follows from the argument
    own = call.arguments[name]
    if not isinstance(wanted, Name) and hasattr(own, "stop_gradient"):
        own = Name(_own_text(call, name))
    if isinstance(wanted, Name) and not wanted.startswith("["):  # by the name of the argument that it is
        own = next((Name(other) for other, tensor in call.arguments.items() if tensor is own and other != name), Name("..."))
    other = shown(wanted) if torchs == name else f"{torchs}={shown(value)}"
    note = _NOTES.get((call.name, name), "")
    if call.symbol:
        here, there = (write(call, {name: number}) for number in (own, wanted))
        return tr("{here} against {there} (write {there})", here=here, there=there)
    return tr(
        "{name}={own} against {other} ({note}write {name}={value})",
        name=name,
        own=shown(own),
        other=other,
        note=note,
        value=shown(wanted),
    )


_NOTES = {
    ("batch_norm", "momentum"): tr("Paddle's momentum is the share of the old statistics that stays, Torch's that of the new: "),
    ("smooth_l1_loss", "is_huber"): tr("Paddle's smooth_l1_loss is Torch's huber_loss: "),
    ("dropout", "mode"): tr('mode="downscale_in_infer" scales in evaluation, Torch\'s dropout in training: '),
}


# ---- When the search is over: differences that are one mistake, and differences that follow from a mistake.


def gradients_of_tied_weights(differences: Differences, evidence: Evidence) -> Differences:
    """Drops sums of gradients where weights are tied in one program alone: the tie is the mistake."""
    return [difference for difference in differences if not (evidence.tied and _adds_gradients(difference))]


def _adds_gradients(difference: CallDifference) -> bool:
    port = difference.port
    alone = {Cause.MISSING: difference.original, Cause.EXTRA: port, Cause.GRAPH_GOES_ON: port}.get(difference.cause)
    return alone is not None and alone.backward and alone.name == "add"


def consequences(differences: Differences, evidence: Evidence) -> Differences:
    """Drops what another difference says already.

    A call whose counterpart has other attributes is neither missing nor too much. A call in another place is missing where it was,
    and too much where it is, in each layer that runs these lines; and the reader of its line's result gets another op's. What else
    is computed within a call of Paddle's API follows from the argument of it that is named.
    """
    named = {_api_of(other) for other in differences if other.arguments} - {None}
    differences = [other for other in differences if other.write or other.arguments or _api_of(other) not in named]
    differences = [other for at, other in enumerate(differences) if not _is_rewritten(other, differences[:at])]
    paired = [(other.cause, other.original, other.port) for other in differences if other.original and other.port]
    moved = [(original, port) for cause, original, port in paired if cause is Cause.PLACE]
    others = [pair[1:] for pair in paired if pair[0] not in (Cause.PLACE, Cause.MISSING, Cause.EXTRA)]
    return [difference for difference in differences if not _follows(difference, moved, others)]


def _is_rewritten(difference: CallDifference, earlier: Differences) -> bool:
    """Whether the change of a line that mends an earlier difference mends this one; in several layers it is one all the same."""
    port = difference.port
    if difference.change() is None and port is not None:
        others = [other for other in earlier if other.port and (other.cause is Cause.PLACE or other.port.layer != port.layer)]
        return _is_within(port, [change for other in others if isinstance(change := other.change(), Patch)])
    same = [other for other in earlier if difference.rewrite is not None and other.rewrite == difference.rewrite]
    kinds = {(other.cause, other.port and other.port.name) for other in same}
    return bool(kinds - {(difference.cause, difference.port and difference.port.name)})


def _is_within(port: TraceCall, changes: Collection[Patch]) -> bool:
    """Whether a call's line is one of those that changes make others."""
    return any(change.file == port.site.file and change.line <= port.site.line <= change.end_line for change in changes)


def _api_of(difference: CallDifference) -> tuple[str, CallSite, str] | None:
    port = difference.port
    return None if port is None or port.api is None or port.api.symbol else (port.api.name, port.site, port.layer)


Pairs = Sequence[tuple[TraceCall, TraceCall]]  # the original's call and the port's


def _follows(difference: CallDifference, moved: Pairs, others: Pairs) -> bool:
    if difference.cause in (Cause.MISSING, Cause.EXTRA):
        side = 0 if difference.cause is Cause.MISSING else 1
        alone = (difference.original, difference.port)[side]
        return alone is not None and (
            any(pair[side].key == alone.key for pair in others) or any(_line_of(pair[side]) == _line_of(alone) for pair in moved)
        )
    if difference.cause is not Cause.OPERAND or not difference.original or not difference.port:
        return False
    if any(_line_of(difference.port) == _line_of(port) for _, port in moved):
        return True  # the model's result comes from it
    operands = zip(difference.original.operands, difference.port.operands)
    sources = [(operand.value.node, other.value.node) for operand, other in operands]
    return any(
        expected is not None and actual is not None and expected.site == original.site and _line_of(actual) == _line_of(port)
        for expected, actual in sources
        for original, port in moved
    )


def _line_of(node: TraceCall) -> tuple[str, CallSite, str]:
    """What is equal for the calls of one line in all layers."""
    return node.name, node.site, str(node.attributes)


_LINES_SHOWN = 3  # beside the first


def exchanged_values(differences: Differences, evidence: Evidence) -> Differences:
    """Fuses differences that take one value for the same other value, or the other way round, into the first.

    Two calls read two exchanged results (keys and values, a gate and its operand), and all its readers a wrong one. The first
    difference names the lines of the others.
    """
    left: Differences = []
    for difference in differences:
        at, turned = next(
            ((at, how) for at, earlier in enumerate(left) if (how := _again(earlier, difference)) is not None), (-1, False)
        )
        if at < 0:
            left.append(difference)
        else:
            left[at] = _with_line(left[at], difference, turned=turned)
    return left


def _again(earlier: CallDifference, other: CallDifference) -> bool | None:
    """Whether both take one value for another: the same way (False), the other way round (True), or not (None)."""
    if earlier.taken is None or other.taken is None or earlier.backward is not other.backward:
        return None
    if all(map(_equal, earlier.taken, other.taken[::-1])):
        return True
    elsewhere = earlier.port is not None and other.port is not None and earlier.port.site != other.port.site
    return False if elsewhere and all(map(_equal, earlier.taken, other.taken)) else None  # one line's calls are counted


def _equal(value: Value, other: Value) -> bool:
    """Whether two values of one run hold the same elements in the same order: who reads them tells the order."""
    return value is other or (value.tensor.shape == other.tensor.shape and torch.equal(value.tensor, other.tensor))


def _with_line(earlier: CallDifference, other: CallDifference, *, turned: bool) -> CallDifference:
    here, there = earlier.port, other.port
    if here is None or there is None:
        return earlier
    line = tr(" at line {line}", line=there.site.line) if there.site != here.site else ""
    words = (tr(", and the other way round") if turned else tr(", also")) + line
    known = words in earlier.text or earlier.text.count(" at line ") >= _LINES_SHOWN
    rewrite = both(earlier.rewrite, other.rewrite)
    return replace(earlier, text=earlier.text if known else earlier.text + words, rewrite=rewrite)


def dropout_scales(differences: Differences, evidence: Evidence) -> Differences:
    """Drops the difference of a dropout's divisor where its mask differs by the same share."""
    calls = [difference.port for difference in differences if difference.port]
    masks = {(call.site, call.layer, call.attributes.get("p")) for call in calls if call.name == "bernoulli"}
    divisors = [call for call in calls if call.name == "div"]
    scales = [call for call in divisors if (call.site, call.layer, call.attributes.get("other")) in masks]
    return [difference for difference in differences if not any(difference.port is scale for scale in scales)]


def expressions(differences: Differences, evidence: Evidence) -> Differences:
    """Fuses a call too many, or a missing one, into the difference with whose result it goes on in its line: one expression."""
    left: Differences = []
    calls = {node.key: node for node in evidence.port.nodes}
    parts: list[dict[Cause, set[Key]]] = []  # for each: the calls of its expression, the port's and the original's
    by_hand = set[int]()  # those that are a formula of the original's call
    for difference in differences:
        alone = {Cause.EXTRA: difference.port, Cause.MISSING: difference.original}.get(difference.cause)
        at = next((at for at, keys in enumerate(parts) if alone and _goes_on(alone, keys[difference.cause])), None)
        if at is None and difference.cause is Cause.EXTRA:
            at = next((at for at, earlier in enumerate(left) if _is_one_formula(earlier, difference, calls)), None)
            if at is not None:
                by_hand.add(at)
        if at is not None and alone is not None:
            parts[at][difference.cause].add(alone.key)
            left[at] = replace(left[at], text=_with_call(left[at], difference, alone), write="", rewrite=None)
        else:
            left.append(difference)
            parts.append(_beginning(difference))
    return [_by_hand(difference) if at in by_hand else difference for at, difference in enumerate(left)]


def _by_hand(difference: CallDifference) -> CallDifference:
    """Says of calls that make up a formula of the original's call which one."""
    function = difference.original.function if difference.original else ""
    text = tr(
        "{function} is computed by hand ({calls}), otherwise than in the original",
        function=function,
        calls=fields_of(difference.text)["alone"],
    )
    return replace(difference, cause=Cause.OTHER_OP, text=text)


def _is_one_formula(earlier: CallDifference, other: CallDifference, calls: Mapping[Key, TraceCall]) -> bool:
    """Whether the port computes by hand, by these calls among others, what the original has on one line; ``calls``: the port's."""
    original, beside = earlier.original, other.original
    if earlier.cause is not Cause.EXTRA or original is None or beside is None or earlier.port is None or other.port is None:
        return False
    port, further = calls.get(earlier.port.key), calls.get(other.port.key)  # those of one run
    if port is None or further is None or (original.site, original.layer, port.layer) != (beside.site, beside.layer, further.layer):
        return False
    apart = port is not further and not port.backward and original.name in _FORMULAS
    return apart and any(depends_on(operand.value, port) for operand in further.operands)


# Calls that others write by hand.
_FORMULAS = frozenset({"_softmax", "_log_softmax", "native_layer_norm", "native_group_norm", "gelu", "silu", "softplus", "mish"})


def _with_call(known: CallDifference, difference: CallDifference, alone: TraceCall) -> str:
    """The text of a difference, with a call that goes on with its result."""
    if known.cause is Cause.ATTRIBUTE:
        return tr("{first}, and {second}", first=known.text, second=difference.text)
    side = "port" if difference.cause is Cause.EXTRA else "original"
    side = "alone" if known.cause is Cause.EXTRA else side
    return with_fields(known.text, **{side: joined(", ", (fields_of(known.text)[side], str(alone)))})


def _beginning(difference: CallDifference) -> dict[Cause, set[Key]]:
    """The calls with which a different expression begins, by the cause of the calls that go on with it."""
    both = difference.cause in (Cause.OTHER_OP, Cause.ATTRIBUTE) and difference.port and difference.original
    return {
        Cause.EXTRA: {difference.port.key} if both and difference.port else set(),
        Cause.MISSING: {difference.original.key} if both and difference.original else set(),
    }


def _goes_on(node: TraceCall, known: set[Key]) -> bool:
    """Whether a call reads the result of one of these, in its own line and layer."""
    made = [operand.value.node.key for operand in node.operands if operand.value.node is not None]
    return any(key in known and (key.site, key.layer) == (node.site, node.layer) for key in made)


def gradients_of_mistakes(differences: Differences, evidence: Evidence) -> Differences:
    """Drops differences of gradients in lines that hold a mistake already, and of sums with a gradient that goes on too far."""
    left: Differences = []
    wrong: set[Line] = set()
    goes_on = {_lines(difference)[1] for difference in differences if difference.cause is Cause.GRAPH_GOES_ON}
    for difference in differences:
        lines = {line for line in _lines(difference) if line}
        at_end = difference.cause is Cause.GRAPH_GOES_ON
        reads = [operand.value.node for operand in difference.port.operands] if difference.port and not at_end else []
        sums = difference.backward and any(node is not None and node.site[:2] in goes_on for node in reads)
        if not (((difference.backward or at_end) and lines & wrong) or sums):
            wrong |= lines
            left.append(difference)
    return left


def definitions(differences: Differences, evidence: Evidence) -> Differences:
    """Fuses the calls that differ within an op, which Paddle defines differently from Torch, into that definition."""
    for op, definition in evidence.defined.items():
        within = [difference for difference in differences if _lines(difference)[1] == definition.site[:2]]
        lines = {_lines(difference)[0] for difference in within if difference.cause in WRITTEN_OTHERWISE} - {None}
        parts = [other for other in differences if other.cause in WRITTEN_OTHERWISE and _lines(other)[0] in lines]
        if not parts:
            continue
        text = joined("", (f"{op}: ", definition.how, advice_on_definition(op)))
        first = within[0]
        wholes = [
            other for other in within if _key(other, evidence.layers[1]) == _key(first, evidence.layers[1])
        ]  # the same in every layer
        setting = first.port.key if first.port else None
        differences = [
            replace(other, cause=Cause.ATTRIBUTE, text=text, setting=setting) if other in wholes else other
            for other in differences
            if other in wholes or other not in parts
        ]
    return differences


# While both runs hold their numbers each difference is looked at at once; in the end all of them are.
RULES_OF_A_SEARCH = (
    *(turned_masks, attention_scales, names_before_operands, held_otherwise, rearranged_operands),
    *(exchanged_arguments, rearrangements, other_expressions, as_the_original_has_it),
)
RULES = (
    gradients_of_tied_weights,
    consequences,
    exchanged_values,
    dropout_scales,
    expressions,
    gradients_of_mistakes,
    definitions,
)


# ---- From differences to mistakes.

Line = tuple[str, int]  # file and number
_ATTRIBUTES = re.compile(r"(\w+)=\S+ against")  # one line may call an op twice, and be wrong about another attribute each time


def _lines(difference: CallDifference) -> list[Line | None]:
    """The lines of the original and of the port; None where there is no call."""
    sites = difference.sites or (None, None)
    calls = (difference.original, difference.port)
    return [None if call is None else (site or call.site)[:2] for call, site in zip(calls, sites)]


def _key(difference: CallDifference, layers: Mapping[str, Model]) -> tuple[Any, ...]:
    """What is equal for differences that are one mistake: cause, lines and ops, and of attributes which; ``layers``: the port's."""
    if difference.cause is Cause.BUFFER and (place := place_of_buffer(layers, difference.attribute)) is not None:
        return (difference.cause, place.file, place.line)  # whoever reads it
    lines = _lines(difference)
    names = [call and call.name for call in (difference.original, difference.port)]
    if difference.cause in (Cause.MISSING, Cause.EXTRA, Cause.ORDER):  # the other program's call beside it may be any of several
        beside = 1 if difference.cause is Cause.MISSING else 0
        lines[beside] = names[beside] = None
    if difference.cause is Cause.ATTRIBUTE and difference.write:  # and what it stands for may be several calls
        lines[0], names[0] = None, difference.write
    attributes = difference.arguments or (_ATTRIBUTES.findall(difference.text) if difference.cause is Cause.ATTRIBUTE else ())
    return (difference.cause, *lines, *names, *attributes)


def mistakes(differences: Sequence[CallDifference], layers: LayersOfBoth) -> list[Mistake]:
    """One mistake for each line, however many layers run it, and for each setting, however many lines have it.

    Args:
        differences: as the rules leave them.
        layers: of both models.

    Returns:
        Those with the largest effect first; behind them, in the order of the program, those whose effect was not measured.
    """
    settings: dict[Key, Any] = {}
    keys = [_key(difference, layers[1]) for difference in differences]
    keys = [settings.setdefault(each.setting, key) if each.setting else key for each, key in zip(differences, keys)]
    once_each = merged(zip(keys, (_mistake(difference, layers) for difference in differences)))
    return sorted(once_each, key=lambda mistake: -(mistake.effect or 0.0))


def _mistake(difference: CallDifference, layers: LayersOfBoth) -> Mistake:
    """The mistake of one difference, with what to write."""
    sites: tuple[CallSite | None, CallSite | None] = difference.sites or (None, None)
    original, port = ProgramPlace.of(difference.original, sites[0]), ProgramPlace.of(difference.port, sites[1])
    if difference.attribute:
        port = place_of_buffer(layers[1], difference.attribute) or port
    if port is not None and difference.spelled:
        port = replace(port, call=difference.spelled)
    place = port or original
    path = place.layer if place else ""
    cause, text, write = difference.cause, difference.text, difference.write
    change = difference.change()
    patch = change if isinstance(change, Patch) else None
    write = write or (_in_one_line(patch.after) if patch else "")
    if patch and not write:
        write = tr("nothing in the place of {line}", line=_in_one_line(patch.before))
    fix = Fix(write, patch.file, patch.line, patch=patch) if patch else None
    paths = of_one_line(layers[1], change) if isinstance(change, Remade) else []
    return Mistake(cause, text, original, port, tuple(paths or [path]), effect=difference.effect, write=write, fix=fix)


def _in_one_line(text: str) -> str:
    """Statements beside one another; of one that has several lines these."""
    lines = [line.strip() for line in text.splitlines()]
    try:
        return "; ".join(line for line in lines if ast.parse(line).body)
    except SyntaxError:
        return " ".join(text.split())


def place_of_buffer(layers: Mapping[str, Model], name: str) -> ProgramPlace | None:
    """The line that registers or assigns an attribute of a layer; None where no class of the layer's shows it."""
    path, _, own = name.rpartition(".")
    site = registered(type(layers[path]), own) if path in layers else None
    return None if site is None else ProgramPlace.at(site, path, f"register_buffer({own!r})")
