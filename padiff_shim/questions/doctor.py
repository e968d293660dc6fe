"""The checks of ``padiff-shim doctor``: each tries real tensors, and concludes nothing from a version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import paddle
import torch

from .. import tested
from ..errors import PadiffShimError
from ..frameworks import memory, settings
from ..intercept import entry_points
from ..modes.compare import opened as opened_comparison
from ..modes.options import CompareOptions, ReferenceOptions
from ..modes.reference import opened
from ..present.annotations import Finding, Level
from ..present.document import Column, Document, Items, ListItem, Table, Tone, setting_label
from ..present.result import Presented
from ..proof.findings import ProofVerdict
from ..proof.prove import prove
from ..text import from_log, joined, many, marked, tr

GOOD, REMARK, BAD = "good", "remark", "bad"
_TONES: dict[str, Tone] = {GOOD: "good", REMARK: "warning", BAD: "bad"}
_DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "bool")


@dataclass(frozen=True)
class Check:
    """What was looked at (``name``), how it stands (GOOD, REMARK or BAD), and a sentence for people (``text``)."""

    name: str
    state: str
    text: str


@dataclass(repr=False)
class Health(Presented):
    """All checks in order. True if none is bad.

    Attributes:
        environment: versions and devices.
        switches: the settings of both frameworks that can change a kernel's bits.
        checks: the checks.
    """

    environment: dict[str, str]
    switches: dict[str, Any]
    checks: list[Check] = field(default_factory=list)

    def __bool__(self) -> bool:
        return all(check.state != BAD for check in self.checks)

    @property
    def findings(self) -> list[Finding]:
        """The checks that failed, and remarks."""
        levels: dict[str, Level] = {BAD: "error", REMARK: "warning"}
        serious = [check for check in self.checks if check.state in levels]
        return [Finding(f"doctor: {check.name}", levels[check.state], check.text, where=tr(check.name)) for check in serious]

    def untested(self) -> list[str]:
        """None: a check says so."""
        return []

    def _versions(self) -> str:
        return ""

    def content(self) -> Document:
        """Versions and switches, then a line for each check."""
        bad, remarks = (sum(check.state == state for check in self.checks) for state in (BAD, REMARK))
        if bad:
            headline = tr("BAD: {bad} of {checks} failed", bad=bad, checks=many(len(self.checks), "check"))
        else:
            good = tr("GOOD: Paddle and Torch work together here")
            headline = joined("; ", (good, many(remarks, "remark"))) if remarks else good
        rows = [(setting_label(name), str(value)) for name, value in (self.environment | self.switches).items()]
        checks = [ListItem(check.text, tr(check.name), _TONES[check.state]) for check in self.checks]
        columns = (Column(tr("setting")), Column(tr("here"), fold=True))
        return Document(headline, [Table(columns, rows), Items(checks, marks=True)], "good" if self else "bad")


def examine() -> Health:
    """Look at everything. A failure is a bad check, and raises nothing."""
    switches = settings.flags()
    health = Health(settings.environment(), switches)
    for name, check in _CHECKS.items():
        try:
            health.checks.extend(Check(name, state, text) for state, text in check())
        except Exception as error:  # a broken installation may raise anything
            health.checks.append(Check(name, BAD, f"{type(error).__name__}: {error}"))
    health.checks += [Check(marked("switches"), REMARK, from_log(text)) for text in settings.concerns(switches)]
    return health


def _versions() -> Iterator[tuple[str, str]]:
    unknown = tested.untested(settings.environment())
    if not unknown:
        yield GOOD, tr("the tests were run on these")
    for name, version, nearest in unknown:
        text = tr(
            "the tests were not run on {name} {version}; the nearest that they were run on: {nearest}. Watch for ops that stay "
            "native, which each run lists, and let padiff-shim audit find what kernels of this version do wrong",
            name=name, version=version, nearest=", ".join(nearest),
        )  # fmt: skip
        yield REMARK, text


def _device() -> Iterator[tuple[str, str]]:
    try:
        place = settings.check_devices()
        missing = settings.missing_kernels(place)
        yield (GOOD, tr("both frameworks can use {place}", place=place)) if missing is None else (BAD, missing)
    except ValueError as error:
        yield BAD, str(error)


def _unseen(torch_side: torch.Tensor, paddle_side: paddle.Tensor) -> bool:
    """Whether Paddle does not see in one of two tensors of one memory what Torch writes into the other."""
    torch_side[1, 2] = 1
    alike = torch_side.data_ptr() == paddle_side.data_ptr() and list(torch_side.shape) == list(paddle_side.shape) == [2, 3]
    return not alike or float(paddle_side[1, 2].astype("float32")) != 1


def _to_torch() -> Iterator[tuple[str, str]]:
    for dtype in _DTYPES:
        tensor = paddle.zeros([2, 3]).astype(dtype)
        if _unseen(memory.to_torch(tensor), tensor):
            yield BAD, tr("{dtype}: Torch does not see the memory of a Paddle tensor", dtype=dtype)
            return
    view = memory.to_torch(paddle.arange(6, dtype="float32").reshape([2, 3]).t())
    if view.tolist() != [[0, 3], [1, 4], [2, 5]]:
        yield BAD, tr("a transposed view arrives in Torch as {values}", values=view.tolist())
    else:
        yield GOOD, tr("the same memory, in {dtypes}, strided views too", dtypes=", ".join(_DTYPES))


def _to_paddle() -> Iterator[tuple[str, str]]:
    for dtype in _DTYPES:
        tensor = torch.zeros(2, 3, dtype=memory.TORCH_DTYPES[dtype], device=_torch_device())
        if _unseen(tensor, memory.to_paddle(tensor)):
            yield BAD, tr("{dtype}: Paddle does not see the memory of a Torch tensor", dtype=dtype)
            return
    yield GOOD, tr("the same memory, in {dtypes}", dtypes=", ".join(_DTYPES))


def _torch_device() -> str:
    return "cpu" if paddle.device.get_device() == "cpu" else "cuda"


def _interception() -> Iterator[tuple[str, str]]:
    """A Linear with its gradients, within a mode and by Torch alone."""
    values = [paddle.linspace(-1, 1, rows * columns).reshape([rows, columns]) for rows, columns in ((5, 7), (7, 3))]
    x, weight = (value.detach() for value in values)
    x.stop_gradient = weight.stop_gradient = False
    twin, twin_weight = (torch.tensor(value.numpy(), device=_torch_device(), requires_grad=True) for value in values)
    try:
        with opened(ReferenceOptions(linear_layout="view")) as run:
            result = paddle.nn.functional.linear(x, weight)
            result.sum().backward()
    except PadiffShimError as error:
        yield BAD, str(error)
        return
    expected = torch.nn.functional.linear(twin, twin_weight.t())
    expected.sum().backward()
    pairs = [(result, expected), (x.grad, twin.grad), (weight.grad, twin_weight.grad)]
    if run.substituted != {"linear": 1, "sum": 1} or not all(_equal(tensor, other) for tensor, other in pairs):
        yield BAD, tr("a Linear and its gradients are not Torch's: {ops}", ops=run.to_dict()["ops"])
    else:
        yield GOOD, tr("a Linear and its gradients run on Torch's kernels, bit for bit")


def _optimizer() -> Iterator[tuple[str, str]]:
    """Two steps of AdamW, within a mode and by Torch alone."""
    values = paddle.linspace(-1, 1, 21).reshape([7, 3])
    parameter = paddle.create_parameter([7, 3], "float32")
    parameter.set_value(values)
    twin = torch.tensor(values.numpy(), device=_torch_device(), requires_grad=True)
    paddle_optimizer = paddle.optimizer.AdamW(0.1, parameters=[parameter], weight_decay=0.1)
    torch_optimizer = torch.optim.AdamW([twin], 0.1, weight_decay=0.1)
    with opened(ReferenceOptions()) as run:
        for _ in range(2):
            (parameter * parameter).sum().backward()
            paddle_optimizer.step()
            paddle_optimizer.clear_grad()
    for _ in range(2):
        torch_optimizer.zero_grad()
        (twin * twin).sum().backward()
        torch_optimizer.step()
    if run.substituted.get("adamw") != 2 or not _equal(parameter, twin):
        yield BAD, tr("a step of AdamW is not Torch's: {ops}", ops=run.to_dict()["ops"])
    else:
        yield GOOD, tr("steps of AdamW are Torch's, bit for bit")


def _comparison() -> Iterator[tuple[str, str]]:
    """A softmax with its gradient, compared."""
    x = paddle.linspace(-1, 1, 21).reshape([7, 3])
    x.stop_gradient = False
    with opened_comparison(CompareOptions()) as run:
        (paddle.nn.functional.softmax(x) ** 2).sum().backward()
    calls = run.coverage()
    if not calls["float_calls"] or calls["checked_calls"] != calls["float_calls"]:
        yield BAD, tr("a compared call got no verdict: {headline}", headline=run.headline)
    else:
        yield GOOD, tr("calls are compared: {headline}", headline=run.headline)


def _proof() -> Iterator[tuple[str, str]]:
    """A Linear, proven."""
    port, original = paddle.nn.Linear(7, 3), torch.nn.Linear(7, 3, device=_torch_device())
    proof = prove(port, original, paddle.linspace(-1, 1, 35).reshape([5, 7]).numpy())
    state = GOOD if proof.verdict is ProofVerdict.CODE_CORRECT else BAD
    yield state, tr("a proof of a Linear: {headline}", headline=proof.headline)


def _equal(tensor: Any, expected: Any) -> bool:
    return bool((tensor.numpy() == expected.detach().cpu().numpy()).all())


def _entry_points() -> Iterator[tuple[str, str]]:
    here, absent, strange = entry_points.inventory()
    counts = {"here": here, "absent": absent}
    yield (
        GOOD,
        tr("{here} entry points of this Paddle lead to ops of the table; {absent} of the table's are of other versions", **counts),
    )
    if strange:
        names = ", ".join(strange)
        yield REMARK, tr("{count} of this Paddle are unknown here, and stay native: {names}", count=len(strange), names=names)


_CHECKS: dict[str, Callable[[], Iterator[tuple[str, str]]]] = {
    marked("versions"): _versions,
    marked("device"): _device,
    "Paddle -> Torch": _to_torch,
    "Torch -> Paddle": _to_paddle,
    marked("interception"): _interception,
    marked("optimizer"): _optimizer,
    marked("comparison"): _comparison,
    marked("proof"): _proof,
    marked("entry points"): _entry_points,
}
