"""The tests of this folder open thousands of modes."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def many(installed):
    """For each of them."""
