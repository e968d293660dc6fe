"""The plugin of ``pytest --padiff``: a mode around each test, its findings in the reports of failing tests, and a summary."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ..arguments import one_of
from ..cli.program import tidy
from ..errors import ArgumentError, PadiffShimError
from ..modes import options
from ..modes.options import MODES, ModeOptions
from ..testing import stayed_native
from ..text import joined, many, tr
from ..verdicts import Verdict

_PROPERTY = "padiff_shim"
_OFF = "off"
_ROWS = 20


class Plugin:
    """The plugin of a session. Each test has its own mode, open from its fixtures to the end of its call."""

    def __init__(self, config: pytest.Config) -> None:
        self._mode_name: str = config.getoption("--padiff")
        try:
            self._options = {self._mode_name: self._resolved(self._mode_name, config.getoption("--padiff-set"))}
            word = config.getoption("--padiff-from")
            if word is not None and self._mode_name != "compare":
                raise ArgumentError("--padiff-from belongs to --padiff=compare")
            self._threshold = None if word is None else one_of("--padiff-from", word, Verdict)
        except PadiffShimError as error:
            raise pytest.UsageError(tr("padiff_shim: {error}", error=error)) from None
        self._mode: Any = None  # the mode of the running test
        self._run: Any = None  # the run of the latest test

    def _resolved(self, mode: str, words: list[str]) -> tuple[ModeOptions, dict[str, options.Setting]]:
        pairs = dict(_pair(word) for word in words)
        return options.resolved(mode, pairs, lambda name: f"--padiff-set {name}=")

    # -------------------------------------------------------------------------------------------- a test

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Open the mode before the fixtures run: models are often made there."""
        self._run = None
        self._open(item)
        try:
            return (yield)
        except BaseException:
            self._close()
            raise

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Close the mode after the test; a sufficiently serious finding fails a test that passed."""
        try:
            result = yield
        finally:
            self._close()
            if self._run is not None:
                # What the report of the test carries, also in JUnit's XML: the run in short, its headline, and with a log the page
                short = _in_short(self._run)
                properties = [(_PROPERTY, short), (f"{_PROPERTY}_headline", self._run.headline)]
                log = _log_of(self._options[self._mode_name][0], item)
                if log is not None:
                    properties.append((f"{_PROPERTY}_log", str(log)))
                    if short not in (_QUIET, _EMPTY):
                        properties.append((f"{_PROPERTY}_page", str(self._run.save(log / "report.html"))))
                item.user_properties += properties
        findings = self._serious()
        if findings:
            pytest.fail(
                "\n".join(map(str, [tr("padiff_shim: findings from {threshold} up", threshold=self._threshold), *findings])),
                pytrace=False,
            )
        return result

    @pytest.hookimpl(specname="pytest_runtest_makereport")
    def pytest_our_frames_are_left_out(self, call: Any) -> None:
        """Before the report is made, behind what gives a unittest its failure: what Paddle refuses ends at Paddle's line."""
        if call.excinfo is not None:
            tidy(call.excinfo.value)
            call.excinfo.traceback = type(call.excinfo.traceback)(call.excinfo.tb)  # it may have been read before

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
        """Put what the mode found beside the failure."""
        report = yield
        if report.failed and self._run is not None and call.when in ("setup", "call"):
            report.sections.append((f"padiff_shim, {self._mode_name}", str(self._run)))
        return report

    def _open(self, item: pytest.Item) -> None:
        name, marker = self._mode_name, item.get_closest_marker("padiff")
        if marker is not None:
            name = one_of("padiff", *marker.args, (*MODES, _OFF)) if len(marker.args) == 1 else _wrong(marker)
        if name == _OFF:
            return
        if name not in self._options:
            self._options[name] = self._resolved(name, [])
        from ..modes.opening import opened

        options, owed = self._options[name]
        with _shown_warnings():
            # With a log, each test has a folder of its own in it
            log = _log_of(options, item)
            self._mode = opened(options if log is None else type(options)(**{**vars(options), "log": log}), owed)
            self._run = self._mode.start()

    def _close(self) -> None:
        mode, self._mode = self._mode, None
        if mode is not None:
            with _shown_warnings():
                mode.stop()

    def _serious(self) -> list[str]:
        from ..testing import findings

        if self._threshold is None or not hasattr(self._run, "recorder"):
            return []
        return findings(self._run, self._threshold)

    @pytest.fixture
    def padiff_run(self) -> Any:
        """The run of the mode around this test, or None where it is off."""
        return self._run if self._mode is not None else None

    # ------------------------------------------------------------------------------------------- the session

    def pytest_sessionstart(self) -> None:
        """Redirect Paddle's functions once for all tests; options that no test can run with are an error before the first."""
        from ..modes.opening import looked_up
        from ..modes.reference import install

        try:
            with _shown_warnings():
                looked_up(*self._options[self._mode_name])
                install()
        except PadiffShimError as error:
            raise pytest.UsageError(tr("padiff_shim: {error}", error=error)) from None

    def pytest_sessionfinish(self) -> None:
        """Put everything back."""
        from ..modes.reference import uninstall

        uninstall()

    def pytest_report_header(self) -> str:
        """Which mode the tests run in."""
        return f"padiff_shim: {self._mode_name}" + (
            tr(", failing from {threshold}", threshold=self._threshold) if self._threshold else ""
        )

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """A line for each test with findings, how many tests had none, and how many had nothing to judge."""
        summaries = [
            (report.nodeid, summary)
            for reports in terminalreporter.stats.values()
            for report in reports
            for name, summary in getattr(report, "user_properties", ())
            if name == _PROPERTY and report.when == "call"
        ]
        terminalreporter.section(
            tr("padiff_shim, {mode_name}: {tests}", mode_name=self._mode_name, tests=many(len(summaries), "test"))
        )
        from ..modes.environment import versions
        from ..present.document import untested_words, version_words

        environment = versions()
        for line in (*untested_words(environment), version_words(environment)):
            terminalreporter.line(line)
        rows = [f"{nodeid}: {summary}" for nodeid, summary in summaries if summary not in (_QUIET, _EMPTY)]
        for row in rows[:_ROWS]:
            terminalreporter.line(row)
        if len(rows) > _ROWS:
            terminalreporter.line(tr("and {more} further tests", more=len(rows) - _ROWS))
        counted = Counter(summary for _, summary in summaries)
        if counted[_QUIET] or not summaries:
            terminalreporter.line(tr("{tests}: nothing to look at", tests=many(counted[_QUIET], "test")))
        if counted[_EMPTY]:
            terminalreporter.line(tr("{tests}: no call was judged", tests=many(counted[_EMPTY], "test")))
        if rows and self._mode_name == "compare" and self._threshold is None:
            terminalreporter.line(tr("No test fails for its findings without --padiff-from=LOW_ACCURACY (or another verdict)."))


_QUIET, _EMPTY = "nothing to look at", "no call was judged"  # properties of tests: the same in every language


@contextmanager
def _shown_warnings() -> Iterator[None]:
    """Warnings are shown and are no errors, under ``-W error``, too: those of the frameworks are not the project's."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        yield


def _wrong(marker: Any) -> Any:
    raise ArgumentError(
        "the marker padiff takes one mode ({value}), got {args}", value=joined(", ", (*MODES, _OFF)), args=repr(marker.args)
    )


def _pair(word: str) -> tuple[str, str]:
    name, sign, value = word.partition("=")
    if not sign:
        raise ArgumentError("--padiff-set is NAME=VALUE, got {word}", word=repr(word))
    return name.strip(), value


def _log_of(options: ModeOptions, item: pytest.Item) -> Path | None:
    """The folder of a test's log."""
    if options.log is None:
        return None
    return Path(item.config.rootpath, options.log, re.sub(r"[^\w.-]+", "-", item.nodeid).strip("-"))


def _in_short(run: Any) -> str:
    """A test's run in one line: verdicts on which ``--padiff-from`` can fail it, or ops that stayed native."""
    if not hasattr(run, "recorder"):
        native: Counter[str] = Counter()
        for op, _, calls in stayed_native(run):
            native[op] += calls
        return f"on Paddle's kernel: {', '.join(f'{op} {calls}' for op, calls in native.items())}" if native else _QUIET
    least = Verdict.LOW_ACCURACY.severity
    serious = {name: number for name, number in run.counts.verdicts(everything=False).items() if Verdict(name).severity >= least}
    judged = any(Verdict(name) is not Verdict.UNVERIFIED for name in run.counts.verdicts())
    return ", ".join(f"{name} {number}" for name, number in serious.items()) or (_QUIET if judged else _EMPTY)
