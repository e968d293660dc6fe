"""The do-no-harm check: a program run with and without comparing must give the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import paddle

from ..arguments import function
from ..errors import ArgumentError, PadiffShimError, described
from ..modes.compare import opened
from ..modes.environment import versions
from ..modes.options import CompareOptions
from ..present.annotations import Finding
from ..present.document import Document
from ..present.result import Presented
from ..proof.programs import generator_states, restore_generators
from ..text import listed, many, marked, tr
from ..trees import elements, is_tensor, mapped, values


@dataclass(repr=False)
class HarmReport(Presented):
    """The answer of :func:`do_no_harm`; true if no bit differs.

    Attributes:
        compared: how many tensors and states: results of the program, gradients and values of parameters, optimizer state, and the
            random states of Paddle, NumPy, Python and Torch.
        differences: names of those that differ.
        run: the :class:`padiff_shim.CompareRun`.
        environment: versions of both frameworks, and the device.
    """

    compared: int = 0
    differences: list[str] = field(default_factory=list)
    run: Any = field(default=None, repr=False)
    environment: dict[str, str] = field(default_factory=versions)

    def __bool__(self) -> bool:
        return not self.differences

    @property
    def answer(self) -> str:
        """Whether comparing left every bit as it was."""
        compared = many(self.compared, "tensor or state", "tensors and states")
        if self:
            return tr("NO HARM: {compared} bit-identical with and without comparing", compared=compared)
        shown = listed(self.differences, 5)
        return tr(
            "HARM: {differences} of {compared} differ: {shown}",
            differences=len(self.differences),
            compared=compared,
            shown=shown,
        )

    def _shorter(self) -> Iterator[str]:
        compared = many(self.compared, "tensor or state", "tensors and states")
        yield tr("HARM: {differences} of {compared} differ", differences=len(self.differences), compared=compared)

    @property
    def findings(self) -> list[Finding]:
        """What differs, each by its name."""
        return [Finding("harm", "error", tr("{name} differs", name=name), where=name) for name in self.differences]

    def content(self) -> Document:
        """The answer alone."""
        return Document(self.answer, [], "good" if self else "bad")


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


def do_no_harm(program: Callable[[], Any], *, state: Sequence[Any] = (), **options: Any) -> HarmReport:
    """Prove that comparing leaves a program's numbers alone: run it without and with compare mode, and compare all bits.

    Args:
        program: called without arguments, three times; its result may hold tensors in lists and dicts.
        state: layers and optimizers that it changes (anything with ``state_dict`` and ``set_state_dict``); their values are put
            back before each run and after the last.
        options: for :func:`padiff_shim.compare`; ``carry`` must stay ``"native"``.

    Returns:
        A :class:`HarmReport`, true if no bit differs. The first two runs are native: a difference between them is the program's
        own, and its name says so.

    Raises:
        ArgumentError: an argument that is not accepted; the message says what is.
        PadiffShimError: an optimizer in ``state`` has not stepped yet.

    >>> import paddle, padiff_shim
    >>> layer = paddle.nn.Linear(4, 3)
    >>> print(padiff_shim.do_no_harm(lambda: layer(paddle.ones([2, 4])), state=[layer]).headline)
    NO HARM: 7 tensors and states bit-identical with and without comparing
    """
    function("program", program, marked("no argument"))
    if isinstance(state, (str, bytes)) or not isinstance(state, Sequence):
        raise ArgumentError("state= is a list of layers and optimizers, got {state}", state=described(state))
    if options.get("carry", "native") != "native":
        raise ArgumentError(
            "carry= must stay 'native' here, got {options}: else the program is changed", options=described(options["carry"])
        )
    for holder in state:
        if not (hasattr(holder, "state_dict") and hasattr(holder, "set_state_dict")):
            raise ArgumentError("state= holds {holder}, which has no state_dict and set_state_dict", holder=described(holder))
        if isinstance(holder, paddle.optimizer.Optimizer) and not holder._accumulators:
            raise PadiffShimError(
                "state= holds an optimizer that has not stepped yet, which cannot be put back to that state: let it step "
                "once before, or make model and optimizer inside the program"
            )
    before = [_copy(holder.state_dict()) for holder in state]
    seeds = generator_states()
    native = _outcome(program, state, before, seeds)
    again = _outcome(program, state, before, seeds)
    mode = opened(CompareOptions(**options))  # settings from outside do not count: carry= above all
    try:
        with mode as run:
            compared = _outcome(program, state, before, seeds)
    finally:
        for holder, saved in zip(state, before):
            holder.set_state_dict(saved)
        restore_generators(seeds)
    report = HarmReport(len(native), run=run)
    for name in sorted({*native, *compared}):
        if native.get(name) != again.get(name):
            report.differences.append(
                tr("{name} (differs between two native runs as well: the program is not repeatable)", name=name)
            )
        elif native.get(name) != compared.get(name):
            report.differences.append(name)
    run.recorder.add_event("do-no-harm", str(report))
    return report
