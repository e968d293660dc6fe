"""One compared call, its kernels as functions of its operands, and each tensor that is judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import torch

from ..dispatch import call_site
from ..dispatch.dtypes import apart, exchanged_in
from ..dispatch.entry_point import EntryPoint
from ..dispatch.operands import CallOperands, flat, wanting, without_gradient
from ..dispatch.prepare import NO_CASTS, Prepared, device_of
from ..frameworks import autocast, weight_copies
from ..frameworks.autocast import grad_tracer
from ..frameworks.memory import dtype_of, to_paddle, to_torch
from ..numerics import same, ties_and_moves
from ..numerics.generic import Variant
from ..numerics.measured import JointFormula, JointResult, TraceCache, Traces
from ..numerics.models import RoundingModel, floating
from ..numerics.ties import TiedCall
from ..runlog.encoding import WrittenFields
from ..runlog.words import GRADIENT, SECOND
from ..table.op import Op
from ..tape.calls import gradients, reads
from ..text import logged
from ..torch_versions import set_grad_enabled
from ..verdicts import Judgement, Side, Verdict

if TYPE_CHECKING:
    from .plan import Comparison

# ---- Operands that Paddle's kernel writes into: Torch's side gets copies.


def written(tensors: Sequence[Any], before: Sequence[int | None]) -> list[int]:
    """Places of the tensors that were written since."""
    return [
        place
        for place, (tensor, version) in enumerate(zip(tensors, before))
        if version is not None and tensor.inplace_version != version
    ]


def _memory(tensor: torch.Tensor) -> tuple[int, int]:
    """The first byte of a tensor's elements, and the one behind the last."""
    if not tensor.numel():
        return 0, 0
    return tensor.data_ptr(), tensor.data_ptr() + _span(tensor) * tensor.element_size()


def _span(tensor: torch.Tensor) -> int:
    """Elements between a tensor's first and its last one, both counted."""
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))


def _shares(side: Any, targets: Sequence[tuple[int, int]]) -> bool:
    """Whether a tensor's memory has a byte in common with one of these ranges; views that interleave are taken to."""
    if not isinstance(side, torch.Tensor):
        return False
    first, end = _memory(side)
    return any(first < last and begin < end for begin, last in targets)


def _kept(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, which matter to a kernel's last bits."""
    if not tensor.numel():
        return tensor
    return tensor.as_strided((_span(tensor),), (1,)).clone().as_strided(tensor.shape, tensor.stride(), 0)


# ---- The results that are compared, and their names.


def of_paddle(entry_point: EntryPoint, result: Any) -> list[Any]:
    """What is compared of what Paddle's function gave."""
    return [result[0]] if entry_point.entry.returns_list else flat(result)


def result_name(op: Op, position: int) -> str:
    """The name of a result in records: as the op declares it, else ``out``, and ``out[1]`` for further ones."""
    if position < len(op.results):
        return op.results[position]
    return f"out[{position}]" if position else "out"


def first_judged(op: Op) -> int:
    """The place of the first result that is compared."""
    return next((place for place, name in enumerate(op.results) if name not in op.unjudged), 0)


# ---- The fields of a call's record that are known before any verdict: plain strings, numbers and lists.

PLACES = 4096


def strides_kind(tensor: torch.Tensor) -> str:
    """How a tensor lies in memory: contiguous, transposed (its last two axes exchanged), broadcast (a stride of 0) or strided."""
    if tensor.is_contiguous():
        return "contiguous"
    if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape)):
        return "broadcast"
    return "transposed" if tensor.ndim > 1 and tensor.mT.is_contiguous() else "strided"


def operand(name: str, value: Any) -> dict[str, Any] | None:
    """One operand: name, shape, dtype, strides; or the number; None if absent."""
    if isinstance(value, torch.Tensor):
        return {"name": name, "shape": list(value.shape), "dtype": dtype_of(value.dtype), "strides": strides_kind(value)}
    return None if value is None else {"name": name, "number": value}


def operands(names: Sequence[str], values: Sequence[Any], *, sequence: bool) -> list[dict[str, Any]]:
    """All operands; those of an op over a sequence of tensors are numbered."""
    labels = [f"{names[0]}[{index}]" for index in range(len(values))] if sequence else names
    return [entry for name, value in zip(labels, values) if (entry := operand(name, value)) is not None]


def plain(value: Any) -> Any:
    """An attribute as JSON can hold it."""
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


def autocast_state() -> str:
    """``"off"``, or level and dtype: ``"O1:bfloat16"``. Off, too, in a guard of reference mode on a CPU."""
    tracer = grad_tracer()
    if autocast.HERE.on or not autocast.active(tracer):
        return "off"
    return f"{tracer._amp_level.name}:{tracer._amp_dtype}"


class Spot(WrittenFields):
    """A result or a gradient of a place, of one shape and dtype: what its records have in common, and what was learnt of it.

    ``audit``: results until the next audit, None before the first; ``usual``: what :class:`.judge.Screening` knows; ``alike``: the
    verdict on what is equal and not audited.
    """

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.audit: int | None = None
        self.usual: Any = None
        self.alike: Any = None


class RecordPlace:
    """What is alike in all records of one place: a entry_point called at one line, in one layer, with operands of one kind.

    Made once and kept, with the JSON of it: describing a call over and over takes longer than many a kernel.
    """

    def __init__(self, entry_point: EntryPoint, fields: dict[str, Any]) -> None:
        self._entry_point, self.fields = entry_point, fields
        self.layer = str(fields["layer"])
        self.reads: dict[tuple[int, ...], frozenset[int]] = {}  # operands that want a gradient -> those that a backward reads
        self.seats: list[Any] | None = None  # of the nodes that Paddle makes here, see .seats
        self._spots: dict[tuple[Any, ...], Spot] = {}

    def gradient(self, operand: int, tensor: torch.Tensor) -> Spot:
        """Where the gradient of an operand is judged."""
        key = (operand, tensor.shape, tensor.dtype)
        return self._spots.get(key) or self._begun(key, "backward", f"{GRADIENT}{operand_name(self._entry_point, operand)}")

    def result(self, position: int, tensor: torch.Tensor) -> Spot:
        """Where a result is judged."""
        key = (~position, tensor.shape, tensor.dtype)
        return self._spots.get(key) or self._begun(key, "forward", result_name(self._entry_point.op, position))

    def second(self, name: str, tensor: torch.Tensor) -> Spot:
        """Where the second derivative with respect to a tensor of this name is judged."""
        key = (name, tensor.shape, tensor.dtype)
        return self._spots.get(key) or self._begun(key, "backward", f"{SECOND}{name}")

    def written(self, operand: int, tensor: torch.Tensor) -> Spot:
        """What is said of an operand that Paddle wrote."""
        return self._begun((("written", operand), tensor.shape, tensor.dtype), "forward", operand_name(self._entry_point, operand))

    def _begun(self, key: tuple[Any, ...], phase: str, tensor: str) -> Spot:
        _, shape, dtype = key
        fields = {**self.fields, "phase": phase, "tensor": tensor, "shape": list(shape), "dtype": dtype_of(dtype)}
        spot = self._spots[key] = Spot(fields)
        return spot


class RecordPlaces:
    """The places of one mode, by everything that tells them apart; when there are very many, a new book is begun.

    ``traces``: of formulas, which places share.
    """

    def __init__(self) -> None:
        self._known: dict[Any, RecordPlace] = {}
        self.traces = TraceCache()

    def of(self, entry_point: EntryPoint, sides: Sequence[Any], attributes: Sequence[Any], needs: Sequence[int]) -> RecordPlace:
        """The place of the call that is running. ``needs``: see docs/log.md."""
        line = call_site.caller()
        state = call_site.layer_path(), call_site.in_training(), autocast_state()
        key = (entry_point, line, state, tuple(needs), kinds(sides), kinds(attributes) if attributes else ())
        try:
            place = self._known.get(key)
        except TypeError:  # an attribute of no hashable kind
            return RecordPlace(entry_point, self._described(entry_point, call_site.call_site(), sides, attributes, needs))
        if place is None:
            if len(self._known) >= PLACES:
                self._known.clear()
            place = self._known[key] = RecordPlace(
                entry_point, self._described(entry_point, call_site.call_site(), sides, attributes, needs)
            )
        return place

    @staticmethod
    def _described(
        entry_point: EntryPoint, site: call_site.CallSite, sides: Sequence[Any], attributes: Sequence[Any], needs: Sequence[int]
    ) -> dict[str, Any]:
        names, op = entry_point.names, entry_point.op
        return {
            "op": op.name,
            "entry": entry_point.entry.target,
            "site": str(site),
            "file": site.name,
            "line": site.line,
            "layer": call_site.layer_path(),
            "train": call_site.in_training(),
            "inputs": operands(names, sides, sequence=op.operands),
            "needs": [operand_name(entry_point, index) for index in needs],
            "attributes": {name: plain(value) for name, value in zip(names[op.leading :], attributes)},
            "device": str(device_of(sides, attributes)),
            "amp": autocast_state(),
        }


def operand_name(entry_point: EntryPoint, index: int) -> str:
    """The parameter name of an operand; those of a sequence are numbered."""
    return f"{entry_point.names[0]}[{index}]" if entry_point.op.operands else entry_point.names[index]


def kinds(values: Sequence[Any]) -> tuple[Any, ...]:
    """What records say of these values, as a key: 1, 1.0 and True are told apart."""
    return tuple(
        [
            (value.shape, value.dtype, value.stride(), value.device)
            if isinstance(value, torch.Tensor)
            else (type(value), kinds(value))
            if isinstance(value, (list, tuple))
            else (type(value), value)
            for value in values
        ]
    )


# ---- Both kernels as functions of the call's operands, for verdicts on results without a bound.

Run = Callable[..., Any]


class Kernels:
    """The part of a :class:`ComparedCall` that runs its call again, on whatever operands."""

    entry_point: EntryPoint
    inputs: CallOperands
    places: RecordPlaces
    operands: list[Any]
    outs: list[Any]
    attributes: tuple[Any, ...]
    results: JointFormula | None  # all results of Torch's that are judged by the formula
    together: tuple[Mapping[int, torch.Tensor], JointFormula] | None  # the gradients for these incoming ones, as a formula
    like: Sequence[torch.Tensor]  # Paddle's results, where the op leaves open which of several there are; else none

    def run(self, *tensors: Any) -> Any:
        """Torch's formula on these operands."""
        return self._run_other(None, *tensors)

    def meaning(self, *tensors: Any) -> Any:
        """What both kernels are held against: Torch's formula, or the op's own oracle."""
        return self._run_other(self.entry_point.op.oracle, *tensors)

    def variants(self, kernel: Callable[..., torch.Tensor]) -> dict[str, Variant]:
        """What a kernel may compute instead, by name: the call's numbers in float32, and what is known of the op.

        ``kernel``: the judged tensor as a function of the operands, and of ``run``, which stands for the op's formula.
        """
        op, attributes = self.entry_point.op, tuple(_in_float32(value) for value in self.attributes)
        variants = {}
        formulas = {name: (fault, partial(fault.formula, op.oracle or op.reference)) for name, fault in op.faults.items()}
        for name, (fault, formula) in formulas.items():
            variants[name] = Variant(partial(kernel, run=partial(self._run_other, formula)), fault.precision, fault.narrow)
        if attributes != self.attributes:
            run = partial(self._run_other, None, attributes=attributes)
            variants["numbers->float32"] = Variant(partial(kernel, run=run), precision=True, wide=True)
            for name, (fault, formula) in formulas.items():
                run = partial(self._run_other, formula, attributes=attributes)
                variants[f"{name}+numbers->float32"] = Variant(partial(kernel, run=run), fault.precision, wide=True)
        return variants

    @property
    def model(self) -> RoundingModel | None:
        """The op's rounding model, where each operand has a dtype with one."""
        return self.entry_point.op.model if floating(*self.operands) else None

    def aligned(self, results: Any) -> Any:
        """A formula's results as near to Paddle's as the op's meaning allows."""
        if not self.like:
            return results
        assert self.entry_point.op.aligned is not None
        return self.entry_point.op.aligned(flat(results), self.like)

    def _run_other(self, formula: Callable[..., Any] | None, *tensors: Any, attributes: tuple[Any, ...] | None = None) -> Any:
        """Another formula than the op's (None: its own), or the same of other numbers."""
        return self.aligned(self.entry_point.torch(tensors, self.attributes if attributes is None else attributes, formula))

    def kernels(self, position: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Both kernels as functions of the operands that are tensors, for results without a bound."""
        places = [index for index, side in enumerate(self.operands) if isinstance(side, torch.Tensor)]
        if self.results is None:
            self.results = self._results_of(places)
        results = self.results

        def torch_kernel(*tensors: torch.Tensor, run: Run = self.meaning) -> torch.Tensor:
            return results.formula(*tensors, chosen=[position], run=run)[0]

        def paddle_kernel(*tensors: torch.Tensor) -> torch.Tensor:
            copies = {id(self.inputs.paddle[place]): to_paddle(tensor.clone()) for place, tensor in zip(places, tensors)}
            results = apart(self.entry_point.original, args, kwargs, copies)
            return to_torch(of_paddle(self.entry_point, results)[position])

        kernels: dict[str, Any] = {
            "torch_kernel": JointResult(results, results.places.index(position)) if position in results.places else torch_kernel,
            "operands": results.operands,
            "variants": self.variants(torch_kernel),
        }
        repeatable = (
            self.entry_point.transposed is None and not self.entry_point.overwritten and not self.entry_point.op.limits.once
        )
        return {**kernels, "paddle_kernel": paddle_kernel if repeatable else None}

    def gradient_kernels(self, operand: int, grads: Mapping[int, torch.Tensor]) -> dict[str, Any]:
        """The same for the gradient of an operand; Paddle's is not run a second time."""
        if self.together is None or self.together[0] is not grads:
            operands = [*(self.operands[i] for i in self.inputs.needs), *grads.values()]
            elements = sum(self.operands[i].numel() for i in self.inputs.needs)
            formula, traces = partial(self.gradients_of, list(grads)), self._traces(tuple(grads), list(grads.values()))
            others = [side for i, side in enumerate(self.operands) if isinstance(side, torch.Tensor) and i not in self.inputs.needs]
            self.together = grads, JointFormula(formula, operands, self.inputs.needs, elements, [*others, *self.like], traces)
        together, needs = self.together[1], self.inputs.needs

        def other(*tensors: torch.Tensor, run: Run) -> torch.Tensor:
            return together.formula(*tensors, chosen=[operand], run=run)[0]

        return {
            "torch_kernel": JointResult(together, needs.index(operand)),
            "paddle_kernel": None,
            "operands": together.operands,
            "variants": self.variants(other),
        }

    def made_again(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        """Paddle's results of the call, made once more of these arguments, and the operands that want a gradient, detached."""
        leaves = [self.inputs.paddle[index].detach() for index in self.inputs.needs]
        others: dict[int, list[Any]] = {}  # a tensor may be several operands
        for index, leaf in zip(self.inputs.needs, leaves):
            leaf.stop_gradient = False
            others.setdefault(id(self.inputs.paddle[index]), []).append(leaf)
        written = [self.inputs.paddle[index] for index in self.entry_point.overwritten]
        others.update({id(tensor): [tensor.clone()] for tensor in written if isinstance(tensor, paddle.Tensor)})
        args, kwargs = exchanged_in(args, kwargs, partial(_next_of, others))
        return of_paddle(self.entry_point, self.entry_point.native(*args, **kwargs)), leaves

    def _traces(self, positions: tuple[int, ...], incoming: Sequence[Any]) -> Traces:
        """What is known of the steps of such a call, or of its backward for gradients of the results at these positions."""
        needs = tuple(self.inputs.needs) if positions else ()
        key = self.entry_point.op.name, positions, needs, kinds(self.operands), kinds(incoming), kinds(self.attributes)
        try:
            return self.places.traces.of(key)
        except TypeError:  # an attribute of no hashable kind
            return Traces()

    def _results_of(self, places: Sequence[int]) -> JointFormula:
        """All results as a formula of the operands at these places."""

        def formula(*tensors: torch.Tensor, chosen: Sequence[int], run: Run = self.meaning) -> list[torch.Tensor]:
            sides = list(self.operands)
            for place, tensor in zip(places, tensors):
                sides[place] = tensor
            everything = flat(run(*sides))
            return [everything[position] for position in chosen]

        outs = {
            p: out
            for p, out in enumerate(self.outs)
            if isinstance(out, torch.Tensor) and (out.is_floating_point() or out.is_complex())
        }
        elements, operands = sum(out.numel() for out in outs.values()), [self.operands[place] for place in places]
        return JointFormula(formula, operands, list(outs), elements, self.like, self._traces((), ()))

    def gradients_of(
        self,
        positions: Sequence[int],
        *tensors: torch.Tensor,
        chosen: Sequence[int],
        run: Run | None = None,
        create_graph: bool = False,
    ) -> list[torch.Tensor]:
        """The gradients of the operands ``chosen``, of operands that want one and the incoming gradients of these results.

        ``create_graph``: with a graph of their own, which leads to these very tensors.
        """
        needs = self.inputs.needs
        wanting_gradients, incoming = tensors[: len(needs)], tensors[len(needs) :]
        sides = list(self.operands)
        for index, tensor in zip(needs, wanting_gradients):
            sides[index] = tensor if create_graph else tensor.detach().requires_grad_()
        others = {t.dtype for t in wanting_gradients}
        if len(others) == 1:
            dtype = others.pop()
            sides = [
                s.to(dtype).contiguous() if isinstance(s, torch.Tensor) and s.is_floating_point() and not s.requires_grad else s
                for s in sides  # in order, as wide operands are
            ]
        with torch.enable_grad():
            outs = flat((run or self.meaning)(*sides))
            results = [(outs[p], grad) for p, grad in zip(positions, incoming)]
            return gradients(results, [sides[index] for index in chosen], create_graph=create_graph)


def _next_of(others: Mapping[int, list[Any]], value: Any) -> Any:
    """What stands for a tensor, by its id; of several the next one for each occurrence."""
    leaves = others.get(id(value))
    return value if leaves is None else leaves[0] if len(leaves) == 1 else leaves.pop(0)


def _in_float32(value: Any) -> Any:
    """A Python number as a kernel holds it that has float32 for it; also those of a list."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_in_float32, value)) if type(value) in (list, tuple) else value
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    return float(torch.tensor(value, dtype=torch.float32))


# ---- One compared call.

_NONE: dict[int, Any] = {}  # never written to
_NOWHERE: frozenset[int] = frozenset()


class Passage:
    """One tensor on its way through a pair of hooks. ``altered``: it came back with other bits."""

    def __init__(self, bits: bytes) -> None:
        self.bits, self.altered = bits, False


class ComparedCall(Kernels):
    """Built before Paddle's kernel runs; lives as long as Paddle's grad node where a gradient is wanted."""

    def __init__(self, comparison: Comparison, entry_point: EntryPoint, key: Any, number: int, prepared: Prepared) -> None:
        self.comparison, self.entry_point, self.key = comparison, entry_point, key
        self.inputs, self.attributes, casts = prepared
        sides = self.inputs.torch
        if entry_point.overwritten:  # Paddle is about to write there, and into what shares that memory
            # The operands, those copied that lie in the memory of what is overwritten
            targets = [
                _memory(side) for side in (sides[index] for index in entry_point.overwritten) if isinstance(side, torch.Tensor)
            ]
            sides[:] = [_kept(side) if _shares(side, targets) else side for side in sides]
        # Of the operands as they came in; autocast's casts come after it.
        self.places = comparison.places
        self.place = self.places.of(entry_point, sides, self.attributes, wanting(self.inputs.paddle, sides))
        self.counted = {"call": number, "step": comparison.step}
        if casts is not NO_CASTS:  # both kernels compute on the cast operands, and their gradients have that dtype
            sides[:] = casts.apply(sides)
        self.operands = list(sides)
        self.outs: list[Any] = []  # Torch's results
        self._graph: list[Any] | None = None  # the same with Torch's graph behind them, if a gradient is wanted
        self._leaves: dict[int, torch.Tensor] = {}  # where that begins, by the operands that want one
        self._renew: Callable[[], Any] | None = None  # to be called before a backward: a weight's copy may be out of date
        self.shown: dict[int, tuple[list[int], Any]] = _NONE  # position -> shape and dtype of Paddle's results with a gradient
        self.read: frozenset[int] = _NOWHERE  # positions of what torch's backward reads
        self.saved: Sequence[tuple[Any, int]] = ()  # Paddle's tensors that the backward reads, and their in-place versions
        self.shared: Sequence[tuple[Any, int]] = ()  # the other operands
        self.aliased = False
        self.lacks = ""  # the dtype in which Paddle has no kernel for the call
        self.passages: Sequence[Passage] = ()  # of what the backward reads, through hooks of the program
        self.replay: tuple[tuple[Any, ...], dict[str, Any]] | None = None  # Paddle's arguments, where the call is made again
        self.incoming: dict[int, Any] = _NONE  # the gradients of the results, between two hooks of one backward
        self.inside = self.twice = False  # its nodes within a Python function are hooked; a backward gave its gradients a graph
        self.further: tuple[Mapping[int, Any], Any] | None = None  # that backward, while it runs, and its incoming gradients
        # The results, and the gradients for these incoming ones, as formulas.
        self.results: JointFormula | None = None
        self.together: tuple[Mapping[int, torch.Tensor], JointFormula] | None = None
        self.like: Sequence[torch.Tensor] = ()

    def run_reference(self, results: Sequence[Any]) -> list[Any]:
        """Torch's kernel; keeps its graph if a gradient is wanted. ``results``: Paddle's."""
        if self.entry_point.op.aligned is not None:  # copies: the program may write into its own
            self.like = [to_torch(result).clone() for result in results]
        inputs, entry_point = self.inputs, self.entry_point
        needs = inputs.needs
        if not needs:
            self.outs = flat(without_gradient(self.run, inputs.paddle, inputs.torch))
            return self.outs
        sides, at = list(inputs.torch), entry_point.transposed
        if at is not None and 0 in needs:  # only the gradient of x reads the weight
            self._renew = weight_copies.renewer(inputs.paddle[at], sides[at])
        leaves = {index: sides[index].detach().requires_grad_() for index in needs}
        for index, leaf in leaves.items():
            sides[index] = leaf
        recorded = torch.is_grad_enabled()
        try:
            set_grad_enabled(True)  # not enable_grad(), which takes several times as long
            # Positions of what Torch's backward reads: as the place knows it, or as the entry_point does
            known, key = self.place.reads, tuple(self.inputs.needs)
            read = known.get(key)
            if read is None:
                read = known[key] = reads(self.entry_point.reads, self.attributes, sides, self.run).operands
            self.read = read
            graph = flat(self.run(*sides))
        finally:
            set_grad_enabled(recorded)
        self._leaves, self._graph = leaves, graph
        self.outs = [out.detach() if isinstance(out, torch.Tensor) else out for out in graph]
        return self.outs

    def values(self) -> tuple[Any, ...]:
        """The arguments as ``Op.reference`` takes them."""
        return (self.operands, *self.attributes) if self.entry_point.op.operands else (*self.operands, *self.attributes)

    def differentiable(self, position: int) -> bool:
        """Whether Torch gives a result a gradient: not indices, nor running statistics."""
        result = None if self._graph is None else self._graph[position]
        return isinstance(result, torch.Tensor) and result.requires_grad

    def gradients(self, grads: Mapping[int, torch.Tensor], wanted: Container[int]) -> dict[int, torch.Tensor]:
        """Torch's gradients of the operands ``wanted`` for these incoming gradients: nothing is kept for another backward.

        Raises:
            RuntimeError: if an operand that the backward reads was changed in place since.
        """
        for tensor, version in self.saved:
            if tensor.inplace_version != version:
                raise RuntimeError("an operand was changed in place between forward and backward")
        outs, leaves = self._graph, self._leaves
        if outs is None:
            raise RuntimeError("the graph was freed by an earlier backward")
        chosen = [index for index in self.inputs.needs if index in wanted]
        if self._renew is not None:
            self._renew()
        results = gradients([(outs[position], grad) for position, grad in grads.items()], [leaves[index] for index in chosen])
        return dict(zip(chosen, results))

    def overtaken(self) -> bool:
        """Whether an operand was changed in place since the forward, also where Paddle does not count it.

        Torch's kernel is run again: of the same operands it gives the same bits.
        """
        if self.entry_point.op.writes:  # it would write a second time
            return any(tensor.inplace_version != version for tensor, version in self.shared)
        needs = self.inputs.needs
        if needs:  # Torch chooses kernels by it
            sides = [side.detach().requires_grad_() if index in needs else side for index, side in enumerate(self.operands)]
            with torch.enable_grad():
                again = flat(self.run(*sides))
        else:
            again = flat(without_gradient(self.run, self.inputs.paddle, self.operands))
        return not all(_unchanged(result.detach(), out) for result, out in zip(again, self.outs) if isinstance(out, torch.Tensor))

    def release(self) -> None:
        """Backward is over for good: hold no tensor of the program any longer."""
        self._graph = self._renew = self.replay = self.results = self.together = None
        self._leaves = self.incoming = _NONE
        self.operands = self.outs = []
        self.like = ()
        self.saved = self.shared = ()
        self.inputs = CallOperands([], [], self.inputs.needs)

    def let_go(self) -> None:
        """The backward has ended: an incoming gradient that its node never took is held no longer."""
        self.incoming, self.together = _NONE, None

    @property
    def altered(self) -> bool:
        """Whether Paddle's backward read something else than was saved."""
        return bool(self.passages) and any(passage.altered for passage in self.passages)

    @property
    def layer(self) -> str:
        """The path of the layer in which the call is made."""
        return self.place.layer

    def name_of(self, index: int) -> str:
        """The operand's parameter name; those of a sequence are numbered."""
        return operand_name(self.entry_point, index)


def _unchanged(again: torch.Tensor, out: torch.Tensor) -> bool:
    """Whether a result is what it was; where it was NaN it has to be again."""
    return same(again, out) or (
        again.shape == out.shape and torch.isclose(again, out, 0.0, 0.0, equal_nan=True).all().item() is True
    )


# ---- One judged tensor of a call: a result or a gradient.

MISSING = {"missing": 1}  # statistics of a gradient that Paddle does not give
OVERTAKEN = logged(
    "an operand was changed in place since the call was made: the kernels' backward need not read it, the formula does"
)


def describe_tensor(tensor: torch.Tensor) -> dict[str, Any]:
    """Shape and dtype of a judged tensor."""
    return {"shape": list(tensor.shape), "dtype": dtype_of(tensor.dtype)}


class ComparedTensor:
    """One tensor of a call as both kernels computed it. ``spot``: the fields of its record that are known before any verdict.

    ``counted``: those that count calls and steps.
    """

    counted: dict[str, Any]
    spot: Spot

    def __init__(self, subject: ComparedCall, native: torch.Tensor, reference: torch.Tensor) -> None:
        self.subject, self.native, self.reference = subject, native, reference
        self.extra: Mapping[str, Any] | None = None  # statistics known already

    def quantity(self) -> Any:
        """The oracle's formula and bound (:class:`padiff_shim.numerics.quantity.Quantity`), or None where there are none."""
        raise NotImplementedError

    def kernels(self) -> dict[str, Any]:
        """Both kernels as functions of the operands, for tensors without a bound of their own."""
        raise NotImplementedError

    def tied(self, kernels: Mapping[str, Any]) -> TiedCall:
        """The tensor as :class:`~padiff_shim.numerics.ties.Ties` see it. ``kernels``: as :meth:`kernels` gives them."""
        raise NotImplementedError

    def moved(self, sides: tuple[torch.Tensor, torch.Tensor], *, rng: np.random.Generator, audit: bool) -> Judgement:
        """The verdict on both sides of an op that moves or chooses values."""
        raise NotImplementedError

    def tensors(self) -> dict[str, Any]:
        """What a script needs that shows the case alone."""
        subject = self.subject
        return {**dict(zip(subject.entry_point.names, subject.values())), "paddle": self.native, "torch": self.reference}

    def incoming(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The incoming gradients, by name."""
        yield from ()

    def undefined(self) -> bool:
        """Whether there is nothing that this tensor should be."""
        return False

    def overtaken(self) -> bool:
        """Whether the formula would be asked of other operands than the call had."""
        return False


class Result(ComparedTensor):
    """A result of a call. ``call``: Paddle's arguments."""

    def __init__(self, subject: ComparedCall, position: int, native: torch.Tensor, reference: torch.Tensor, call: Any) -> None:
        super().__init__(subject, native, reference)
        self.position, self.call = position, call
        self.spot = subject.place.result(position, native)
        # A further result of a call says which one it is.
        self.counted = {**subject.counted, "result": position} if position else subject.counted

    def quantity(self) -> Any:
        """The op's model is that of its first result."""
        model = self.subject.model
        return None if model is None or self.position else model.forward(self.subject.values())

    def kernels(self) -> dict[str, Any]:
        return self.subject.kernels(self.position, *self.call)

    def tied(self, kernels: Mapping[str, Any]) -> TiedCall:
        subject, operands = self.subject, kernels["operands"]
        main = subject.kernels(0, *self.call)["torch_kernel"] if self.position else None
        return TiedCall(
            kernels["torch_kernel"], operands, len(operands), subject.attributes, True, self.native.dtype,
            elementwise=subject.entry_point.op.elementwise, main=main,
        )  # fmt: skip

    def moved(self, sides: tuple[torch.Tensor, torch.Tensor], *, rng: np.random.Generator, audit: bool) -> Judgement:
        kernels = self.kernels()
        return ties_and_moves.results(*sides, kernels["torch_kernel"], kernels["operands"], kernels["variants"])


class WrittenOperand(ComparedTensor):
    """An operand that Paddle's function wrote on its way, though it is no result of the op."""

    def __init__(self, subject: ComparedCall, operand: int) -> None:
        tensor = subject.operands[operand]
        super().__init__(subject, tensor, tensor)
        self.name = subject.name_of(operand)
        self.spot = subject.place.written(operand, tensor)
        self.counted = {**subject.counted, "result": len(subject.outs) + operand}  # no call of its own

    @property
    def verdict(self) -> Judgement:
        """It is Paddle's, whatever was written."""
        reason = logged("Paddle's function writes {name}, an operand that is no result of it", name=self.name)
        return Judgement(Verdict.SEMANTICS, side=Side.PADDLE, hypothesis="writes-operand", reason=reason)


class Gradient(ComparedTensor):
    """The gradient of an operand. ``grads``: the incoming gradients, by the position of their result.

    ``partners``: Paddle's and Torch's gradients of all operands, by operand.
    """

    def __init__(
        self, subject: ComparedCall, operand: int, grads: Mapping[int, torch.Tensor], native: torch.Tensor, reference: torch.Tensor
    ) -> None:
        super().__init__(subject, native, reference)
        self.operand, self.grads = operand, grads
        self.partners: Mapping[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.spot, self.counted = subject.place.gradient(operand, native), subject.counted

    def quantity(self) -> Any:
        """The op's model knows the gradient that comes through the first result."""
        subject, model = self.subject, self.subject.model
        if model is None or list(self.grads) != [0]:
            return None
        name = f"operands.{self.operand}" if subject.entry_point.op.operands else subject.name_of(self.operand)
        return model.gradient(name, subject.values(), subject.outs[0], self.grads[0])

    def kernels(self) -> dict[str, Any]:
        return self.subject.gradient_kernels(self.operand, self.grads)

    def tied(self, kernels: Mapping[str, Any]) -> TiedCall:
        subject, needs = self.subject, self.subject.inputs.needs
        others = [operand for operand in self.partners if operand != self.operand]
        partner = None
        if len(others) == 1:
            kernel = subject.gradient_kernels(others[0], self.grads)["torch_kernel"]
            partner = (kernel, *self.partners[others[0]])
        return TiedCall(
            kernels["torch_kernel"], kernels["operands"], len(needs), subject.attributes, False, self.native.dtype,
            elementwise=subject.entry_point.op.elementwise, partner=partner,
        )  # fmt: skip

    def moved(self, sides: tuple[torch.Tensor, torch.Tensor], *, rng: np.random.Generator, audit: bool) -> Judgement:
        kernels, needs = self.kernels(), len(self.subject.inputs.needs)
        formula, operands, variants = (kernels[name] for name in ("torch_kernel", "operands", "variants"))
        return ties_and_moves.gradients(*sides, formula, operands, needs, variants, rng=rng, audit=audit)

    def undefined(self) -> bool:
        """Where infinite operands, none of them NaN, make a NaN (inf - inf), there is no slope."""
        floats = [side for side in self.subject.operands if isinstance(side, torch.Tensor) and side.is_floating_point()]
        if any(bool(side.isnan().any()) for side in floats) or not any(bool(side.isinf().any()) for side in floats):
            return False
        return all(bool(self.subject.outs[position].isnan().all()) for position in self.grads)

    def overtaken(self) -> bool:
        return self.subject.overtaken()

    def incoming(self) -> Iterator[tuple[str, torch.Tensor]]:
        for position, grad in self.grads.items():
            yield f"grad[{position}]" if position else "grad", grad

    def tensors(self) -> dict[str, Any]:
        return {**super().tensors(), **dict(self.incoming())}
