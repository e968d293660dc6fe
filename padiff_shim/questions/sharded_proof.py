"""``padiff_shim.prove_sharded``: whether a port whose weights or batch lie on several ranks is right, and if not, where."""

from __future__ import annotations

import contextlib
import linecache
import math
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paddle
import paddle.distributed
import torch

from ..arguments import path, port_and_original, seed as checked_seed
from ..dispatch.dtypes import HALF_NAMES
from ..errors import ArgumentError, FileError, PadiffShimError, described
from ..files import Scratch
from ..modes.environment import versions
from ..present.document import Document, Findings, Items, ListItem, Notes
from ..progress import Waiting
from ..proof.findings import Cause, Mistake, ProgramPlace, ProofVerdict, Stage
from ..proof.pages import TONES, listed_finding, next_steps
from ..proof.programs import Inputs
from ..proof.proof import ProofAnswer
from ..proof.prove import both_losses
from ..recording.call_reasons import CALL_KINDS
from ..recording.diff import diff_of_ranks
from ..recording.difference import Difference, EqualWithin, TensorKey, TensorRow, tensor_key
from ..recording.layouts import Groups, ShardRules, weight_name
from ..recording.names import NameMap, Shapes, roots
from ..recording.pages import described as row_text
from ..recording.rank_causes import RANK_CAUSES, RankCauses
from ..recording.reading import read
from ..recording.tensors import parameter_name
from ..recording.whole_run import join
from ..recording.whole_tensors import Way
from ..runlog.events import IN_STEP
from ..text import listed, many, tr
from .sharded_runs import (
    STATISTICS,
    WIDE,
    Rendezvous,
    Step,
    digest_of,
    dtype_of_model,
    near_constants,
    record_original,
    record_port,
    write_constants,
)  # fmt: skip

CLOSE = 1e-12  # relative to the largest element, in float64
FACTOR = 64  # a difference in float64 may be so many times what rounding at the models' dtype becomes there
_NEAR = 0.1  # relative: results of one call in two dtypes
_ROWS = 1_000_000  # all of one step
_DIGITS = {"bfloat16": 8, "float16": 11, "float32": 24, WIDE: 53}  # binary
_GRADIENTS = ("gradient", IN_STEP)
_RESULTS = ("note", IN_STEP)


@dataclass(repr=False)
class ShardedProof(ProofAnswer):
    """Whether a port that lies on several ranks is right. True in a condition if the code is right; the same on all ranks.

    Attributes:
        verdict: the answer: ``CODE_CORRECT``, ``CODE_CORRECT_WITHIN_ROUNDING``, ``CODE_DIFFERS``, ``WEIGHTS_DIFFER`` or
            ``NOT_COMPARABLE``.
        reason: the answer in a sentence.
        ranks: how many ranks the port has.
        dtype: that of the models' parameters.
        stages: what was compared.
        mistakes: the first difference of the code, with its cause; at most one.
        first: the first row that differs in float64, with rank and layer; None where none does.
        differences: the largest relative differences of the loss and the gradients, by dtype of the runs; None without such a run.
        notes: what else a reader has to know.
        seconds: what the proof took on rank 0.
    """

    verdict: ProofVerdict
    reason: str
    ranks: int
    dtype: str
    stages: list[Stage] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    first: TensorRow | None = None
    differences: dict[str, float | None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    environment: dict[str, str] = field(default_factory=versions)

    @property
    def equal(self) -> bool:
        """Whether the code is right."""
        return bool(self)

    def content(self) -> Document:
        """The verdict, the first mistake with its lines, stages and notes."""
        stages = Items([ListItem(stage.text, tr(stage.name), TONES[stage.right]) for stage in self.stages], marks=True)
        findings = Findings([listed_finding(mistake, len(self.mistakes)) for mistake in self.mistakes])
        parts = [findings, stages, Notes(self.notes), next_steps(self.following)]
        return Document(self.headline, parts, "good" if self else "bad")


@Waiting("proving")
def prove_sharded(
    paddle_layer: Any,
    torch_module: Any,
    inputs: Any,
    *,
    loss: Callable[[Any], Any] | tuple[Callable[[Any], Any], Callable[[Any], Any]],
    step: Callable[..., Any] | None = None,
    shards: Mapping[str, Way] | str = "auto",
    names: Mapping[str, str] | None = None,
    folder: str | Path | None = None,
    seed: int = 0,
    timeout: float = 1800.0,
) -> ShardedProof:
    """Say whether a port of which each rank has its share computes what the whole Torch model computes, and if not, where and why.

    Every rank of a distributed program calls it, with its own share of the port. All ranks run one step of the port on Torch's
    kernels, rank 0 runs the original; both once more in float64. What the ranks have computed is put together as
    :func:`padiff_shim.diff` does with ``shards=``: weights, results, loss, and gradients as an optimizer's step would use them.
    What differs in float64 by more than rounding is a mistake of the code. The caller's models are not changed.

    Args:
        paddle_layer: this rank's part of the port, with its weights: a shard of them, all of them (data parallelism), or a stage of
            a pipeline; a :class:`paddle.DataParallel` or a layer of fleet, too.
        torch_module: the original with the same weights, whole. Rank 0's is used.
        inputs: as for :func:`padiff_shim.prove`. Where ranks have shares of the batch, a function: of ``"paddle"`` it returns this
            rank's share, of ``"torch"`` the whole batch.
        loss: a function of the model's output that returns a scalar, or two of them (Paddle's, Torch's). Paddle's is not called
            where ``step`` is passed.
        step: what the program does between ``clear_grad()`` and ``optimizer.step()``: a function of the layer and of its arguments
            that runs forward and backward, combines gradients over ranks if nothing else does, and returns the loss of this rank,
            as the mean over its share, or None if the rank has none. Default: ``loss(layer(inputs)).backward()``.
        shards, names: how tensors are put together, and which names belong together, as for :func:`padiff_shim.diff`; ``names``
            are patterns of the port's paths -> the original's; outermost layers as ``llama`` and ``model`` need no entry.
        folder: a new or empty folder that all ranks see, for the recordings of all runs, which stay there. Default: a temporary one
            of this machine.
        seed: all random generators begin with it in each run.
        timeout: seconds that a rank waits for the others between the runs.

    Returns:
        A :class:`ShardedProof`, equal on all ranks.

    Raises:
        ArgumentError: an argument that is not accepted; the message says what is.
        FileError: the folder cannot be written, or holds something.
        PadiffShimError: another rank has failed, or has not come; the message names it. Errors of the models themselves are raised
            unchanged on their ranks.

    >>> import numpy, paddle, torch, padiff_shim
    >>> port, original = paddle.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    >>> _ = padiff_shim.transfer_weights(original, port)
    >>> proof = padiff_shim.prove_sharded(port, original, numpy.eye(4), loss=lambda y: (y ** 2).mean())  # here of one rank
    >>> bool(proof), proof.ranks
    (True, 1)
    """
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
        raise ArgumentError("timeout= is a number of seconds above 0, got {timeout}", timeout=described(timeout))
    start = time.perf_counter()
    spread = paddle.distributed.is_initialized()
    rank, count = (paddle.distributed.get_rank(), paddle.distributed.get_world_size()) if spread else (0, 1)
    place, scratch = _agreed(folder, rank, count)
    meeting = Rendezvous(place, rank, count, timeout)
    with meeting.together(), _removed(place, scratch, meeting):
        question = _Question(paddle_layer, torch_module, inputs, loss, step, shards, names, seed)
        return question.answer(place, meeting, start)


def _agreed(folder: str | Path | None, rank: int, count: int) -> tuple[Path, Scratch | None]:
    """A folder that rank 0 has made or checked, for all ranks; and what removes it, on rank 0 where it is temporary.

    Raises:
        FileError: on all ranks, where rank 0 cannot have it.
    """
    answer, scratch = ["", ""], None
    if rank == 0:
        try:
            scratch = Scratch() if folder is None else None
            answer[0] = str(_made(folder) if scratch is None else scratch.path)
        except (OSError, PadiffShimError) as error:
            answer[1] = str(error)
    if count > 1:
        paddle.distributed.broadcast_object_list(answer, src=0)
    if answer[1]:
        raise FileError(answer[1])
    if not Path(answer[0]).is_dir():
        raise FileError("rank {rank} does not see the folder {folder} of rank 0: pass folder=", rank=rank, folder=answer[0])
    return Path(answer[0]), scratch


def _made(folder: str | Path | None) -> Path:
    target = path("folder", folder).absolute()
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise FileError("{folder} is not empty: recordings of a proof need a folder of their own", folder=target)
    return target


_left: list[Scratch] = []  # of proofs that failed: the other ranks look there until this process ends


@contextlib.contextmanager
def _removed(place: Path, scratch: Scratch | None, meeting: Rendezvous) -> Iterator[None]:
    """A temporary folder is removed when all ranks have read the answer; of a failure the recordings alone, at once."""
    try:
        yield
        meeting.mark("read")
        if scratch is not None:
            meeting.wait("read")
            scratch.close()
    except BaseException:
        if scratch is not None:
            _left.append(scratch)
            for recording in place.iterdir():
                if recording.is_dir():
                    shutil.rmtree(recording, ignore_errors=True)
        raise


class _Question:
    """The checked arguments."""

    def __init__(self, layer: Any, module: Any, inputs: Any, loss: Any, step: Any, shards: Any, names: Any, seed: int) -> None:
        port_and_original(layer, module)
        if loss is None:
            raise ArgumentError(
                "loss= is a function of the output, or a pair of them (Paddle's, Torch's): shares of a batch need one"
            )
        if step is not None and not callable(step):
            raise ArgumentError("step= is a function of the layer and its arguments, got {step}", step=described(step))
        self.layer, self.module, self.inputs = layer, module, Inputs(inputs)
        losses = both_losses(loss)
        self.original_loss, self.step, self._plain = losses[1], step or _plain_step(losses[0]), step is None
        self._groups: Groups = ()
        self.shards, self.names, self.seed = shards, names, checked_seed(seed)
        ShardRules(shards)  # raises before anything runs
        NameMap(names)

    def answer(self, place: Path, meeting: Rendezvous, start: float) -> ShardedProof:
        """Run, put together and judge; each rank gets rank 0's answer. ``start``: when the proof began, by the clock of rank 0."""
        dtype, drawn = dtype_of_model(self.module), False
        kinds = ("native",) if dtype == WIDE else ("native", WIDE)
        if meeting.rank == 0:  # first: where the original fails no rank of the port waits in a collective
            for kind in kinds:
                folder = place / f"original-{kind}"
                drawn |= record_original(folder, self.module, self.inputs, self.original_loss, self.seed, wide=kind == WIDE)
            write_constants(place / "constants.npz", self.module)
        meeting.mark("original", [_shapes_of(self.layer), _shapes_of(self.module)])
        shapes = meeting.wait("original")
        if self.names is None:
            parts = {name: shape for known, _ in shapes.values() for name, shape in known.items()}
            self.names = roots(parts, shapes[0][1])
        near = near_constants(place / "constants.npz", self.layer, NameMap(self.names))
        for kind in kinds:
            folder = place / f"port-{kind}"
            drawn |= record_port(folder, self.layer, self.inputs, self.step, self.seed, near, wide=kind == WIDE)
        own = dtype_of_model(self.layer)
        data = digest_of(self.inputs, own)
        meeting.mark(
            "port",
            {
                "drawn": drawn,
                "training": getattr(self.layer, "_layers", self.layer).training,
                "dtype": own,
                "data": data,
                "near": sorted(near),
            },
        )
        ranks = meeting.wait("port")
        self._groups = self._shares({rank: known["data"] for rank, known in ranks.items()})
        answer: list[Any] = [None]
        if meeting.rank == 0:
            answer[0] = self._judged(place, kinds, dtype, list(ranks.values()))
            answer[0].seconds = time.perf_counter() - start
        meeting.mark("answer")
        meeting.wait("answer", [0])  # where rank 0 fails, no other waits in the collective
        if meeting.count > 1:
            paddle.distributed.broadcast_object_list(answer, src=0)
        proof: ShardedProof = answer[0]
        return proof

    def _shares(self, data: Mapping[int, str]) -> Groups:
        """Ranks that read the same data, if their inputs tell: a program's own step may choose its share itself."""
        shares: defaultdict[str, list[int]] = defaultdict(list)
        for rank, digest in sorted(data.items()):
            shares[digest].append(rank)
        sure = (len(shares) > 1 or self._plain) and len({len(ranks) for ranks in shares.values()}) == 1
        return tuple(map(tuple, shares.values())) if sure else ()

    def _judged(self, place: Path, kinds: Sequence[str], dtype: str, ranks: Sequence[Mapping[str, Any]]) -> ShardedProof:
        coarsest = min((dtype, *(rank["dtype"] for rank in ranks)), key=_DIGITS.__getitem__)
        unit = 2.0 ** -_DIGITS[coarsest]
        native = self._difference(place, "native", EqualWithin(0.0, math.sqrt(unit), crossing=True))
        wide = self._difference(place, kinds[-1], EqualWithin(0.0, CLOSE, crossing=True, more=_rounding(native, unit)))
        proof = ShardedProof(ProofVerdict.CODE_DIFFERS, "", len(ranks), coarsest)
        if any(rank["training"] is not self.module.training for rank in ranks):
            proof.verdict = ProofVerdict.NOT_COMPARABLE
            proof.reason = tr("one model is in training mode, the other is not: call train() or eval() on both")
            return proof
        near = sorted({name for rank in ranks for name in rank["near"]})
        if near:
            proof.notes.append(
                tr("buffers differ from the original's by rounding, and had its values in these runs: {names}", names=listed(near))
            )
        named = (*self.module.named_parameters(), *self.module.named_buffers())
        weights = {name for name, tensor in named if isinstance(tensor, torch.nn.Parameter) or name.endswith(STATISTICS)}
        drawn = any(rank["drawn"] for rank in ranks)
        _Judge(proof, native, wide, weights, drawn=drawn).judge(lambda: self._causes(place, kinds[-1], wide))
        return proof

    def _folders(self, place: Path, kind: str) -> tuple[Path, Path]:
        return place / f"port-{kind}", place / f"original-{kind}"

    def _difference(self, place: Path, kind: str, tolerances: EqualWithin) -> Difference:
        rules, names = ShardRules(self.shards), NameMap(self.names)
        return diff_of_ranks(self._folders(place, kind), rules, names, tolerances, self._groups, _ROWS)

    def _causes(self, place: Path, kind: str, wide: Difference) -> RankCauses:
        port, original = map(read, self._folders(place, kind))
        return RankCauses(join(port, original, ShardRules(self.shards), NameMap(self.names), self._groups)[0], wide.rows)


def _shapes_of(model: Any) -> Shapes:
    """Of this rank's parameters, by their names in the model."""
    return {weight_name(name): tuple(parameter.shape) for name, parameter in model.named_parameters()}


def _plain_step(loss: Callable[[Any], Any]) -> Step:
    def step(layer: Any, *args: Any, **kwargs: Any) -> Any:
        value = loss(layer(*args, **kwargs))
        value.backward()
        return value

    return step


def _rounding(native: Difference, unit: float) -> dict[TensorKey | str, float]:
    """How far tensors of float64 may be apart by rounding: by what they are apart at the models' dtype, of roundoff ``unit``.

    Gradients also by the rounding of the largest of them: one that is 0 in exact arithmetic has no digits of its own.
    """
    share = 2.0 ** -_DIGITS[WIDE] / unit
    floors: dict[TensorKey | str, float] = {}
    largest = 0.0
    for row in native.compared:
        if row.b is None or row.apart is None:
            continue
        if unit > 2.0 ** -_DIGITS[WIDE] and math.isfinite(row.apart.max_abs):
            key = tensor_key(row.b)
            floors[key] = max(floors.get(key, 0.0), FACTOR * share * row.apart.max_abs)
        if row.any.kind in _GRADIENTS:
            sizes = [abs(row.b.figures.get(name, 0.0)) for name in ("min", "max")]
            largest = max(largest, *sizes)
    return floors | dict.fromkeys(_GRADIENTS, 4 * 2.0 ** -_DIGITS[WIDE] * largest)


class _Judge:
    """Writes the verdict of two differences, at the models' dtype and in float64, into a proof."""

    def __init__(self, proof: ShardedProof, native: Difference, wide: Difference, weights: set[str], *, drawn: bool) -> None:
        self._proof, self._native, self._wide, self._weights, self._drawn = proof, native, wide, weights, drawn
        rows: dict[str, TensorRow] = {}  # as the run begins; running statistics come once more behind it
        for row in wide.compared:
            if row.any.kind == "parameter" and row.b is not None:
                rows.setdefault(row.b.name, row)
        self._pairs = [row for row in rows.values() if _same_name(row) or (row.apart is not None and row.apart.identical)]

    def judge(self, causes: Callable[[], RankCauses]) -> None:
        """Weights first, then results, loss and gradients."""
        proof, wide = self._proof, self._wide
        results = _results(wide)
        kinds = {row.any.kind for row in results}
        proof.differences = {WIDE: _farthest(results)}
        if proof.dtype != WIDE:
            proof.differences[proof.dtype] = _farthest([row for row in _results(self._native) if row.any.kind in kinds])
        proof.notes += [note for note in wide.notes if note not in proof.notes]
        if self._of_weights(causes):
            return
        obstacle = self._obstacle(results)
        if obstacle:
            proof.verdict, proof.reason = ProofVerdict.NOT_COMPARABLE, obstacle
            return
        self._stages(results)
        if any(row.differs for row in results):
            self._differs(causes)
        else:
            self._right(results)

    def _of_weights(self, causes: Callable[[], RankCauses]) -> bool:
        """Whether weights that belong together differ: then nothing is said of the code."""
        proof = self._proof
        rows = [row for row in self._pairs if row.b is not None and row.b.name in self._weights]
        differing = [row for row in rows if row.apart is not None and not row.apart.identical]
        if not differing:
            text = tr("{weights}, put together, hold equal values", weights=many(len(rows), "parameter"))
            proof.stages.append(Stage("weights", True if rows else None, text))
            return False
        row = differing[0]
        proof.first = row
        proof.verdict = ProofVerdict.WEIGHTS_DIFFER
        proof.reason = tr(
            "{number:,} of {all:,} parameters hold other values than the original's, the first {row}",
            number=len(differing), all=len(rows), row=row_text(row),
        )  # fmt: skip
        if cause := causes().of(row):
            proof.reason = tr("{reason}: {cause}", reason=proof.reason, cause=tr(RANK_CAUSES[cause.kind][1], **cause.numbers))
        proof.stages.append(Stage("weights", False, proof.reason))
        return True

    def _obstacle(self, results: Sequence[TensorRow]) -> str:
        """Why nothing can be said; "" where something can."""
        wide = self._wide
        differs = any(row.differs for row in results)
        if wide.holes:
            return wide.holes[0]
        narrow = next((row for row in results for side in (row.a, row.b) if side is not None and side.dtype != WIDE), None)
        if narrow is not None:
            return tr(
                "{row} is not of float64 where everything else is: whether a difference is rounding cannot be told",
                row=narrow.any.sentence(),
            )
        if differs and self._drawn:
            return tr("random numbers are drawn, other ones by each rank: call eval() on both models, or set p=0")
        if not any(row.any.kind == IN_STEP for row in results):
            return tr("no gradient of the port belongs to one of the original: names= says which names belong together")
        return self._without_partner(results, differs=differs)

    def _without_partner(self, results: Sequence[TensorRow], *, differs: bool) -> str:
        """Which weights or gradients belong to none of the other model, where that leaves the answer open; "" where it does not."""
        wide = self._wide
        pairs = {(row.a.name, row.b.name) for row in self._pairs if row.a is not None and row.b is not None}
        missing = self._weights - {name for _, name in pairs}
        if differs and missing:
            return tr("weights without partner: {names}: names= says which names belong together", names=listed(sorted(missing)))
        gradients = [row for row in wide.rows if row.any.kind == IN_STEP]
        strange = [row for row in gradients if row.a is not None and row.b is not None and (row.a.name, row.b.name) not in pairs]
        alone = [row for row in gradients if row.apart is None and any(map(row.any.figures.get, _SOME))]
        if strange or (alone and not differs):
            names = listed([row.any.name for row in strange or alone])
            return tr("gradients without partner: {names}: names= says which names belong together", names=names)
        if wide.left_out[IN_STEP] and not differs:
            number = many(wide.left_out[IN_STEP], IN_STEP)
            return tr(
                "{number} cannot be put together: {tensors}", number=number, tensors=listed([text for text, _ in wide.not_joined])
            )
        return ""

    def _stages(self, results: Sequence[TensorRow]) -> None:
        stages, rows = self._proof.stages, self._wide.compared
        computed = [row for row in rows if row.any.kind in ("op", "layer")]
        first = _first_fault([row for row in self._wide.rows if row.any.kind in ("op", "layer")])
        losses = [row for row in results if row.any.kind == "note"]
        ahead = bool(losses) and not any(row.differs for row in losses)
        if ahead or not any(row.differs for row in results):
            first = None
        if not computed:
            text = tr("no result was compared")
        elif first is None:
            text = tr(
                "{results} of calls and layers agree in float64", results=many(sum(not row.differs for row in computed), "result")
            )
        else:
            text = tr("the first that differs is {row}", row=row_text(first))
        stages.append(Stage("forward", None if not computed else first is None, text))
        if losses:
            values = [tensor.figures.get("mean", math.nan) for tensor in (losses[0].a, losses[0].b) if tensor is not None]
            text = tr("{port:.9g}, the original's {original:.9g}", port=values[0], original=values[-1])
            stages.append(Stage("loss", ahead, text))
        elif not any(row.any.kind == "note" for row in self._wide.compared):
            self._proof.notes.append(tr("no loss was compared"))
        gradients = [row for row in results if row.any.kind == IN_STEP]
        wrong = sum(row.differs for row in gradients)
        text = tr(
            "{right:,} of {gradients} as step() uses them agree in float64", right=len(gradients) - wrong,
            gradients=many(len(gradients), "gradient"),
        )  # fmt: skip
        stages.append(Stage("backward", None if not gradients else not wrong, text))

    def _differs(self, causes: Callable[[], RankCauses]) -> None:
        proof = self._proof
        first = _first_fault(self._wide.rows)
        assert first is not None  # a result differs
        proof.first = first
        known, reason = causes().of(first), self._wide.reason
        cause = Cause.RANK_RESULT if known is None else Cause(RANK_CAUSES[known.kind][0])
        text = _row_text(first) if known is None else tr(RANK_CAUSES[known.kind][1], **known.numbers)
        if cause == Cause.RANK_RESULT and reason is not None and reason.kind in CALL_KINDS and first is self._wide.first:
            text = tr("{reason} (a is the port, b the original)", reason=reason.text)
        layer = first.any.layer or (first.any.name.rpartition(".")[0] if first.any.kind in _GRADIENTS else "")
        places = [None if side is None or not side.site else _place(side) for side in (first.b, first.a)]
        proof.mistakes = [Mistake(cause, text, places[0], places[1], (layer,))]
        proof.reason = text

    def _right(self, results: Sequence[TensorRow]) -> None:
        proof = self._proof
        apart, near = proof.differences.get(WIDE), proof.differences.get(proof.dtype)
        if all(row.apart is not None and row.apart.identical for row in _results(self._native)):
            proof.verdict = ProofVerdict.CODE_CORRECT
            proof.reason = tr("{ranks}: loss and gradients are the original's, bit for bit", ranks=many(proof.ranks, "rank"))
            return
        if self._at_work(near):
            return
        proof.verdict = ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING
        gradients = many(sum(row.any.kind == IN_STEP for row in results), "gradient")
        if proof.dtype == WIDE:
            proof.reason = tr(
                "{ranks}: loss and {gradients} agree in float64 to {apart:.2g}, relative",
                ranks=many(proof.ranks, "rank"),
                gradients=gradients,
                apart=apart,
            )
            return
        proof.reason = tr(
            "{ranks}: loss and {gradients} agree in float64 to {apart:.2g}, relative; in {dtype} to {near:.2g}",
            ranks=many(proof.ranks, "rank"), gradients=gradients, apart=apart, dtype=proof.dtype, near=near,
        )  # fmt: skip

    def _at_work(self, near: float | None) -> bool:
        """Whether something is wrong at the models' dtype alone: a call in fewer digits, or a difference that no rounding makes."""
        proof = self._proof
        narrower = next(filter(_in_fewer_digits, self._native.compared), None)
        if narrower is not None and narrower.a is not None and narrower.b is not None:
            call, original = narrower.a, narrower.b
            text = tr(
                "{call} is computed in {dtype}, in the original in {expected}",
                call=call.sentence(),
                dtype=call.dtype,
                expected=original.dtype,
            )
            proof.first, proof.verdict, proof.reason = narrower, ProofVerdict.CODE_DIFFERS, text
            proof.mistakes = [Mistake(Cause.DTYPE, text, _place(original), _place(call), (call.layer,))]
            return True
        digits = _DIGITS[proof.dtype]
        if near is None or near <= (4 if digits < _DIGITS["float32"] else 1) * 2.0 ** (-digits / 2):
            return False
        proof.verdict, proof.first = ProofVerdict.NOT_COMPARABLE, _first_fault(self._native.rows)
        proof.reason = tr(
            "they agree in float64, but are {near:.2g} apart in {dtype}: a part in fewer digits, an overflow, or a tie",
            dtype=proof.dtype,
            near=near,
        )
        return True


def _in_fewer_digits(row: TensorRow) -> bool:
    """Whether the port computes a call in 16 bits that the original does not, in the same layer and with near values."""
    if row.any.kind != "op" or row.a is None or row.b is None or row.apart is None:
        return False
    alike = row.a.layer == row.b.layer and bool({*row.a.names} & {*row.b.names}) and row.apart.relative < _NEAR
    return alike and row.a.dtype in HALF_NAMES and row.b.dtype not in HALF_NAMES


def _same_name(row: TensorRow) -> bool:
    return row.a is not None and row.b is not None and parameter_name(row.a.name) == parameter_name(row.b.name)


_SOME = ("norm", "nan", "inf")


def _results(difference: Difference) -> list[TensorRow]:
    """The loss, and gradients as ``step()`` uses them: what decides."""
    return [row for row in difference.rows if row.any.kind in _RESULTS and (row.apart is not None or row.differs)]


def _farthest(rows: Sequence[TensorRow]) -> float | None:
    """The largest difference, relative to the largest element of its kind: of the loss, or of all gradients."""
    farthest: list[float] = []
    for kind in _RESULTS:
        pairs = [(row.apart, row.b) for row in rows if row.any.kind == kind]
        known = [(distance, tensor) for distance, tensor in pairs if distance is not None and tensor is not None]
        largest = max((abs(tensor.figures.get(name, 0.0)) for _, tensor in known for name in ("min", "max")), default=0.0)
        sizes = [math.inf if math.isnan(distance.max_abs) else distance.max_abs for distance, _ in known]
        farthest += [size / largest if largest else math.inf if size else 0.0 for size in sizes]
    return max(farthest, default=None)


def _first_fault(rows: Sequence[TensorRow]) -> TensorRow | None:
    """The first row that differs of what the step computed."""
    return next((row for row in rows if row.differs and row.any.kind != "parameter"), None)


def _row_text(row: TensorRow) -> str:
    """A row in words."""
    if row.apart is not None:
        return row_text(row)
    if row.a is None:
        return tr("the port has no {gradient}, which the original has", gradient=row.any.sentence())
    return tr("the port has a {gradient}, which the original has not", gradient=row.any.sentence())


def _place(tensor: Any) -> ProgramPlace:
    source = linecache.getline(tensor.file, tensor.line).strip()
    return ProgramPlace(tensor.layer, tensor.file, tensor.line, source, tensor.name)
