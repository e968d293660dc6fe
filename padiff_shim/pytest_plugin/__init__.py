"""``pytest --padiff=reference|compare``: a project's own tests under a mode.

Every pytest in an environment with this package loads it by its entry point, so it imports nothing without ``--padiff``.
"""

from __future__ import annotations

from typing import Any

from ..text import tr

_MODES = ("reference", "compare")


def pytest_addoption(parser: Any) -> None:
    """The options, in a group of their own."""
    group = parser.getgroup("padiff_shim", "Paddle programs on Torch's kernels")
    group.addoption("--padiff", choices=_MODES, help="run each test on Torch's kernels, or on both and judge the differences")
    group.addoption("--padiff-from", metavar="VERDICT", help="compare: a finding of this class or a worse one fails its test")
    group.addoption(
        "--padiff-set", metavar="NAME=VALUE", action="append", default=[], help="an option of the mode, such as ops=linear,norm"
    )


def pytest_configure(config: Any) -> None:
    """Register the plugin if there is ``--padiff``, otherwise a fixture that skips."""
    config.addinivalue_line("markers", "padiff(mode): reference, compare or off, for one test of a run with --padiff")
    if config.getoption("--padiff"):
        from .plugin import Plugin

        config.pluginmanager.register(Plugin(config), "padiff_shim.plugin")
    else:
        import pytest

        for option in ("--padiff-from", "--padiff-set"):
            if config.getoption(option):
                raise pytest.UsageError(
                    tr("padiff_shim: {option} goes with --padiff={modes}", option=option, modes=" or --padiff=".join(_MODES))
                )

        class Idle:
            """The fixtures of a run without ``--padiff``."""

            @pytest.fixture
            def padiff_run(self) -> Any:
                """The run of the mode around this test: there is none, and the test is skipped."""
                pytest.skip("padiff_run is the run of a test under --padiff=reference or --padiff=compare")

        config.pluginmanager.register(Idle(), "padiff_shim.plugin")
