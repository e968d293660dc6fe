"""The fixtures of a pytest run without ``--padiff``."""

from __future__ import annotations

from typing import Any

import pytest


class Idle:
    """Takes the place of the plugin."""

    @pytest.fixture
    def padiff_run(self) -> Any:
        """The run of the mode around this test: there is none, and the test is skipped."""
        pytest.skip("padiff_run is the run of a test under --padiff=reference or --padiff=compare")
