"""Differences between a program under the shim and natively that are known and accepted, each with its reason.

A difference that no entry explains fails the run; how often each was needed is printed with the counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

from .difference import apart, of_strange_numbers, way
from .seen import Seen


@dataclass(frozen=True)
class Known:
    """A difference that is accepted."""

    reason: str
    explains: Callable[[Seen], bool]


UNCOUNTED = (".set_value(", "paddle.assign(", ".copy_(", "initializer.", "out=", "o.step()")
KNOWN = (
    Known(
        "paddle.grad under the tape walks on where Paddle prunes, and meets hooks, writes, freed nodes, sums without a kernel",
        lambda seen: not seen.exact and seen.walked_on,
    ),
    Known(
        "a backward through what was made in a mode and outside reaches a leaf twice: its hook sees two parts of the gradient",
        lambda seen: not seen.exact and (seen.of_a_leafs_hook if seen.changing else seen.of_a_hook_behind_several_roots),
    ),
    Known(
        "Paddle loses a retained gradient when the tensor below is written in place; the tape keeps it",
        lambda seen: not seen.exact and ".grad" in seen.text and "natively None" in seen.text and seen.has(".retain_grads()"),
    ),
    Known(
        "Paddle goes on in the memory of a retained gradient where that of a view is the same (docs/defects.md)",
        lambda seen: seen.of_a_retained_view,
    ),
    Known(
        "what paddle.grad gives back has the memory of a retained gradient in Paddle: a write into one is one into both",
        lambda seen: not seen.exact and seen.of_a_gradient_asked_for,
    ),
    Known(
        "Paddle's gradient of a standard deviation of equal elements is NaN, Torch's 0 (docs/defects.md)",
        lambda seen: seen.text.startswith("accused") and "std grad:x" in seen.text and "NONFINITE [paddle]" in seen.text,
    ),
    Known(
        "a gradient of rounding alone, that of a sum over a softmax, is a whole step of Adam's",
        lambda seen: not seen.exact and seen.of_a_step_along_rounding,
    ),
    Known(
        "a retained gradient wants a gradient itself natively; under the tape it wants none, for no door of Paddle's sets that",
        lambda seen: (
            not seen.exact
            and (".stop_gradient: natively False" in seen.text or ".is_leaf: natively False" in seen.text)
            and seen.has(".retain_grads()")
            and any(line.endswith(".grad") for line in seen.origins)
        ),
    ),
    Known(
        "a write that Paddle does not count, between forward and backward: Paddle's gradient is one of the new values",
        lambda seen: (
            ((any(seen.has(write) for write in UNCOUNTED) or seen.has_written_a_leaf) and seen.of_a_gradient)
            or (not seen.exact and seen.stepped and seen.has_in_order(UNCOUNTED, ("backward(", ".grad("), ("o.step()",)))
        ),
    ),
    Known(
        "where multiply_ changes a leaf's dtype, its gradient in Paddle has the one before or behind, by how the leaf was made",
        lambda seen: not seen.exact and ".grad's dtype" in seen.text and seen.has(".multiply_("),
    ),
    Known(
        "where a view shows an element several times, Paddle's gradient counts it once (docs/defects.md)",
        lambda seen: not seen.exact and seen.has("paddle.as_strided(") and (seen.of_a_gradient or seen.stepped),
    ),
    Known(
        "recompute without reentry needs the same modes in its backward as in its forward; Paddle's own error says so",
        lambda seen: not seen.exact and seen.recomputed_elsewhere,
    ),
    Known(
        "a PyLayer that two turns of one backward come to, one behind Paddle's own nodes, is refused: Paddle runs it once",
        lambda seen: not seen.exact and seen.come_to_twice,
    ),
    Known(
        "what a PyLayer's backward returns comes to hooks and leaves with stop_gradient set natively, and without under the tape",
        lambda seen: (
            not seen.exact
            and (seen.text.startswith("seen[") or seen.made_of_gradients)
            and (".is_leaf: natively True" in seen.text or ".stop_gradient: natively True" in seen.text)
            and seen.has(".apply(")
        ),
    ),
    Known(
        "a reshape that copies shares Paddle's counter of writes with the memory that it has left; under the tape it has its own",
        lambda seen: (
            not seen.exact and ".inplace_version: natively" in seen.text and any(map(seen.has, (".reshape(", ".flatten(")))
        ),
    ),
    Known(
        "of several results of one call Paddle's gradient of the first by another is that by the first (docs/defects.md)",
        lambda seen: not seen.exact and seen.of_a_sibling,
    ),
    Known(
        "of what a gradient does not depend on Paddle's second derivative is zeros, and Torch's of abs; in the other there is none",
        lambda seen: not seen.exact and seen.of_what_nothing_depends_on,
    ),
    Known(
        "what a PyLayer's backward makes is a leaf where paddle.grad gives it back with a graph; under the tape it is none",
        lambda seen: (
            not seen.exact
            and ".is_leaf: natively True" in seen.text
            and any("create_graph=True" in line for line in seen.origins)
            and (seen.has(".apply(") or seen.has("use_reentrant=True"))
        ),
    ),
    Known(
        "what a hook returns has a graph natively, with which paddle.grad gives it back without one being asked for",
        lambda seen: (
            not seen.exact
            and ".is_leaf: natively False" in seen.text
            and any("paddle.grad(" in line and "create_graph" not in line for line in seen.origins)
            and seen.has(".register_hook(")
        ),
    ),
    Known(
        "Torch's backward reads an operand of which Paddle's has a copy: where it was written since, it is refused, as in Torch",
        lambda seen: not seen.exact and seen.refused_by_torch,
    ),
    Known(
        "a backward from a leaf itself: natively nothing happens unless something has led to it before",
        lambda seen: not seen.exact and ".grad" in seen.text and "natively None" in seen.text and "copy.deepcopy(" in seen.made,
    ),
    Known(
        "a leaf of which no name is left gets no more gradients in Paddle; a graph of Torch's holds the leaves that it leads to",
        lambda seen: not seen.exact and seen.of_a_leaf_that_is_gone,
    ),
    Known(
        "Paddle's gradient of a layer_norm leaves the weight out where the weight's is not asked for (docs/defects.md)",
        lambda seen: not seen.exact and seen.of_a_norm_without_its_weight,
    ),
    Known(
        "Paddle rounds the epsilon of a layer_norm to float32 (docs/defects.md)",
        lambda seen: seen.of_a_small_epsilon and (seen.text.startswith("accused") or not seen.exact),
    ),
    Known(
        "Paddle's second derivative of an in-place op knows not what its operand was made of (docs/defects.md)",
        lambda seen: not seen.exact and seen.of_a_second_derivative_in_place,
    ),
    Known(
        "a PyLayer's gradient of the shape that its operand was broadcast to: Torch's engine adds it up, Paddle hands it on",
        lambda seen: not seen.exact and seen.of_a_gradient_that_is_broadcast,
    ),
    Known(
        "recompute reads a tensor again that was changed in place meanwhile: its gradients are those of other values",
        lambda seen: seen.text.startswith("accused") and seen.has("use_reentrant=False"),
    ),
)


@dataclass(frozen=True)
class Listed:
    """A difference of one op that is accepted: that it comes from there is shown by leaving out the lines that call the op."""

    kind: str  # of differences, as `way` calls them: a regular expression
    line: str  # those that may make it: a regular expression; none of an accusation, which names its op
    reason: str
    within: float = float("inf")  # so far apart at most, relative to the largest element
    holds: str = ""  # what a line of the program has to hold: a regular expression
    strange: bool = False  # only where one of the two numbers is NaN or infinite

    @property
    def accuses(self) -> bool:
        """Whether it is of an accusation."""
        return self.kind.startswith("accused")

    def explains(self, text: str, lines: Sequence[str]) -> bool:
        """Whether a difference of a program is of this kind."""
        fits = re.fullmatch(self.kind, way(text)) is not None and apart(text) <= self.within
        fits = fits and (not self.strange or of_strange_numbers(text))
        return fits and any(re.search(self.holds, line) for line in lines)


VECTORS = r"paddle\.linalg\.(eigh|svd|qr|pca_lowrank|svd_lowrank|eig)\("
UPDATES = r"paddle\.optimizer\.|\bo\d+\.(step|minimize)\("
FLOAT32 = 2.0**-23  # a rate or a decay that is rounded to float32, of what it is multiplied with

NAN = r"edges=True"  # there are NaN and infinities
MASKED = ("softshrink", "thresholded_relu", "logsigmoid", "binary_cross_entropy_with_logits", "multi_label_soft_margin_loss")
STEPS = ("abs", "sign", "floor", "ceil", "round", "trunc", "minimum", "maximum", "fmin", "fmax", "relu6", "hardtanh")

LISTED = (
    Listed(
        "value|grad|inplace_version",
        r"\.contiguous\(",
        "contiguous() of a view lays out the view itself in Paddle (docs/defects.md)",
        holds=r"_\(|\] = ",
    ),
    Listed("value|grad", VECTORS, "singular vectors, eigenvectors and the factors of qr are free in their sign"),
    Listed("value", r"paddle\.linalg\.eig(vals)?\(", "eigenvalues of a matrix come in any order"),
    Listed(
        "value|inplace_version",
        r"paddle\.linalg\.(householder_product|ormqr)\(",
        "householder_product and ormqr write their operand in Paddle (docs/defects.md)",
    ),
    Listed(
        r"accused (ormqr|householder_product) \S+ SEMANTICS \[paddle\]",
        "",
        "an operand that Paddle's function writes (docs/defects.md)",
    ),
    Listed("inplace_version", r"paddle\.signal\.stft\(", "Paddle's stft writes into what it returns, and counts it"),
    Listed("value", UPDATES, "Paddle's optimizers hold rates and decays in float32, for float64 parameters, too", within=FLOAT32),
    Listed(
        r"accused (max_pool\dd_with_index|pool\dd|maxout|segment_pool|send_u_recv) \S+ (NONFINITE|WRONG) \[paddle\]",
        "",
        "Paddle's maxima hide NaN (docs/defects.md)",
        holds=NAN,
    ),
    Listed(
        "value|grad",
        r"[mM]axout\(|max_pool\dd\(|MaxPool\dD\(|segment_(max|min)\(|send_u_recv\(",
        "where Paddle's maxima hide NaN Torch's are NaN (docs/defects.md)",
        holds=NAN,
    ),
    Listed(
        r"accused ctc_loss grad:\S+ NONFINITE \[paddle\]", "", "the gradient of a CTC loss hides NaN (docs/defects.md)", holds=NAN
    ),
    Listed(r"accused (batch|instance)_norm grad:(scale|bias) WRONG \[paddle\]", "", "norms with a frozen weight (docs/defects.md)"),
    Listed(
        rf"accused ({'|'.join(MASKED)}) \S+ (SEMANTICS|NONFINITE) \[paddle\]",
        "",
        "infinities times a mask of 0 (docs/defects.md)",
        holds=NAN,
    ),
    Listed(
        "value|grad",
        r"thresholded_relu_?\(|ThresholdedReLU\(|[sS]oftshrink\(",
        "infinities times a mask of 0 in the value, too (docs/defects.md)",
        holds=NAN,
        strange=True,
    ),
    Listed(
        "grad",
        rf"\b({'|'.join(STEPS)})\(",
        "under reference gradients times a mask of 0 are 0 (docs/defects.md)",
        holds=NAN,
        strange=True,
    ),
    Listed(
        "value|grad",
        r"(margin_ranking|multi_(label_)?margin)_loss\(|(MarginRanking|Multi(Label)?Margin)Loss\(|cdist\(|conv\dd\(|Conv\dD\(",
        "NaN that a loss, a distance or a convolution hides in one of the frameworks, as the accusations below say",
        holds=NAN,
        strange=True,
    ),
    Listed(
        "value|grad",
        r"cross_entropy\(|CrossEntropyLoss\(|npair_loss\(",
        "the second backward of a cross entropy (docs/defects.md)",
        holds="retain_graph=True",
    ),
    Listed(
        rf"accused ({'|'.join(STEPS)}) grad:[xy] NONFINITE \[paddle\]",
        "",
        "gradients times a mask of 0, and that of abs at an infinity (docs/defects.md)",
        holds=NAN,
    ),
    Listed(
        r"accused margin_ranking_loss out NONFINITE \[paddle\]", "", "relu hides NaN in a loss, too (docs/defects.md)", holds=NAN
    ),
    Listed(
        r"accused smooth_l1_loss grad:(input|label) NONFINITE \[paddle\]",
        "",
        "the gradient of a smooth loss hides NaN (docs/defects.md)",
        holds=NAN,
    ),
    Listed(
        "grad",
        r"smooth_l1_loss\(|(SmoothL1|Huber)Loss\(",
        "where Paddle's gradient of a smooth loss hides NaN Torch's is NaN (docs/defects.md)",
        holds=NAN,
        strange=True,
    ),
    Listed(
        r"accused logcumsumexp out NONFINITE \[paddle\]",
        "",
        "running logarithms of what is no number (docs/defects.md)",
        holds=NAN,
    ),
    Listed(
        "value|grad",
        r"logcumsumexp\(",
        "where Paddle's running logarithms hide NaN Torch's are NaN (docs/defects.md)",
        holds=NAN,
        strange=True,
    ),
    Listed(
        "grad",
        r"vander\(",
        "Torch's gradient of a running product divides by its operands: at an infinity it is NaN",
        holds=NAN,
        strange=True,
    ),
    Listed(
        "grad",
        r"linalg\.cond\(",
        "the gradient of a condition number loses as many digits as that has",
        within=1e-10,
    ),
    Listed(r"accused linspace out NONFINITE \[both\]", "", "a range with an end that is infinite has no step", holds=NAN),
    Listed(
        r"accused cross_entropy_with_softmax grad:input WRONG \[paddle\]",
        "",
        "a cross entropy's second backward is accused (docs/defects.md)",
        holds="retain_graph=True",
    ),
    Listed("value", r"arg(max|min)\(", "Paddle's argmax passes over NaN (docs/defects.md)", holds=NAN),
    Listed(
        "value",
        r"\btolist\(",
        "tolist shows the bits of numbers in bfloat16, and NaN has several: Paddle's cast makes others than Torch's",
        holds=r"'bfloat16'.*edges=True",
    ),
    Listed("value", r"copysign\(", "the sign of NaN is nobody's", holds=NAN),
    Listed(
        "value",
        r"fused_layer_norm\(|\.stft\(",
        "the mean, and the spectrum, of an infinity are NaN or infinite: whether infinities meet depends on the steps",
        holds=NAN,
        strange=True,
    ),
    Listed(
        "value|grad",
        r"slogdet\(",
        "the determinant of a matrix with infinities is nobody's",
        holds=NAN,
    ),
    Listed("is_leaf|stop_gradient", r"matrix_exp\(", "Paddle's matrix_exp of NaN has no gradient", holds=NAN),
    Listed(
        "value|grad",
        r"= t\d+\[:, t\d+\]",
        "Paddle reads a strided tensor wrongly by tensors behind a slice (docs/defects.md)",
        holds=r"transpose|permute|\.t\(",
    ),
    Listed(r"accused gelu out NONFINITE \[both\]", "", "gelu by tanh of -inf is NaN in both, where it is 0", holds=NAN),
    Listed(
        r"accused grid_sample out (SEMANTICS|NONFINITE) \[paddle\]",
        "",
        "which element lies at a place that is NaN, and what 0 times an infinity is, is nobody's",
        holds=NAN,
    ),
    Listed(
        "value|grad",
        r"grid_sample\(|interpolate\(|Upsampl|lerp\(|quantile\(|scaled_dot_product_attention\(|gaussian_nll_loss\(|GaussianNLLLoss\(",
        "infinities times 0, or taken from each other, and places that are NaN: whether NaN comes of them depends on the steps",
        holds=NAN,
    ),
    Listed(r"accused lerp out NONFINITE \[paddle\]", "", "an infinity is taken from itself (docs/defects.md)", holds=NAN),
    Listed(
        r"accused scaled_dot_product_attention out NONFINITE \[paddle\]",
        "",
        "a softmax of NaN and infinities within an attention (docs/defects.md: softmax of NaN)",
        holds=NAN,
    ),
    Listed(
        "grad('s dtype and shape)? of None",
        r"(batch|instance)_norm\(|(Batch|Instance)Norm",
        "where Paddle leaves a norm's weight or bias without a gradient Torch gives one (docs/defects.md)",
    ),
)


def listed_lines(lines: Sequence[str], texts: Sequence[str]) -> dict[int, str]:
    """The lines to which differences like these are listed, each with the reason."""
    return {
        number: entry.reason
        for entry in LISTED
        if not entry.accuses and any(entry.explains(text, lines) for text in texts)
        for number, line in enumerate(lines)
        if re.search(entry.line, line)
    }


def unused(counts: Mapping[str, int]) -> list[str]:
    """The reasons that no program of a run has needed."""
    return [entry.reason for entry in (*KNOWN, *LISTED) if not counts.get(entry.reason)]


def unexplained(lines: list[str], texts: list[str], *, exact: bool, changing: bool, counts: MutableMapping[str, int]) -> list[str]:
    """The differences that no entry explains; ``counts`` notes the others."""
    left = []
    for difference in texts:
        seen = Seen(difference, lines, exact, changing, tuple(texts))
        entry = next((entry for entry in KNOWN if entry.explains(seen)), None) or listed_accusation(difference, lines)
        if entry is None:
            left.append(difference)
        else:
            counts[entry.reason] = counts.get(entry.reason, 0) + 1
    return left


def listed_accusation(difference: str, lines: Sequence[str]) -> Listed | None:
    """The entry of an accusation."""
    return next((entry for entry in LISTED if entry.accuses and entry.explains(difference, lines)), None)
