"""The tests of this folder open thousands of modes."""

import pytest

import padiff_shim


@pytest.fixture(autouse=True, scope="module")
def installed():
    """The interception stays in place between them."""
    padiff_shim.install()
    yield
    padiff_shim.uninstall()
