"""What can be told of a difference: what it is of, and what it follows from."""

from __future__ import annotations

import re

from .difference import Difference

READ_BY_TORCH = ("einsum", "std", "smooth_l1_loss")
VIEWS = (".transpose(", ".reshape(", ".flatten(", "squeeze(", ".view(", ".view_as(", "paddle.assign(", ".contiguous(", ".astype(")
MODIFIED = "has been modified by an inplace operation"
LACKING = "doesn't have any grad op"
UNREGISTERED = "is not registered"  # a sum of gradients in float16, on a graph
UNUSED = "does not appear in the backward graph"
SEVERAL = ("Mix.apply(", "split(", "chunk(", "unbind(", "unstack(")  # what makes several results in one call
SHAPES = re.compile(r"(t\d+)\.grad.*: natively \S*float\d+[\[(]([\d, ]*)[\])], here \S*float\d+[\[(]([\d, ]*)[\])]$")
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
        """Whether errors are there only where a paddle.grad came to what cannot be run, and natively to nothing."""
        beyond = [
            any(part in text for part in (*REFUSALS, LACKING, UNREGISTERED))
            and all(part in self.lines[line] for part in ("paddle.grad(", "allow_unused=True"))
            for line, _, text in self.errors
        ]
        return bool(beyond) and all(beyond)

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
    def given_none(self) -> bool:
        """Whether errors are there only of calls that get None where natively there is a tensor."""
        return bool(self.errors) and all("got None" in text or "NoneType" in text for *_, text in self.errors)

    @property
    def of_a_second_derivative_in_place(self) -> bool:
        """Whether gradients differ, where there are second derivatives and an op in place that has read what it wrote over."""
        return self.after_an_error and self.has("create_graph=True") and self.has(".square_(")

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
    def of_a_gradient(self) -> bool:
        """Whether a gradient differs in reference mode, or what was made of it, or is accused in compare mode."""
        if self.text.startswith("accused"):
            return "grad:" in self.text
        return not self.exact and (".grad:" in self.text or self.text.startswith("seen[") or self.made_of_gradients)

    @property
    def has_written_a_leaf(self) -> bool:
        """Whether a leaf was written in place: where it wants its gradient, Paddle says no, and has done it (docs/defects.md)."""
        written = [name for line in self.lines for name in re.findall(r"^(t\d+)\.[a-z]\w*_\(", line)]
        return any(self.maker(name).startswith(f"{name} = make(") for name in written)
