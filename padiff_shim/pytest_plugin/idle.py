"""What a project's tests may ask for when pytest runs without ``--padiff``."""

from __future__ import annotations

from typing import Any

import pytest


class Idle:
    """Stands where the plugin would."""

    @pytest.fixture
    def padiff_run(self) -> Any:
        """The run of the mode around this test: there is none, and the test is skipped."""
        pytest.skip("padiff_run is the run of a test under --padiff=reference or --padiff=compare")
