"""What can be told of a difference: what it is of, and what it follows from."""

from __future__ import annotations

import re

from .difference import Difference, Errors

READ_BY_PADDLE = (
    "silu(",
    " / (",
    "paddle.as_strided(",
    "paddle.max(",
    "paddle.min(",
    "paddle.amax(",
    "paddle.amin(",
    "slogdet(",
    "MaxUnPool",
    "max_unpool",
    "scatter_reduce(",
    "selu(",
    "segment_max(",
    "segment_min(",
    "copysign(",
)
READ_BY_TORCH = ("einsum", "std", "smooth_l1_loss")
VIEWS = (".transpose(", ".reshape(", ".flatten(", "squeeze(", ".view(", ".view_as(", "paddle.assign(", ".contiguous(", ".astype(")
MODIFIED = "has been modified by an inplace operation"
LACKING = "doesn't have any grad op"
BROADCAST = "Input dimension size should be equal to"  # Paddle's words for a gradient of what was broadcast as it was set
RETRIEVED = "The type of data we are trying to retrieve"  # of an in-place op between dtypes, which has written by then
UNREGISTERED = "is not registered"  # a sum of gradients in float16, on a graph
LEAF = "can't use inplace strategy"
UNUSED = "does not appear in the backward graph"
SEVERAL = ("Mix.apply(", "split(", "chunk(", "unbind(", "unstack(")  # what makes several results in one call
SHAPES = re.compile(r"(t\d+)\.grad.*: natively \S*float\d+[\[(]([\d, ]*)[\])], here \S*float\d+[\[(]([\d, ]*)[\])]$")
RECURRENT = ("RNN(", "LSTM(", "GRU(")
INSTANCES = ("InstanceNorm", "instance_norm(")
REFUSALS = ("The TensorWrappers of", MODIFIED)


class Seen(Difference):
    """A difference, and what it is of."""

    @property
    def of_a_retained_view(self) -> bool:
        """Whether the gradient of a view differs that was to be retained, or what was made of it."""
        if ".grad" not in self.text and not self.made_of_gradients:
            return False
        names = [self.text.partition(".")[0], *(name for line in self.origins for name in re.findall(r"\bt\d+\b", line))]
        return any(self.has(f"{name}.retain_grads()") and any(view in self.maker(name) for view in VIEWS) for name in names)

    @property
    def of_a_gradient_asked_for(self) -> bool:
        """Whether a retained gradient differs that a paddle.grad has given back, too."""
        name = self.text.partition(".")[0]
        return ".grad:" in self.text and self.has(f"{name}.retain_grads()") and self.has("paddle.grad(", f"[{name}]")

    @property
    def of_a_hook_behind_several_roots(self) -> bool:
        """Whether a hook saw something else, where a backward has several roots."""
        return self.text.startswith("seen[") and self.has("paddle.autograd.backward(")

    @property
    def of_a_leafs_hook(self) -> bool:
        """Whether a leaf's hook saw something else; that of another tensor, where a backward has several roots."""
        of = re.match(r"seen\[\d+\] (t\d+)\b", self.text)
        return self.of_a_hook_behind_several_roots or bool(of and " = make(" in self.maker(of[1]))

    @property
    def of_a_leaf_that_is_gone(self) -> bool:
        """Whether a gradient differs that the program holds, of a leaf whose name it has given to what was made of it."""
        gone = [name for line in self.lines for name in re.findall(r"(?:^|: )(t\d+) \W= ", line)]
        return any(f"{name}.grad" in line for name in gone for line in self.origins)

    @property
    def of_a_norm_without_its_weight(self) -> bool:
        """Whether a gradient of a layer_norm with a weight differs, where that of the weight may not have been asked for."""
        weighted = any(re.search(r"F\.layer_norm\(\w+, \d+, t", line) for line in self.lines)
        return weighted and (self.after_an_error or any("paddle.grad(" in line for line in self.origins))

    @property
    def recomputed_elsewhere(self) -> bool:
        """Whether recompute without reentry met a change of modes: an error, and what follows from it."""
        parts = ("errors:", "left behind", ".grad", "is_leaf", "stop_gradient", "only natively", "seen[")
        follows = self.stepped or self.made_of_gradients or any(part in self.text for part in parts)
        return self.changing and self.has("use_reentrant=False") and follows

    @property
    def recomputed_without_gradients(self) -> bool:
        """Whether reentrant recompute met an operand whose flag was switched: an error natively, and what follows from it."""
        refused = any("'OSError', '(External) " in text.partition(", here ")[0] for text in self.others)
        switched = self.has_in_order(("use_reentrant=True",), (".stop_gradient = True",))
        return refused and switched and (self.after_an_error or self.text.startswith("errors:"))

    @property
    def of_a_step_along_rounding(self) -> bool:
        """Whether values differ behind a step of Adam, where a sum over what was normalised has gradients of rounding alone."""
        normalised = any(map(self.has, ("F.softmax(", "F.layer_norm(", "recompute(block")))
        return normalised and (self.has("Adam(") or self.has("AdamW(")) and ".value:" in self.text

    @property
    def walked_on(self) -> bool:
        """Whether a paddle.grad went where Paddle does not go, and met a hook, a counted write or a freed node there."""
        name, _, _ = self.text.partition(".")
        more = "only here" in self.text or any("only here" in text and name.split()[-1] in text for text in self.others)
        hook = self.text.startswith("seen[") and more and self.has("paddle.grad(")
        by_grad = any("paddle.grad(" in line for line in self.origins) and self.text.endswith("only natively")
        freed = self.changing and any(
            "The TensorWrappers of AssignGradNode" in text.partition(", here ")[2] for text in self.others
        )
        refused = self.refused_further_on or (freed and self.text.startswith("errors:") and self.has("paddle.grad("))
        return hook or refused or (by_grad and (freed or self.has("paddle.grad(", "allow_unused=True")))

    @property
    def refused_further_on(self) -> bool:
        """Whether the errors differ only where a paddle.grad came to what cannot be run, and natively to nothing."""
        natively, here = self.errors
        texts = {line: text for line, _, text in natively}
        beyond = set()
        for line, _, text in here:
            nothing = UNUSED in texts[line] if line in texts else "allow_unused=True" in self.lines[line]
            if nothing and "paddle.grad(" in self.lines[line] and any(part in text for part in (*REFUSALS, LACKING, UNREGISTERED)):
                beyond.add(line)
        left = [[error[:2] for error in errors if error[0] not in beyond] for errors in (natively, here)]
        return bool(beyond) and left[0] == left[1]

    @property
    def refused_by_torch(self) -> bool:
        """Whether a backward was refused that reads what was written since, as in Torch: an error, and what follows from it.

        Of an operand that lies strided Paddle keeps a contiguous copy, if the op's kernel wants one.
        """
        strided = any(re.search(r"= t\d+\[", line) or any(view in line for view in VIEWS) for line in self.lines)
        ops = "|".join(READ_BY_TORCH) if not strided else r"\w+"
        refused = any(re.search(f"op '({ops})' has been modified", text.partition(", here ")[2]) for text in self.others)
        return refused and (".grad" in self.text or self.text.startswith(("errors:", "seen[")))

    @property
    def of_a_sibling(self) -> bool:
        """Whether a gradient of one result of a call was asked for by another one: natively zeros."""
        unused = UNUSED in self.text.partition(", here ")[2] and UNUSED not in self.text.partition(", here ")[0]
        unmade = "paddle.grad(" in self.made and (self.text.endswith("only natively") or ", here None" in self.text)
        behind = any("paddle.grad(" in line for line in self.origins) and self.text.endswith("only natively")
        without = any(self._replace(text=text).given_none for text in self.others)  # lines were not run here
        return any(map(self.has, SEVERAL)) and (unused or unmade or behind or without)

    @property
    def of_what_nothing_depends_on(self) -> bool:
        """Whether there are zeros of a second derivative natively or here alone, and what was made of them."""
        missing = [text.partition(".")[0] for text in self.others if ".grad: natively zeros, here None" in text]
        if self.has(".abs("):
            missing += [text.partition(".")[0] for text in self.others if ".grad: natively None, here zeros" in text]
        if not missing or not self.has("create_graph=True"):
            return False
        follows = (self.made_of_gradients and self.text.endswith("only natively")) or self.given_none or self.stepped
        return follows or (".grad" in self.text and self.text.partition(".")[0] in missing)

    @property
    def of_a_gradient_that_is_broadcast(self) -> bool:
        """Whether the gradient of a PyLayer's operand has another shape natively, which that was broadcast to."""
        shown = SHAPES.match(self.text)
        if not shown or not any(re.search(rf"\.apply\(.*\b{shown[1]}\b", line) for line in self.lines):
            return False
        broad, narrow = ([int(size) for size in shape.split(",") if size] for shape in shown.groups()[1:])
        tail = broad[len(broad) - len(narrow) :]
        return broad != narrow and len(narrow) <= len(broad) and all(size in (1, wide) for size, wide in zip(narrow, tail))

    @property
    def without_a_gradient_beside(self) -> bool:
        """Whether Paddle has refused a backward that leaves out one of an op's gradients: an error, and what follows from it."""
        if not any(map(self.has, RECURRENT)) and not any(map(self.has, INSTANCES)):
            return False
        return self.only_natively("be nullptr")

    def only_natively(self, words: str) -> bool:
        """Whether the errors differ only by those natively that say this."""
        natively, here = self.errors
        left = [error[:2] for error in natively if words not in error[-1]]
        return len(left) < len(natively) and left == [error[:2] for error in here]

    @property
    def given_none(self) -> bool:
        """Whether the errors differ only by calls that get None where natively there is a tensor."""
        natively, here = self.errors
        more = [error for error in here if error[:2] not in [other[:2] for other in natively]]
        return bool(more) and all("got None" in error[-1] or "NoneType" in error[-1] for error in more)

    @property
    def of_two_pairs_of_hooks(self) -> bool:
        """Whether Paddle has refused a second pair of hooks: an error, and what follows from it."""
        refused = any("only one pair of hooks is allowed" in text.partition(", here ")[0] for text in self.others)
        return refused and any(part in self.text for part in ("errors:", "only here", ".grad", "seen["))

    @property
    def of_a_value_that_is_broadcast(self) -> bool:
        """Whether Paddle has refused the gradient of what was broadcast as it was set: an error, and what follows from it."""
        if not any(BROADCAST in text.partition(", here ")[0] for text in self.others):
            return False
        natively, here = self.errors
        left = [error[:2] for error in natively if BROADCAST not in error[-1]]
        return self.after_an_error or (len(left) < len(natively) and left == [error[:2] for error in here])

    @property
    def behind_a_refused_write(self) -> bool:
        """Whether what differs comes from a tensor that an in-place op, refused by both, has left in another dtype natively."""
        natively, here = self.errors_of_all
        refused = [line for line, _, text in natively if RETRIEVED in text and line in {error[0] for error in here}]
        names = {match[1] for line in refused if (match := re.match(r"(?:with .*?: )?(t\d+)\.", self.lines[line]))}
        if not (natively or here):  # both sides raise alike, of which no difference tells
            names = self.written_between_dtypes

        def from_there(line: str) -> bool:
            return any(re.search(rf"\b{name}\b", error) for error in self.traced(line) for name in names)

        if self.text.startswith("errors:"):
            parted = {error[0] for error in natively} ^ {error[0] for error in here}
            return bool(names) and all(from_there(self.lines[line]) for line in parted)
        return re.split("[.:]", self.text)[0] in names or from_there(self.made)

    @property
    def written_between_dtypes(self) -> set[str]:
        """The tensors with an in-place op whose operands were made in several dtypes."""
        names = set()
        for line in self.lines:
            match = re.match(r"(?:with .*?: )?(t\d+)\.\w+_\(t\d+", line)
            dtypes = {dtype for origin in self.traced(line) for dtype in re.findall(r"'(b?float\d+)'", origin)} if match else set()
            if match and len(dtypes) > 1:
                names.add(match[1])
        return names

    @property
    def of_a_second_derivative_in_place(self) -> bool:
        """Whether gradients differ, where there are second derivatives and an op in place that has read what it wrote over."""
        return self.after_an_error and self.has("create_graph=True") and self.has(".square_(")

    @property
    def refused_as_a_leaf(self) -> bool:
        """Whether an in-place op was refused natively, for what paddle.grad gives with a graph is a leaf there."""
        natively, here = self.errors_of_all
        refused = {line: re.match(r"(?:with .*?: )?(t\d+)\b", self.lines[line]) for line, _, text in natively if LEAF in text}
        names = [name[1] for name in refused.values() if name and "create_graph=True" in "".join(self.origins_of(name[1]))]
        if not refused or len(names) < len(refused):
            return False
        left = [error[:2] for error in natively if error[0] not in refused]
        return left == [error[:2] for error in here] if self.text.startswith("errors:") else self.text.partition(".")[0] in names

    @property
    def of_a_small_epsilon(self) -> bool:
        """Whether what differs is of a layer_norm in float64."""
        if self.text.startswith("accused"):
            return all(part in self.text for part in ("layer_norm", "float64", "WRONG [paddle]"))
        if self.text.startswith("errors:"):
            return False
        lines = self.lines if ".grad" in self.text or self.text.startswith("seen[") else self.origins
        return all(any(part in line for line in lines) for part in ("F.layer_norm(", "float64"))

    @property
    def come_to_twice(self) -> bool:
        """Whether a backward here came to a PyLayer in two turns: an error, and what follows from it."""
        refused = any(re.search(r"The TensorWrappers of [A-Z]\w*(?<!GradNode) do|comes twice, from", text) for text in self.others)
        return refused and self.after_an_error | self.text.startswith("errors:")

    @property
    def refused_by_paddle(self) -> bool:
        """Whether the errors differ only by refusals of Paddle's, where an op's result is not read by Torch's backward."""
        return self._refused_by_paddle(*self.errors)

    @property
    def freed_behind_a_refusal(self) -> bool:
        """Whether a backward that is refused, natively at least, has freed more than natively; and nothing else is strange."""
        natively, here = self.errors
        first = min((line for line, _, text in natively if MODIFIED in text), default=len(self.lines))
        freed = {line for line, _, text in here if line > first and "The TensorWrappers of" in text}
        natively, here = ([error for error in errors if error[0] not in freed] for errors in (natively, here))
        same = [error[:2] for error in natively] == [error[:2] for error in here]
        return bool(freed) and (same or self._refused_by_paddle(natively, here))

    def _refused_by_paddle(self, natively: Errors, here: Errors) -> bool:
        left = [error[:2] for error in natively if MODIFIED not in error[-1] or error[:2] in [other[:2] for other in here]]
        squared = any(re.search(r"\b(t\d+)\.multiply_\(\1\)", line) for line in self.lines)  # computed beside, and then written
        return left == [error[:2] for error in here] and (squared or self.scales or any(map(self.has, READ_BY_PADDLE)))

    @property
    def scales(self) -> bool:
        """Whether a product has an operand that wants no gradient, or is a number of NumPy's: Torch does not read the other one."""
        if any(re.search(r"\bt\d+ [*/] np\.", line) for line in self.lines):
            return True
        operands = [name for line in self.lines for pair in re.findall(r"\b(t\d+) [*@] (t\d+)\b", line) for name in pair]
        return any(not any("True)" in line for line in self.origins_of(name)) for name in operands)

    @property
    def of_a_gradient(self) -> bool:
        """Whether a gradient differs in reference mode, or what was made of it, or is accused in compare mode."""
        if self.text.startswith("accused"):
            return "grad:" in self.text
        return not self.exact and (".grad:" in self.text or self.text.startswith("seen[") or self.made_of_gradients)

    @property
    def of_an_index_into_a_number(self) -> bool:
        """Whether the errors differ only by the type of those that an index into a number raises."""
        natively, here = self.errors
        alike = [error[:2] for error in natively] == [error[:2] for error in here]
        return alike and len(natively) < len(self.all_errors[0])

    @property
    def has_written_a_leaf(self) -> bool:
        """Whether a leaf was written in place: where it wants its gradient, Paddle says no, and has done it (docs/defects.md)."""
        written = [name for line in self.lines for name in re.findall(r"^(t\d+)\.[a-z]\w*_\(", line)]
        return any(self.maker(name).startswith(f"{name} = make(") for name in written)

    @property
    def freed_by_paddle(self) -> bool:
        """Whether the errors differ only by backwards through what was freed, which are none here."""
        natively, here = self.errors
        left = [
            error[:2]
            for error in natively
            if "The TensorWrappers of" not in error[-1] or error[:2] in [other[:2] for other in here]
        ]
        return len(left) < len(natively) and left == [error[:2] for error in here]

    @property
    def cleared_nothing(self) -> bool:
        """Whether the errors differ only by those of a clear_grad that natively found nothing to clear."""
        return self.only_natively("Detected nullptr grad")

    @property
    def of_what_is_unset(self) -> bool:
        """Whether a result that a kernel leaves unset was set: natively it has no axis that could be."""
        unset = any("for tensor of dimension -1" in text for text in self.others)
        return unset and (self.only_natively("for tensor of dimension -1") or ".inplace_version: natively 0" in self.text)

    @property
    def refused_for_another_reason(self) -> bool:
        """Whether the errors differ only by the reason for which a backward is refused that has several."""
        natively, here = self.errors
        same_lines = [error[0] for error in natively] == [error[0] for error in here]
        parted = [pair for pair in zip(natively, here) if pair[0][:2] != pair[1][:2]]
        known = (*REFUSALS, LACKING, BROADCAST)
        return bool(parted) and same_lines and all(any(part in error[-1] for part in known) for pair in parted for error in pair)

    @property
    def of_several_dtypes(self) -> bool:
        """Whether the errors differ only by those of Paddle's optimizers over leaves of several dtypes; or the values, for that."""
        natively, here = self.errors_of_all
        stepping = [line for line, *_ in natively if re.search(r"\bo\d*\.(step|minimize)\(", self.lines[line])]
        refused = [(line, *rest) for line, *rest in natively if line in stepping and "type of data" in rest[-1]]
        only = bool(refused) and [error[:2] for error in natively if error not in refused] == [error[:2] for error in here]
        return only and (".value:" in self.text or self.text.startswith("errors:"))
