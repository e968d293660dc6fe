"""The stages in which people align a port (forward, loss, backward, running statistics), each with what breaks it."""

from __future__ import annotations

from dataclasses import dataclass

from ..weights.mapping import Mapping
from . import outcomes
from .findings import Stage
from .locate import BACKWARD, FORWARD, STATISTICS, Located
from .outcome import Outcome

IDENTICAL = "identical bit for bit"
ROUNDED = "equal up to rounding"
LOSS = "loss"  # the path of the loss among the outputs


@dataclass(frozen=True)
class Differing:
    """What differs between the bits of two runs, in words; "" where nothing does.

    ``missing``: gradients that one side alone has. ``shapes``: outputs whose number, shapes or dtypes differ.
    ``gradients``: how many the original has. ``dtypes``: output tensors of another dtype, which may hold the same numbers.
    """

    forward: str
    loss: str
    backward: str
    statistics: str
    missing: str
    shapes: str
    gradients: int
    dtypes: str = ""

    @classmethod
    def between(cls, mapping: Mapping, original: Outcome, port: Outcome) -> Differing:
        """Compare everything."""
        gradients = outcomes.gradients(mapping, original, port)
        return cls(
            forward=outcomes.outputs_differ(original, port, lambda path: path != LOSS),
            loss=outcomes.outputs_differ(original, port, lambda path: path == LOSS),
            backward=outcomes.differ("gradient of ", gradients),
            statistics=outcomes.differ("", outcomes.statistics(mapping, original, port)),
            missing=outcomes.without_gradient(gradients),
            shapes=outcomes.shapes_differ(original, port),
            gradients=len(original.gradients),
            dtypes=outcomes.dtypes_differ(original, port),
        )

    def __bool__(self) -> bool:
        return bool(self.first or self.missing or self.shapes or self.dtypes)

    @property
    def first(self) -> str:
        """The first bits that differ, in the order of a program."""
        return self.forward or self.loss or self.backward or self.statistics


def stages(differing: Differing, original: Outcome, port: Outcome, located: Located | None = None, plain: str = "") -> list[Stage]:
    """A stage for everything that was compared.

    Args:
        differing: what differs in bits.
        original, port: the runs.
        located: what the search for mistakes found; None if none was needed.
        plain: what is wrong without any call being found.
    """
    parts = located.parts if located else ()
    forward = (FORWARD in parts and bool(differing.forward)) or bool(plain and differing.forward)
    found = [_stage("forward", forward, differing.forward)]
    broken = "forward" if forward else ""
    if LOSS in original.outputs:
        wrong = not broken and bool(differing.loss) and (FORWARD in parts or bool(plain))
        found.append(_stage(LOSS, wrong, differing.loss, behind=broken))
        broken = broken or (LOSS if wrong else "")
    if differing.gradients or differing.missing:
        wrong = not broken and (BACKWARD in parts or bool(differing.missing) or bool(plain and differing.backward))
        same = f"{differing.gradients} gradients {IDENTICAL}"
        text = differing.missing or (plain if wrong and plain else differing.backward)
        found.append(_stage("backward", wrong, text, behind=broken, same=same))
    if original.statistics and port.unlike:
        found.append(Stage("statistics", None, "not compared: the batch norm ran on Paddle's kernel, which defines them otherwise"))
    elif original.statistics and port.statistics:
        wrong = STATISTICS in parts or (bool(plain and differing.first == differing.statistics != ""))
        same = f"{len(port.statistics)} running statistics {IDENTICAL}"
        found.append(_stage("statistics", wrong, differing.statistics, behind="" if wrong else broken, same=same))
    return found


def _stage(name: str, wrong: bool, text: str, *, behind: str = "", same: str = IDENTICAL) -> Stage:
    if behind:
        return Stage(name, None, f"behind the {behind}")
    return Stage(name, not wrong, text if wrong else ROUNDED if text else same)
