"""Each program of ``tests/defects`` shows its fault on the versions that it names, and on no others."""

import ast
import re
import signal

import forked
import paddle
import pytest
import torch
from helpers import PATIENCE, sampled

import padiff_shim
from padiff_shim.auditing import reproducing
from padiff_shim.catalogue import known_differences
from padiff_shim.catalogue.defects import SECTIONS, SHOWN, defects, parsed, reproducer
from padiff_shim.tested import PADDLES, TORCHES

pytestmark = pytest.mark.compat

INSTALLED = {"paddle": paddle.__version__, "torch": torch.__version__.partition("+")[0]}
CASES = [pytest.param(defect, program, id=title) for defect in defects().values() for title, program in defect.programs()]
ABSENT = ("AttributeError", "RuntimeError", "TypeError", "ValueError")  # functions of other versions, and what 2.6 refuses


def claimed(defect):
    """Whether it was seen on the versions that are installed."""
    return INSTALLED["paddle"] in defect.paddle or INSTALLED["torch"] in defect.torch


@pytest.fixture(scope="module")
def endings(request):
    """Title -> how the program ended. On other versions than its own a program that ends the process may do anything: not run."""
    programs = {}
    for item in request.session.items:
        if "endings" in getattr(item, "fixturenames", ()):
            defect, program = item.callspec.params["defect"], item.callspec.params["program"]
            if claimed(defect) or defect.ends == [SHOWN]:
                programs[item.callspec.id] = program
    return reproducing.ended(programs, PATIENCE)[0]


@pytest.mark.parametrize(("defect", "program"), sampled(CASES, 16))
def test_it_shows(defect, program, endings, request):
    how = endings.get(request.node.callspec.id)
    if how is None or (not claimed(defect) and how in ABSENT):
        pytest.skip(f"not seen on {INSTALLED}")
    if how == "AttributeError" and INSTALLED["paddle"] != PADDLES[-1]:
        pytest.skip("an older Paddle lacks the function of this case")
    shown = reproducing.shows_defect(defect, how)
    if claimed(defect) and defect.by_processor and not how:
        pytest.skip("not on this processor")
    assert shown == claimed(defect), how


MENDED = [
    case
    for case in CASES
    if INSTALLED["paddle"] in case.values[0].paddle
    and not re.search("No change|Wrong, too", case.values[0].facts["Under the shim"])
    and not any("SIG" in pattern for pattern in case.values[0].ends)
]


@pytest.mark.usefixtures("undone")
@pytest.mark.parametrize(("defect", "program"), sampled(MENDED, 4))
def test_reference_has_it_not_unless_the_header_says_so(defect, program):
    """Of what ends the process here as well, "Under the shim" says "No change"; of Torch's own faults nothing is promised."""
    with padiff_shim.reference("torch"):
        exec(compile(program, defect.name, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize(
    "name", ["relu hides NaN", "max gives each equal maximum the whole gradient", "einsum with two results crashes"]
)
def test_the_exit_status_says_whether_the_fault_is_there(name):
    defect = defects()[name]
    run = forked.run(["-c", reproducer(name)])
    expected = -signal.Signals[defect.ends[0]] if defect.ends[0].startswith("SIG") else 1
    if not (defect.by_processor and not run.returncode):
        assert run.returncode == (expected if claimed(defect) else 0)
    assert (SHOWN in run.stderr) == (run.returncode == 1)


def test_a_program_can_be_sent_as_it_is():
    for case in CASES:
        _, program = case.values
        assert "padiff" not in program, case.id
        assert len(program.splitlines()) <= 40, case.id
        imported = {alias.name for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Import) for alias in node.names}
        assert imported <= {"numpy", "paddle", "paddle.nn.functional", "torch", "contextlib", "signal", "sys"}, case.id


def test_headers_name_known_differences():
    shown = {defect.known for defect in defects().values()} - {""}
    names = {quirk.name for quirk in known_differences.shipped()}
    assert shown <= names
    shown |= {"epsilon in float32", "number of an optimizer in float32"}  # among the numbers that go through float32
    shown |= {"norms bounded together", "range left on the way"}  # no defects: test_defects_named.py has calls that show them
    assert shown == names


PROGRAM = '"""Values."""\n\nimport numpy as np\nimport paddle\n\n# %% relu hides NaN\n"""What.\n\n{}\n"""\nassert np.bool_(False)\n'
LINES = {
    "Ops": "relu",
    "Seen on": "Paddle 2.6.2, 3.3.1; CPU",
    "Effect": "0 instead of NaN",
    "Under the shim": "NaN.",
}


def read(lines):
    (defect,) = parsed("values.py", PROGRAM.format("\n".join(f"{key}: {value}" for key, value in lines.items())))
    return defect


def test_a_header_is_read():
    defect = read(LINES | {"Effect": "0\n    instead of NaN", "Ends with": "SIG*, ValueError"})
    assert (defect.name, defect.what) == ("relu hides NaN", "What.")
    assert defect.text.endswith('\n"""\n\nimport numpy as np\n\nassert np.bool_(False)\n')
    assert (defect.section, defect.line, defect.facts["Effect"]) == ("Values", 6, "0 instead of NaN")
    assert (defect.paddle, defect.torch, defect.by_processor) == (["2.6.2", "3.3.1"], [], False)
    range_of_versions = {"Seen on": f"Torch {TORCHES[0]} to {TORCHES[2]}; CPU"}
    assert read(LINES | range_of_versions).torch == [*TORCHES[:3]]
    endings = ("SIGSEGV", "ValueError", "AssertionError", "")
    assert [reproducing.shows_defect(defect, how) for how in endings] == [True, True, False, False]


# Key of a header -> what it holds. Those of OPTIONAL may be left out.
KEYS = {
    "Section": "one of SECTIONS, by the docstring of the file; docs/defects.md lists it under MENDED if the newest tested Paddle "
    "is not among its versions",
    "Ops": "the ops, or methods, that have it",
    "Seen on": "a framework, its versions that show the fault (2.4.1 to 2.13.0: all that are tested between), and the device; a "
    "version not listed has it not, or was not tried",
    "Effect": "the wrong result and the right one, or the error, as measured",
    "Ends with": "types of errors, names of signals, or patterns of them, in which the program ends; SHOWN if left out",
    "Known difference": "its name in the table of known differences, if it has one",
    "Under the shim": "what reference and compare do",
}
OPTIONAL = {"Ends with", "Known difference"}
_SEEN = re.compile(r"(Paddle|Torch) (\d+\.\d+\.\d+(?:, \d+\.\d+\.\d+| to \d+\.\d+\.\d+)*); (CPU|GPU)(, some processors)?")


def test_a_header_says_all_that_there_is_to_say():
    for defect in defects().values():
        assert {*KEYS} - OPTIONAL <= {*defect.facts} <= {*KEYS}, defect.name
        assert all(defect.facts.values()), defect.name
        assert defect.what, defect.name
        assert defect.facts["Section"] in SECTIONS, defect.name
        assert _SEEN.fullmatch(defect.facts["Seen on"]), defect.name


def test_the_text_of_a_program():
    assert padiff_shim.testing.reproducer("softmax hides NaN") == defects()["softmax hides NaN"].text
    celu = reproducer("python numbers go through float32: celu")
    assert "F.celu" in celu
    assert "F.elu" not in celu
    assert "F.elu" in reproducer("python numbers go through float32")
    with pytest.raises(padiff_shim.UnknownNameError, match="'layer_norm gradient lacks a frozen weight'"):
        reproducer("layer_norm gradient lacks frozen weight")
