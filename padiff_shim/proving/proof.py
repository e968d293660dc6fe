"""What :func:`padiff_shim.prove` answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import PadiffShimError
from . import pages, webpage
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
    notes: list[str] = field(default_factory=list)
    differences: dict[str, float | None] = field(default_factory=dict)
    complete: bool = True
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self._measure: Callable[[], CarriedBy] | None = None

    def measure_by(self, measure: Callable[[], CarriedBy]) -> None:
        """What :meth:`carriers` asks, once."""
        self._measure = measure

    def carriers(self) -> CarriedBy:
        """Why the port differs natively: which calls carry how much of the difference of its outputs.

        Runs the port twice more, with each op's formula in float64 beside it. The answer is kept in :attr:`carried` and printed
        with the proof; until then the proof holds copies of both models.

        Raises:
            PadiffShimError: nothing was run, as for inputs that differ.
        """
        if self.carried is None:
            if self._measure is None:
                raise PadiffShimError(f"no run of the port to measure: {self.headline}")
            self.carried, self._measure = self._measure(), None
        return self.carried

    def __bool__(self) -> bool:
        return bool(self.verdict)

    @property
    def headline(self) -> str:
        """The answer in one line."""
        if not self.mistakes:
            return f"{self.verdict}: {self.reason}"
        first = self.mistakes[0]
        place = first.paddle or first.torch
        where = f" at {place.file}:{place.line}" + (f" (layer {place.layer})" if place.layer else "") if place else ""
        more = f", and {len(self.mistakes) - 1} more" if len(self.mistakes) > 1 else ""
        return f"{self.verdict}: {first}{where}{more}"

    def as_dict(self) -> dict[str, Any]:
        """All of it in plain types (JSON)."""
        data = asdict(self)
        data["verdict"] = str(self.verdict)
        for mistake, told in zip(self.mistakes, data["mistakes"]):
            told["cause"] = str(mistake.cause)
        return {**data, "headline": self.headline, "right": bool(self)}

    def to_markdown(self) -> str:
        """For a pull request."""
        return pages.markdown(self)

    def to_html(self) -> str:
        """One page that needs nothing beside it."""
        return webpage.html(self)

    def text(self, width: int | None = None, *, colour: bool = False) -> str:
        """For a terminal, ``width`` columns wide (default: its own); with ``colour`` as ANSI sequences."""
        return pages.text(self, width, colour=colour)

    def __str__(self) -> str:
        return self.text()
