"""Whether comparing leaves a program's numbers alone: it runs without and within the mode, and all bits are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import paddle

from padiff_shim import compare
from padiff_shim.proof.programs import generator_states, restore_generators
from padiff_shim.trees import elements, is_tensor, mapped, values


def _fingerprint(states: dict[str, Any]) -> dict[str, bytes]:
    prints = {name: repr(state).encode() for name, state in states.items() if name in ("random.numpy", "random.python")}
    prints["random.torch"] = states["random.torch"].numpy().tobytes()
    # The text holds the generator's counters, and the address of its engine, which is no state of it.
    words = " ".join(map(str, states["random.paddle"])).split()
    prints["random.paddle"] = " ".join(word for word in words if not word.startswith("0x")).encode()
    return prints


def _bits(tree: Any, path: str) -> dict[str, bytes]:
    """Every tensor, number and word within a tree as bytes, by its path."""
    prints: dict[str, bytes] = {}
    for where, value in values(tree, path):
        if is_tensor(value) or isinstance(value, np.ndarray):
            array, dtype = elements(value)
            prints[where] = f"{dtype}{list(array.shape)}".encode() + array.tobytes()
        elif isinstance(value, (int, float, str, bool)):
            prints[where] = repr(value).encode()
    return prints


def _copy(state: Any) -> Any:
    """A copy of a state dict and its tensors."""
    return mapped(state, lambda leaf: leaf.detach().clone() if isinstance(leaf, paddle.Tensor) else leaf)


def _outcome(program: Callable[[], Any], state: Sequence[Any], before: Sequence[Any], seeds: dict[str, Any]) -> dict[str, bytes]:
    """Run the program from the saved state; all its results and states, as bytes."""
    for holder, saved in zip(state, before):
        holder.set_state_dict(_copy(saved))
        for parameter in holder.parameters() if hasattr(holder, "parameters") else ():
            parameter.clear_gradient(False)
    restore_generators(seeds)
    prints = _bits(program(), "result")
    for index, holder in enumerate(state):
        prints |= _bits(holder.state_dict(), f"state[{index}]")
        for name, parameter in holder.named_parameters() if hasattr(holder, "named_parameters") else ():
            if parameter.grad is not None:
                prints |= _bits(parameter.grad, f"gradient of {name}")
    prints.update(_fingerprint(generator_states()))
    return prints


def harmed(program: Callable[[], Any], *, state: Sequence[Any] = (), **options: Any) -> tuple[list[str], int, Any]:
    """What differs, of how many results, values, gradients and random states; and the run.

    ``state``: layers and optimizers that the program changes; they are put back before each run and after the last.
    """
    before, seeds = [_copy(holder.state_dict()) for holder in state], generator_states()
    native = _outcome(program, state, before, seeds)
    try:
        with compare("torch", **options) as run:
            compared = _outcome(program, state, before, seeds)
    finally:
        for holder, saved in zip(state, before):
            holder.set_state_dict(saved)
        restore_generators(seeds)
    return sorted(name for name in {*native, *compared} if native.get(name) != compared.get(name)), len(native), run
