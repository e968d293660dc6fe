"""Why two models differ: what :func:`padiff_shim.prove` says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..proving.proof import Proof
from ..proving.prove import prove
from .calling import Call
from .finding import Difference
from .pairing import Pairing
from .running import mean_loss


@dataclass
class Explanation:
    """The proof, or why there is none."""

    proof: Proof | None
    headline: str

    @property
    def right(self) -> bool:
        """Whether the port is proven right."""
        return bool(self.proof)

    @property
    def lines(self) -> list[str]:
        """The mistakes with both lines."""
        found = []
        for number, mistake in enumerate(self.proof.mistakes if self.proof is not None else (), 1):
            found.append(f"{number}. {mistake}")
            for side, place in (("torch ", mistake.torch), ("paddle", mistake.paddle)):
                where = f"{place.file}:{place.line}: {place.source}" if place else "no counterpart"
                found.append(f"     {side} {where}")
        return found


def explained(call: Call, pairing: Pairing, found: Difference) -> Explanation:
    """A proof with the models' weights as they are now."""
    if call.alike:
        return Explanation(None, "both models are of one framework: there is nothing to prove")
    torch_first = call.models[0].framework == "torch"
    order = (1, 0) if torch_first else (0, 1)
    port, original = (call.models[place].model for place in order)
    inputs = {call.models[place].framework: call.inputs[place] for place in (0, 1)}
    losses = call.losses or (mean_loss, mean_loss)
    paddle_loss, torch_loss = (losses[place] for place in order)
    phase = "forward" if found.stage == "forward" or call.options.diff_phase == "forward" else "both"
    named: dict[str, Any] = {
        "weights": ("torch->paddle" if torch_first else "paddle->torch") if call.options.auto_init else "as-is",
        "layer_map": pairing.pins or None,
        "seed": call.options.seed,
    }
    if phase == "both" or call.losses:
        named["loss"] = (paddle_loss, torch_loss)
    try:
        proof = prove(port, original, lambda framework: inputs[framework], phase=phase, **named)
    except Exception as error:  # the verdict of the comparison stands without it
        return Explanation(None, f"no proof was possible ({type(error).__name__}: {str(error).splitlines()[0][:300]})")
    return Explanation(proof, proof.headline)
