"""For tests: of one's own program (``assert_same_kernels``, ``assert_on_torch``), of one's own alarms (``planted``), and programs
that show the defects found in both frameworks (``reproducer``, docs/defects.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .arguments import function, one_of
from .catalogue.defects import reproducer as reproducer
from .fault_injection import planted as planted
from .language import marked
from .modes.compare import opened as compare_mode
from .modes.options import CompareOptions, ReferenceOptions
from .modes.reference import opened as reference_mode
from .runlog.counts import rounds
from .runlog.words import call_line
from .runs.compare_run import CompareRun
from .runs.run import Run
from .verdicts import Verdict

SHOWN = 10  # findings in a failure's text


def assert_same_kernels(program: Callable[..., Any], *arguments: Any, below: str = "LOW_ACCURACY", **options: Any) -> CompareRun:
    """Fail if Paddle's and Torch's kernels differ by more than rounding anywhere in a program.

    Args:
        program: called once, with ``arguments``, inside of a comparison; a backward in it is compared, too.
        below: the verdict that no finding may reach. Known and negligible differences do not count.
        options: of :func:`padiff_shim.compare`. The environment and settings files are not asked.

    Returns:
        The run, to look further: ``run.coverage()``, ``run.verdicts``.

    Raises:
        AssertionError: there are such findings; the text names line, layer and cause of each.
        PadiffShimError: an argument that is not accepted. What the program raises is raised unchanged.

    Example:
        >>> import paddle
        >>> from padiff_shim import testing
        >>> x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> testing.assert_same_kernels(lambda: x @ x).verdicts
        {'EQUAL': 1}
    """
    function("program", program, marked("its arguments"))
    threshold = one_of("below", below, Verdict)
    with compare_mode(CompareOptions(**options)) as run:
        program(*arguments)
    lines = findings(run, threshold)
    if lines:
        raise AssertionError(
            "\n".join([f"Paddle's and Torch's kernels differ ({len(lines)} findings from {threshold} up):", *lines])
        )
    return run


def assert_on_torch(program: Callable[..., Any], *arguments: Any, **options: Any) -> Run:
    """Fail if a float op call of a program stays on Paddle's kernel under :func:`padiff_shim.reference`.

    Calls on integers, and on tensors without elements, do not count: they round nothing.

    Args:
        program: called once, with ``arguments``.
        options: of :func:`padiff_shim.reference`. The environment and settings files are not asked.

    Raises:
        AssertionError: there are such calls; the text names each op with the reason.

    Example:
        >>> import paddle
        >>> from padiff_shim import testing
        >>> x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> testing.assert_on_torch(lambda: x @ x).substituted
        {'matmul': 1}
    """
    function("program", program, marked("its arguments"))
    with reference_mode(ReferenceOptions(**options)) as run:
        program(*arguments)
    native = [f"{op}: {why} ({calls})" for op, why, calls in stayed_native(run)]
    if native:
        raise AssertionError("\n".join(["float op calls stayed on Paddle's kernels:", *native]))
    return run


def stayed_native(run: Run) -> list[tuple[str, str, int]]:
    """(op, reason, calls) of the float calls of a reference run that stayed on Paddle's kernels."""
    stayed = ((op, why, calls) for op, reasons in sorted(run.native.items()) for why, calls in sorted(reasons.items()))
    return [calls for calls in stayed if rounds(calls[1])]


def findings(run: CompareRun, at_least: str) -> list[str]:
    """A line for each finding of that class or a more serious one, the most serious first; known and negligible ones left out."""
    least = Verdict(at_least).severity
    serious = [finding for finding in run.by_line() if not finding.apart and Verdict(finding.worst["verdict"]).severity >= least]
    lines = [
        call_line(finding.worst) + (f" (and {finding.records - 1} alike)" if finding.records > 1 else "")
        for finding in serious[:SHOWN]
    ]
    return lines + ([f"and {len(serious) - SHOWN} further findings"] if len(serious) > SHOWN else [])
