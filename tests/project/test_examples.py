"""Every example in a docstring runs and prints what it says, and what a user calls has one."""

import doctest
import importlib
import inspect
import os
from pathlib import Path

import pytest

import padiff_shim

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules():
    """The names of all modules of the package that hold an example."""
    for folder, package in (("padiff_shim", "padiff_shim"), ("patches", "padiff_shim.patches")):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if ">>>" in path.read_text(encoding="utf-8") and "defects" not in path.parts:
                parts = path.relative_to(ROOT / folder).with_suffix("").parts
                yield ".".join([package, *parts]).removesuffix(".__init__")


SECONDS = ("padiff_shim.auditing.audit.audit", "padiff_shim.proof.proof.Proof.bits")  # that they take
EXAMPLES = [
    pytest.param(module, test.name.removeprefix(f"{module}."), marks=[pytest.mark.slow] * (test.name in SECONDS))
    for module in modules()
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(module))
    if test.examples
]


@pytest.mark.parametrize(("module", "name"), EXAMPLES)
def test_example(module, name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    full = module if name == module else f"{module}.{name}"
    tests = {test.name: test for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(module))}
    failed, attempted = doctest.DocTestRunner(optionflags=OPTIONS).run(tests[full])
    assert attempted
    assert not failed, capsys.readouterr().out
    assert os.getcwd() == str(tmp_path)


# What a function returns -> the function, whose example shows it.
RETURNED_BY = {
    "Audit": "audit",
    "Bisection": "bisect",
    "Call": "load",
    "CompareRun": "load",
    "Difference": "diff",
    "Gate": "gate",
    "Recording": "record",
    "Run": "load",
    "ShardedProof": "prove_sharded",
    "TreeDifference": "difference",
}


def test_what_a_user_calls_has_an_example():
    """Errors have none: their messages say what to write."""
    plain = {"Entry", "__version__", "uninstall"}
    lacking = []
    for name in set(padiff_shim.__all__) - plain:
        value = getattr(padiff_shim, name)
        example = getattr(padiff_shim, RETURNED_BY.get(name, name))
        if not (inspect.isclass(value) and issubclass(value, Exception)) and ">>>" not in (example.__doc__ or ""):
            lacking.append(name)
    assert not lacking, f"no example in the docstring: {', '.join(sorted(lacking))}"
