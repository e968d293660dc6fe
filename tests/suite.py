"""The suite in a process that runs tests: one thread, the CPU, reproducible hypothesis, ``gpu`` tests only where there is one."""

import gc
import os
import random
import zlib

import forked
import numpy as np
import paddle
import pytest
import torch
from hypothesis import HealthCheck, settings

import padiff_shim
from padiff_shim.catalogue.registry import ops
from padiff_shim.dispatch import frames
from padiff_shim.dispatch.dtypes import has_kernel
from padiff_shim.frameworks import weight_copies
from padiff_shim.intercept import entry_points
from padiff_shim.table.op import Op


@pytest.fixture
def undone():
    """The test leaves the process as it was."""
    yield
    if frames.top() is not None or frames._shared:
        gc.collect()  # a tenth of a second where much has been made
    assert frames.top() is None
    assert not frames._shared


@pytest.fixture(scope="module")
def installed():
    """Between a module's many short modes the interception stays in place."""
    padiff_shim.install()
    yield
    padiff_shim.uninstall()


@pytest.fixture(scope="module", autouse=True)
def _many_modes(request):
    """A proof opens and closes a dozen: a tenth of what it costs."""
    if request.path.parent.name in ("bits", "proof", "questions"):
        request.getfixturevalue("installed")


GROUPS = (entry_points.OPS, entry_points.LAYERS, entry_points.SHADOWS)


@pytest.fixture(autouse=True)
def _nothing_stays_open():
    """No test leaves a mode open: others would see its redirections. Those of the engine stay while a tensor is on the tape."""
    before = [group.installed for group in GROUPS]
    yield
    assert [group.installed for group in GROUPS] == before, "a mode was left open"


# Nothing of Hypothesis' own limits of time: what a busy machine takes longer over is right all the same.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True, print_blob=True)
settings.load_profile("suite")
torch.set_num_threads(1)
paddle.set_device("cpu")
# Reports as wide as where the output is no terminal: once readline is imported, every child inherits a made-up width of 80.
os.environ.pop("COLUMNS", None)
if "PADIFF_TESTS_WARM" in os.environ:  # as in a process that has made many products of each shape: see CONTRIBUTING.md
    weight_copies.WORTH = 0


def seeded(what):
    """Random numbers that depend on ``what`` draws them, and on nothing that came before."""
    seed = zlib.crc32(what.encode())
    random.seed(seed)
    np.random.seed(seed)
    paddle.seed(seed)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed takes a millisecond to note who asks
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


gc.freeze()
gc.disable()  # while the tests are collected: they all stay, and each collection would walk through all that there are


def pytest_collection_finish():
    gc.enable()


class Backwards(pytest.Dir):
    """A folder from its last file to its first."""

    def collect(self):
        return [*super().collect()][::-1]


def pytest_collect_directory(path, parent):
    """Every other process begins at the end: of a fresh checkout each then finds half of the modules compiled."""
    backwards = os.environ.get("PYTEST_XDIST_WORKER", "gw0")[-1] in "13579"
    return Backwards.from_parent(parent, path=path) if backwards else None


def pytest_collectstart(collector):
    if isinstance(collector, pytest.Module):
        seeded(collector.nodeid)


_frozen_for = ""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """A collection walks through what the tests of one module have made, not through both frameworks and all earlier tests.

    Many tests collect, and what is there grows: a third of a second each, towards the end.
    """
    global _frozen_for
    seeded(f"fixtures of {item.nodeid}")
    if item.path != _frozen_for:
        _frozen_for = item.path
        gc.collect()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    seeded(item.nodeid)


def pytest_sessionfinish():
    forked.stop()


def named(item):
    """The ops that a test is one of, whatever their doors are called, and all other words among its parameters."""
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return {getattr(value, "name", value) for value in values if isinstance(value, (str, Op))}


ROWS = int(os.environ.get("PADIFF_TESTS_ROWS", "0"))  # `make smoke-compat`, `make smoke-isa`


def spread(table, count):
    """So many rows of a test's table, from all over it."""
    return {table[place * len(table) // count] for place in range(count)}


def tables_of(items):
    """The rows of each test, by its name; a row of one that is marked ``every_row`` is a table."""
    tables = {}
    for item in items:
        tables.setdefault(item if item.get_closest_marker("every_row") else item.nodeid.partition("[")[0], []).append(item)
    return tables.values()


def mark_further_rows(items):
    """Of a test that is marked ``rows(3)`` the rows behind three, from all over its table, are slow."""
    for table in tables_of(items):
        mark = table[0].get_closest_marker("rows")
        for item in set(table) - spread(table, *mark.args) if mark else ():
            item.add_marker("slow")


def thin_out(config, items):
    """Of a test's rows so many as ``PADIFF_TESTS_ROWS`` says; of one that is marked ``every_row`` all."""
    stay = {item for table in tables_of(items) for item in spread(table, ROWS)}
    config.hook.pytest_deselected(items=[item for item in items if item not in stay])
    items[:] = [item for item in items if item in stay]


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    skip_what_lacks(items)
    mark_further_rows(items)
    yield  # pytest leaves out what `-m` and `-k` say
    if ROWS:
        thin_out(config, items)


def skip_what_lacks(items):
    items.sort(key=lambda item: item.path.parts)  # one order in all processes
    lacking = [op for op in ops().values() if not has_kernel(op)]
    fatal, elsewhere = ({op.name for op in lacking if op.limits.cpu is here} for here in (True, False))
    ends = pytest.mark.skip(reason="Paddle's kernel ends the process on a processor without AVX-512")
    absent = pytest.mark.skip(reason="Paddle has no kernel of it for a CPU: see tests/table/test_devices.py")
    for item in items:
        if fatal and ("avx512" in item.keywords or not fatal.isdisjoint(named(item))):
            item.add_marker(ends)
        if not elsewhere.isdisjoint(named(item)):
            item.add_marker(absent)
    if paddle.is_compiled_with_cuda() and torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a GPU that both frameworks can use")
    for item in items:
        if item.get_closest_marker("gpu") is not None:  # a folder of that name is among the keywords, too
            item.add_marker(skip)
