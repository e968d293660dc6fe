"""The faults: mistakes a developer could make, ten of each area.

They were chosen by reading the product, without a look at its tests. Each changes what a user sees: none is a crash at import, and
none costs time alone.
"""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """``old``, which ``file`` has once, is replaced by ``new``; ``what``: what is wrong then."""

    name: str
    file: str
    old: str
    new: str
    what: str


TABLE = (
    Fault(
        "redirecting-keyword",
        "padiff_shim/table/signature.py",
        "                idle.append((place, key))\n",
        "                continue\n",
        "out= and the like are ignored where they are given",
    ),
    Fault(
        "reduce-all-beside-axis",
        "padiff_shim/table/signature.py",
        'if values.get("reduce_all"):',
        'if values.get("reduce_all") and values.get("axis") is None:',
        "the legacy attribute reduce_all gives way to an axis",
    ),
    Fault(
        "odd-padding",
        "patches/_windows.py",
        "(width // 2, width - width // 2)",
        "(width - width // 2, width // 2)",
        "with padding SAME the odd element goes before instead of behind",
    ),
    Fault(
        "ignored-labels-divide",
        "patches/loss.py",
        "values / counted.sum().clamp(min=1e-5)",
        "values / counted.numel()",
        "a normalized sigmoid loss is divided by all labels, those that are ignored too",
    ),
    Fault(
        "median-of-nan",
        "patches/ordering.py",
        "torch.where(count > last, place, last)",
        "place",
        "the median of a row with a NaN is that of the other elements",
    ),
    Fault(
        "states-in-sorted-order",
        "patches/rnn.py",
        "index_select(1, packed.unsorted_indices)",
        "index_select(1, packed.sorted_indices)",
        "the last states of sequences of different lengths are not brought back into the batch's order",
    ),
    Fault(
        "index-without-axes",
        "patches/indexing.py",
        "return rows if index.ndim else rows.squeeze(axis)",
        "return rows",
        "a 0-D index leaves its axis",
    ),
    Fault(
        "unbiased-variance",
        "patches/norm.py",
        "unbiased * ((count - 1) / count) + momentum * variance",
        "unbiased + momentum * variance",
        "the running variance is Torch's unbiased one, not Paddle's",
    ),
    Fault(
        "product-over-two-axes",
        "patches/reduction.py",
        "for place in reversed(over):",
        "for place in over:",
        "a product over several axes takes the wrong ones, as each that is gone moves the next",
    ),
    Fault(
        "scale-of-attention",
        "patches/attention.py",
        "attention_kernel(q, k, v, mask, dropout, causal, scale)",
        "attention_kernel(q, k, v, mask, dropout, causal, None)",
        "the scale of attention is not handed on",
    ),
)

DISPATCH = (
    Fault(
        "name-of-another-layer",
        "padiff_shim/dispatch/call_site.py",
        "if name is None or not _lies_at(parent, name, layer):",
        "if name is None:",
        "a layer that took the place of another in memory bears that one's name",
    ),
    Fault(
        "strangers-stay-known",
        "padiff_shim/dispatch/frames.py",
        "    _open[id(frame)] = weakref.ref(frame)\n    _strangers.clear()\n",
        "    _open[id(frame)] = weakref.ref(frame)\n",
        "a second mode is not told of a thread that computes beside it, if the first one was",
    ),
    Fault(
        "factor-of-the-rate",
        "padiff_shim/optimizers/step_cache.py",
        "exact = self.base() if factor == 1.0 else self.base() * factor",
        "exact = self.base()",
        "a parameter with a factor of its own gets a learning rate that was rounded to float32",
    ),
    Fault(
        "scaler-found-infinity",
        "padiff_shim/optimizers/step.py",
        'skips = bool(optimizer._get_auxiliary_var("found_inf"))',
        "skips = False",
        "Adamax counts a step that the scaler has left out",
    ),
    Fault(
        "unclipped-in-the-norm",
        "padiff_shim/optimizers/clipping.py",
        "clipped = [pair for pair in pairs_with_grad if _is_clipped(pair[0])]",
        "clipped = pairs_with_grad",
        "parameters with need_clip=False count in the global norm, and the others get their gradients",
    ),
    Fault(
        "result-lent-on-the-shortcut",
        "padiff_shim/substitution/execute.py",
        "        if op.copies_result and read.results:\n            return None\n",
        "",
        "from the second call on, the program gets the very result that Torch's backward reads, not a copy",
    ),
    Fault(
        "list-of-tensors-uncounted",
        "padiff_shim/intercept/entry_points.py",
        "        elif type(value) in (list, tuple) and value and type(value[0]) in TENSOR_TYPES and value[0].dtype in _FLOATS:\n"
        "            return True\n",
        "",
        "a float op that takes a list of tensors runs natively without being counted",
    ),
    Fault(
        "gradients-stay-off",
        "padiff_shim/intercept/engine.py",
        "                    tracer._has_grad = recorded\n",
        "",
        "after an error (a Ctrl-C, say) in a post hook of Paddle's graph no gradients are recorded any more",
    ),
    Fault(
        "somebody-elses-patch",
        "padiff_shim/patching/patcher.py",
        "        if self.is_state(now, self.hooked):\n            self.write(self.native)",
        "        if not self.is_state(now, self.native):\n            self.write(self.native)",
        "leaving a mode takes away what somebody else has put over ours",
    ),
    Fault(
        "stale-snapshot",
        "padiff_shim/frameworks/weight_copies.py",
        "        self.snapshot.copy_(self.source)\n",
        "",
        "a weight that is set back to its first values is taken for unchanged: the transposed copy holds the later ones",
    ),
)

TAPE = (
    Fault(
        "later-turn-overwrites",
        "padiff_shim/tape/backward.py",
        "total[id(side)] = side, grad if known is None else known[1] + grad",
        "total[id(side)] = side, grad",
        "what a later turn of a backward brings to a tensor replaces what waits for it",
    ),
    Fault(
        "gradient-of-two-operands",
        "padiff_shim/tape/backward.py",
        "return side, laid if alone else laid.clone()",
        "return side, laid",
        "two parameters whose sum was taken share the memory of their gradients",
    ),
    Fault(
        "call-counted-twice",
        "padiff_shim/tape/calls.py",
        "if call.tally is not None and call.counted is not session:",
        "if call.tally is not None:",
        "a backward that runs through a call in two turns counts it twice",
    ),
    Fault(
        "same-memory-other-shape",
        "padiff_shim/tape/twins.py",
        "tensor.is_leaf, tensor.shape, strides)",
        "tensor.is_leaf)",
        "a parameter whose data were exchanged for their transpose is still computed with as it was",
    ),
    Fault(
        "partial-gradient-overwritten",
        "padiff_shim/tape/backward.py",
        "self.total[index] = grad if total is None else self.added(total, grad)",
        "self.total[index] = grad",
        "paddle.grad gives the last contribution to an input, not their sum",
    ),
    Fault(
        "retained-in-two-turns",
        "padiff_shim/tape/hooks.py",
        "    if id(tensor) in retained and tensor.grad is not None:\n        return to_torch(tensor.grad) + grad\n",
        "",
        "the retained gradient of a tensor that is reached in two turns is that of the last",
    ),
    Fault(
        "copied-operand-unwatched",
        "padiff_shim/tape/calls.py",
        "memories | copies.originals(copied)",
        "memories",
        "an operand that Torch copied for its backward may change in place without an error",
    ),
    Fault(
        "view-walked-twice",
        "padiff_shim/tape/views.py",
        "    if record is None:\n        _counted(name, side)\n    set_attribute(source, TAPE, made)",
        "    set_attribute(source, TAPE, made)",
        "a second backward through a view of a parameter does not raise",
    ),
    Fault(
        "result-written-twice",
        "padiff_shim/tape/islands.py",
        "    if reads_result:\n        call.keep(memory)\n",
        "",
        "the result of an in-place op, which its backward reads, may be overwritten without an error",
    ),
    Fault(
        "gradient-lost-with-the-sentinel",
        "padiff_shim/tape/hooks.py",
        "    if grad is not None:\n        give_gradient(tensor, grad)\n",
        "",
        "a tensor whose node is exchanged loses the gradient that it has",
    ),
)

JUDGE = (
    Fault(
        "bound-four-times",
        "padiff_shim/numerics/trial.py",
        "count, certain = math.prod(quantity.shape), quantity.k + 2.0",
        "count, certain = math.prod(quantity.shape), 4.0 * (quantity.k + 2.0)",
        "the certain rounding bound is four times too wide",
    ),
    Fault(
        "sides-of-exact-results",
        "padiff_shim/numerics/special_cases.py",
        "((Side.PADDLE, paddle), (Side.TORCH, torch_))",
        "((Side.PADDLE, torch_), (Side.TORCH, paddle))",
        "of two integer results the right side is accused",
    ),
    Fault(
        "nan-equals-nan",
        "padiff_shim/numerics/difference.py",
        "same = torch.equal\n",
        "same = lambda tensor, other: torch.equal(tensor.nan_to_num(7.0), other.nan_to_num(7.0))\n",
        "results with the same NaN on both sides pass as equal, whether it is right or not",
    ),
    Fault(
        "rest-of-the-blocks",
        "padiff_shim/numerics/difference.py",
        "    if count * length < flat.size:\n"
        "        places = np.append(places, count * length + flat[count * length :].argmax())\n",
        "",
        "the elements behind the last whole block are never looked at first",
    ),
    Fault(
        "alpha-for-beta",
        "padiff_shim/numerics/models.py",
        "out, addend, alpha, beta)",
        "out, addend, beta, alpha)",
        "the oracle of addmm scales the product by beta and the addend by alpha",
    ),
    Fault(
        "audit-one-later",
        "padiff_shim/comparison/judge.py",
        "spot.audit = left - 1 if left else self.audit - 1",
        "spot.audit = left - 1 if left else self.audit",
        "audit=8 holds one in nine results against the oracle",
    ),
    Fault(
        "screened-after-a-finding",
        "padiff_shim/comparison/judge.py",
        "            spot.usual = None\n            return",
        "            return",
        "a spot goes on being screened by what was usual before its kernel was found wrong",
    ),
    Fault(
        "last-step-of-a-slice",
        "padiff_shim/comparison/sampling.py",
        "(stop is None or step < stop)",
        "(stop is None or step <= stop)",
        "steps=slice(0, 3) compares step 3 as well",
    ),
    Fault(
        "known-difference-unconfirmed",
        "padiff_shim/comparison/judge.py",
        "return judgement.confirm is None or judgement.confirm()",
        "return True",
        "a finding is excused by a known difference that does not hold on the whole tensor",
    ),
    Fault(
        "shadow-of-old-values",
        "padiff_shim/comparison/shadow.py",
        "return shadow if version == tensor.inplace_version else None",
        "return shadow",
        "a tensor that was written in place still has the shadow of its old values",
    ),
)

PROVE = (
    Fault(
        "small-numbers-equal",
        "padiff_shim/proof/arguments.py",
        "return math.isclose(value, other, rel_tol=1e-7)",
        "return math.isclose(value, other, rel_tol=1e-7, abs_tol=1e-7)",
        "two small settings, an epsilon of 1e-8 and one of 1e-12, count as equal",
    ),
    Fault(
        "backward-of-a-wrong-line",
        "padiff_shim/proof/rules.py",
        "    gradients_of_mistakes,\n",
        "",
        "what follows in the backward from a wrong line is a finding of its own",
    ),
    Fault(
        "step-counted-from-one",
        "padiff_shim/proof/training.py",
        'tr("{text} from step {step} on", text=text, step=apart.step)',
        'tr("{text} from step {step} on", text=text, step=apart.step + 1)',
        "a difference between trainings is said to begin one step too late",
    ),
    Fault(
        "weights-the-other-way",
        "padiff_shim/proof/preconditions.py",
        'trees if mapping.src == "torch" else trees[::-1]',
        "trees",
        'weights="paddle->torch" carries Torch\'s weights into the port',
    ),
    Fault(
        "places-not-compared",
        "padiff_shim/proof/match.py",
        "            self.shuffled.setdefault(other, value)\n        return apart",
        "            return True\n        return apart",
        "values with the same elements in other places match: a flipped sequence is proven right",
    ),
    Fault(
        "gradient-on-the-other-side",
        "padiff_shim/proof/agreement.py",
        'in the port" if expected is None else "{name} gets no gradient',
        'in the port" if expected is not None else "{name} gets no gradient',
        "of a parameter with a gradient on one side alone the wrong side is named",
    ),
    Fault(
        "cotangent-of-the-same-tensor",
        "padiff_shim/proof/programs.py",
        "(tensor, start if known is None else known[1] + start)",
        "(tensor, start)",
        "a tensor that the port returns twice begins its backward with one gradient, not with the sum",
    ),
    Fault(
        "statistics-go-on",
        "padiff_shim/proof/programs.py",
        "        for _, tensor, value in self._begun:\n            self._write(tensor, value)\n",
        "",
        "running statistics are not set back between the runs of a proof",
    ),
    Fault(
        "half-written-weights",
        "padiff_shim/weights/values.py",
        "            for target, old in begun if not for_good else ():\n                target.copy_(old)\n",
        "",
        "a transfer of weights that fails in the middle leaves the first ones written",
    ),
    Fault(
        "half-paired-weight",
        "padiff_shim/weights/transfer.py",
        "weight.key not in covered or covered[weight.key] < weight.size",
        "weight.key not in covered",
        "a weight of which only a part has a partner counts as paired",
    ),
)

RECORDS = (
    Fault(
        "lock-of-the-parent",
        "padiff_shim/runlog/writer.py",
        "        self.lock = threading.RLock()\n        self.close()\n",
        "        self.close()\n",
        "the child of a fork waits for ever for a lock that a thread of its parent held",
    ),
    Fault(
        "missing-rank-zero",
        "padiff_shim/runlog/reader.py",
        "range(min(world, _RANKS))",
        "range(1, min(world, _RANKS))",
        "that rank 0 left no log is not told",
    ),
    Fault(
        "torn-last-line",
        "padiff_shim/runlog/reader.py",
        '            if not end.endswith(b"\\n"):\n                return\n',
        "",
        "the line that a program was writing when it ended makes its log unreadable",
    ),
    Fault(
        "figures-without-nan",
        "padiff_shim/runlog/encoding.py",
        "if figures is None and stats is not None:",
        "if figures is None and stats is None:",
        "the figures of a record with a NaN or an infinity among them do not come into its log",
    ),
    Fault(
        "excess-of-nan",
        "padiff_shim/runlog/encoding.py",
        "largest = max(largest, math.inf if math.isnan(number) else number)",
        "largest = max(largest, number)",
        "an error that is NaN counts as none when findings are ordered",
    ),
    Fault(
        "gate-pairs-the-last",
        "padiff_shim/runs/gate.py",
        "left[entry.loose].pop(0)",
        "left[entry.loose].pop()",
        "of several findings that moved, the gate pairs the first now with the last before",
    ),
    Fault(
        "met-in-the-last-rank",
        "padiff_shim/recording/diff.py",
        "difference.met = difference.met and all(",
        "difference.met = all(",
        "of several ranks only the last pair decides whether a Paddle and a Torch run met",
    ),
    Fault(
        "one-digest-two-shapes",
        "padiff_shim/recording/files.py",
        "key = digest, array.dtype.str, array.shape",
        "key = digest",
        "values with the same bytes and another shape or dtype are read back as the first ones",
    ),
    Fault(
        "nan-apart-from-nan",
        "padiff_shim/measure/bits.py",
        '    if array.dtype.kind in "fc" and differ.any():\n        differ &= (array == array) | (other == other)\n',
        "",
        "a NaN that both tensors have, with other bits, is a difference",
    ),
    Fault(
        "all-but-one-is-all",
        "padiff_shim/report/compare.py",
        "    if part != whole:\n        percent = min(percent, 99.9)\n",
        "",
        "9,999 of 10,000 calls are shown as 100 %",
    ),
)

AREAS = {
    "table and ops": TABLE,
    "dispatch and substitution": DISPATCH,
    "tape": TAPE,
    "judge": JUDGE,
    "prove": PROVE,
    "records and reports": RECORDS,
}
FAULTS = tuple(fault for area in AREAS.values() for fault in area)
