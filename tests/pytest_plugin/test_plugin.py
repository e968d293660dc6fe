"""``pytest --padiff``, as a project's own tests would meet it: each case runs pytest in a process of its own."""

import configparser
import os
from pathlib import Path
from xml.etree import ElementTree

import forked
import pytest
from helpers import ROOT, thinned

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.compat

TESTS = """
import paddle
import pytest
from padiff_shim.testing import planted

@pytest.fixture
def model():
    paddle.seed(0)
    return paddle.nn.Linear(4, 3)

def wrong(out, *values):
    return out * 1.001

def test_right(model):
    assert model(paddle.ones([2, 4])).shape == [2, 3]

def test_wrong(model):
    with planted("linear", wrong):
        model(paddle.ones([2, 4]))

def test_that_fails(model):
    with planted("linear", wrong):
        model(paddle.ones([2, 4]))
    assert False, "its own failure"
"""


PLUGIN = ("-p", "padiff_shim.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:randomly")


@pytest.fixture
def run(pytester):
    """Runs pytest on ``TESTS`` (or another file) with the plugin, as an installation would load it."""

    def go(*options, tests=TESTS, warm=True, **variables):
        pytester.makepyfile(tests)
        done = forked.run(["-m", "pytest", *PLUGIN, *options], cwd=pytester.path, warm=warm, COLUMNS="200", **variables)
        return pytest.RunResult(done.returncode, done.stdout.splitlines(), done.stderr.splitlines(), 0.0)

    return go


def test_without_the_option_nothing_happens(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile("import sys\n\n\ndef test_it():\n    assert not {'paddle', 'torch', 'numpy', 'rich'} & set(sys.modules)\n")
    done = pytester.runpytest_subprocess(*PLUGIN)
    done.assert_outcomes(passed=1)
    done.stdout.no_fnmatch_line("*= padiff_shim*")


@pytest.mark.slow
def test_where_it_is_installed_it_may_be_named_as_well(run, pytester):
    """``-p padiff_shim.pytest_plugin``, which a checkout needs, was refused there: "already registered under a different name"."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    installed = pytester.mkdir("padiff_shim-0.dist-info")
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: padiff_shim\nVersion: 0\n")
    (installed / "entry_points.txt").write_text(f"[pytest11]{parser['options.entry_points']['pytest11']}\n")
    path = f"{pytester.path}{os.pathsep}{ROOT}"
    run("--collect-only", tests="def test_it():\n    pass\n", PYTHONPATH=path).stdout.fnmatch_lines(["*test_it*"])


def test_a_test_of_the_run_is_skipped_where_there_is_none(run):
    done = run("-rs", tests="def test_it(padiff_run):\n    assert not padiff_run.native\n")
    done.assert_outcomes(skipped=1)
    done.stdout.fnmatch_lines(["*SKIPPED*under --padiff=reference*"])


def test_findings_stand_beside_a_failure_and_fail_nothing_by_themselves(run):
    done = run("--padiff=compare")
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(["*padiff_shim: compare*", "*its own failure*", "*- padiff_shim, compare -*", "*Worst calls*"])
    done.stdout.fnmatch_lines(["*= padiff_shim, compare: 3 tests =*", "*::test_wrong: WRONG 1", "*::test_that_fails: WRONG 1"])
    done.stdout.fnmatch_lines(["1 test: nothing to look at", "No test fails for its findings without --padiff-from=*"])


def test_a_finding_from_a_class_up_fails_its_test(run, pytester):
    """Also in a project whose tests turn warnings into errors: those of importing the frameworks are not its own."""
    options = ("--padiff-set", "ops=linear", "--padiff-set", "log=logs", "--junit-xml=junit.xml", "-W", "error")
    done = run("--padiff=compare", "--padiff-from=WRONG", *options, warm=False)  # which imports them
    done.assert_outcomes(passed=1, failed=2)
    properties = {(p.get("name"), p.get("value")) for p in ElementTree.parse(pytester.path / "junit.xml").iter("property")}
    assert ("padiff_shim", "WRONG 1") in properties
    assert any(name == "padiff_shim_headline" and value.startswith("Paddle's linear at ") for name, value in properties)
    pages = [value for name, value in properties if name == "padiff_shim_page"]
    assert len(pages) == 2
    assert all("</html>" in Path(page).read_text(encoding="utf-8") for page in pages)
    done.stdout.fnmatch_lines(["*_ test_wrong _*", "padiff_shim: findings from WRONG up", "#0 linear out*WRONG [[]paddle[]]*"])
    done.stdout.fnmatch_lines(["*its own failure*"])
    logs = sorted(name.rpartition(".py-")[2] for name in os.listdir(pytester.path / "logs"))
    assert logs == ["test_right", "test_that_fails", "test_wrong"], "each has one of its own"


REFERENCE = """
import paddle
import pytest

def test_mode(padiff_run):
    paddle.ones([2, 2]) @ paddle.ones([2, 2])
    assert padiff_run.substituted == {"matmul": 1}

@pytest.mark.padiff("off")
def test_off(padiff_run):
    assert padiff_run is None

@pytest.mark.padiff("compare")
def test_compare(padiff_run):
    paddle.ones([2, 2]) @ paddle.ones([2, 2])
    assert padiff_run.counts.records == 1

def test_native():
    paddle.vision.ops.nms(paddle.to_tensor([[0.0, 0.0, 1.0, 1.0]]), 0.5)
    assert False

@pytest.mark.padiff("sideways")
def test_marker():
    pass

@pytest.fixture
def broken():
    paddle.ones([2, 2]) @ paddle.ones([2, 2])
    raise ValueError("in a fixture")

def test_fixture(broken):
    pass

def test_after_it_the_next_has_a_run_of_its_own(padiff_run):
    assert padiff_run.substituted == {}
"""


def test_reference_markers_and_the_fixture(run):
    done = run("--padiff=reference", tests=REFERENCE)
    done.assert_outcomes(passed=4, failed=1, errors=2)
    done.stdout.fnmatch_lines(["*in a fixture*", "*padiff_shim, reference*", "*matmul*"])
    done.stdout.fnmatch_lines(["*unknown padiff 'sideways'*compare, off, reference*"])
    done.stdout.fnmatch_lines(["*::test_native: on Paddle's kernel: nms 1"])


@pytest.mark.rows(3)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--padiff=reference", "--padiff-from=WRONG"], "*--padiff-from belongs to --padiff=compare*"),
        (["--padiff=compare", "--padiff-from=WRNG"], "*unknown --padiff-from 'WRNG'*Did you mean 'WRONG'*"),
        (["--padiff=compare", "--padiff-set", "opps=linear"], "*unknown option 'opps'*Did you mean 'ops'*"),
        (
            ["--padiff=compare", "--padiff-set", "audit=few"],
            "*audit= is a whole number*got 'few' (--padiff-set audit=)*",
        ),
        (["--padiff=compare", "--padiff-set", "strict=1"], "*--padiff-set strict= belongs to reference*"),
        (["--padiff=compare", "--padiff-set", "ops=linaer"], "*unknown op or family 'linaer'*Did you mean 'linear'*"),
        (["--padiff=reference", "--padiff-set", "definitions=nosuch"], "*unknown definitions 'nosuch'*"),
        (["--padiff=compare", "--padiff-set", "audit"], "*--padiff-set is NAME=VALUE, got 'audit'*"),
        (["--padiff-set", "ops=linear"], "*--padiff-set goes with --padiff=reference or --padiff=compare*"),
        (["--padiff-from", "WRONG"], "*--padiff-from goes with --padiff=*"),
    ],
)
def test_wrong_options_are_usage_errors(options, message, pytester):
    done = pytester.runpytest_inprocess("-p", "padiff_shim.pytest_plugin", *options)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([message])


@pytest.mark.rows(1)
@pytest.mark.parametrize("mode", ["reference", "compare"])
@pytest.mark.parametrize("style", thinned(("auto", "native"), "auto"))
def test_what_paddle_refuses_is_shown_without_our_frames(mode, style, run):
    refused = "paddle.matmul(paddle.ones([2, 3]), paddle.ones([2, 3]))"
    tests = (
        f"import unittest\nimport paddle\ndef test_it():\n    {refused}\nclass TestIt(unittest.TestCase):\n    def test_it(self):\n"
    )
    done = run(f"--padiff={mode}", f"--tb={style}", tests=f"{tests}        {refused}\n")
    done.assert_outcomes(failed=2)
    done.stdout.fnmatch_lines(["*InvalidArgument*"])
    done.stdout.no_fnmatch_line(f"*{ROOT / 'padiff_shim'}*")
