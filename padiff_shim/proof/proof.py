"""What :func:`padiff_shim.prove` answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from ..dispatch.call_site import short
from ..errors import ArgumentError, PadiffShimError, described
from . import pages
from .findings import CarriedBy, LayerRow, Mistake, ProofVerdict, Stage, StepRow


@dataclass
class Proof:
    """Whether a port is right, and if not, where. True in a condition if the code is right.

    ``complete``: the mistakes explain all that differs. ``differences``: the largest absolute difference of outputs (and gradients)
    from the original's: ``native``, ``shim`` (the port on Torch's kernels) and ``float64`` (both in float64, the port on Torch's
    kernels; None where it was not needed).
    """

    verdict: ProofVerdict
    reason: str
    stages: list[Stage] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)
    layers: list[LayerRow] = field(default_factory=list)
    training: list[StepRow] = field(default_factory=list)
    carried: CarriedBy | None = None
    carried_gradients: dict[str, CarriedBy] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    differences: dict[str, float | None] = field(default_factory=dict)
    complete: bool = True
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self._measure: Callable[[], CarriedBy] | None = None
        self._measure_gradients: Callable[[str], CarriedBy] | None = None

    def measure_by(self, measure: Callable[[], CarriedBy], of_gradients: Callable[[str], CarriedBy] | None = None) -> None:
        """What :meth:`carriers` asks, once for each ``of``; ``of_gradients`` is None if the port was not gone back through."""
        self._measure, self._measure_gradients = measure, of_gradients

    def carriers(self, of: str = "outputs") -> CarriedBy:
        """Why the port differs natively: which calls carry how much of a difference.

        Args:
            of: ``"outputs"``: runs the port's forward twice more, with each op's formula in float64 beside it. ``"gradients"``, all
                of them together, or the name of one, of a parameter or of an input (``"input 0"``, ``"input tokens"``): which
                calls' forward, and which calls' backward against what it was handed. Runs the port's step four times more, twice
                in float64, and each call's backward by itself.

        The answer is kept in :attr:`carried`, or by its name in :attr:`carried_gradients`, and printed with the proof. The proof
        holds copies of both models.

        Raises:
            PadiffShimError: nothing was run, as for inputs that differ, or for gradients no backward (``phase="forward"``), or the
                port does not run in float64.
            ArgumentError: there is no gradient of that name.
        """
        if not isinstance(of, str):
            raise ArgumentError(f'of= is "outputs", "gradients" or the name of one, got {described(of)}')
        if of != "outputs":
            return self._of_gradients(of)
        if self.carried is None:
            if self._measure is None:
                raise PadiffShimError(f"no run of the port to measure: {self.headline}")
            self.carried, self._measure = self._measure(), None
        return self.carried

    def _of_gradients(self, of: str) -> CarriedBy:
        if of not in self.carried_gradients:
            if self._measure_gradients is None:
                why = "phase='forward' goes not back" if self.differences else self.headline
                raise PadiffShimError(f"no backward of the port to measure: {why}")
            self.carried_gradients[of] = self._measure_gradients(of)
        return self.carried_gradients[of]

    def __bool__(self) -> bool:
        return bool(self.verdict)

    @property
    def headline(self) -> str:
        """The answer in one line."""
        if not self.mistakes:
            return f"{self.verdict}: {self.reason}"
        first = self.mistakes[0]
        place = first.paddle or first.torch
        where = f" at {short(place.file)}:{place.line}" + (f" (layer {place.layer})" if place.layer else "") if place else ""
        more = f", and {len(self.mistakes) - 1} more" if len(self.mistakes) > 1 else ""
        return f"{self.verdict}: {first}{where}{more}"

    def as_dict(self) -> dict[str, Any]:
        """All of it in plain types (JSON)."""
        data = asdict(self)
        data["verdict"] = str(self.verdict)
        for mistake, fields in zip(self.mistakes, data["mistakes"]):
            fields["cause"] = str(mistake.cause)
        return {**data, "headline": self.headline, "right": bool(self)}

    def to_markdown(self) -> str:
        """For a pull request."""
        return pages.markdown(self)

    def to_html(self) -> str:
        """One page that needs nothing beside it."""
        return pages.page(self)

    def text(self, width: int | None = None, *, colour: bool = False) -> str:
        """For a terminal, ``width`` columns wide (default: its own); with ``colour`` as ANSI sequences."""
        return pages.text(self, width, colour=colour)

    def __str__(self) -> str:
        return self.text()
