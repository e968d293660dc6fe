"""Options from outside of a call: the environment, settings files, and which of them counts."""

import dataclasses
import inspect
import sys

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim.errors import ArgumentError, MissingFrameworkError, PadiffShimError
from padiff_shim.modes import options
from padiff_shim.modes.options import MODES, CompareOptions, ModeOptions, ReferenceOptions, kind_of, textual

pytestmark = pytest.mark.compat


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """A current folder without settings."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(function, *args, **options):
    """The settings that a call's run was told of, and the mode."""
    mode = function(*args, **options)
    mode._used = True  # it is not going to be opened
    return mode


def table(folder, text, name="pyproject.toml"):
    head = "[tool.padiff_shim]\n" if name == "pyproject.toml" else "[padiff_shim]\n"
    (folder / name).write_text(head + text)


@pytest.mark.parametrize(
    ("function", "options"), [(padiff_shim.reference, ReferenceOptions), (padiff_shim.compare, CompareOptions)]
)
def test_signatures_and_options_say_the_same(function, options):
    parameters = dict(inspect.signature(function).parameters)
    parameters.pop("compare", None)
    assert {name: default.default for name, default in parameters.items()} == {
        parameter.name: parameter.default for parameter in dataclasses.fields(options)
    }


@pytest.mark.parametrize("mode", MODES)
def test_every_default_is_accepted_and_reads_back(mode):
    options = MODES[mode]()
    for name, parameter in textual(MODES[mode]).items():
        value = getattr(options, name)
        text = ",".join(value) if kind_of(parameter).several and value else "none" if value is None else str(value)
        if value in ([], ()):
            continue
        assert kind_of(parameter).checked(name, kind_of(parameter).from_text(text)) == value, name


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("ops", "linear, norm", ["linear", "norm"]),
        ("layers", "encoder.*\ndecoder", ["encoder.*", "decoder"]),
        ("shadow", "Yes", True),
        ("shadow", "0", False),
        ("screening", "none", None),
        ("every", "3", 3),
        ("steps", "3", 3),
        ("steps", "10:20:2", slice(10, 20, 2)),
        ("steps", ":5", slice(None, 5)),
        ("steps", "0, 5,9", [0, 5, 9]),
        ("ranks", "0:2", range(2)),
        ("ranks", "0,3", [0, 3]),
        ("budget", "10%", "10%"),
        ("budget", "0.1", 0.1),
        ("mismatch_from", "WRONG", "WRONG"),
        ("log", "", None),
    ],
)
def test_the_environment_is_read(name, text, value, monkeypatch):
    monkeypatch.setenv(f"PADIFF_SHIM_{name.upper()}", text)
    assert options.outside(CompareOptions)[name].value == value


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("PADIFF_SHIM_OPTS", "linear", "unknown setting 'PADIFF_SHIM_OPTS'. Did you mean 'PADIFF_SHIM_OPS'\\? Acc"),
        ("PADIFF_SHIM_AUDIT", "few", r"audit= is a whole number from 0 on, got 'few' \(PADIFF_SHIM_AUDIT\)"),
        ("PADIFF_SHIM_SHADOW", "maybe", r"shadow= is True or False, got 'maybe' \(PADIFF_SHIM_SHADOW\)"),
        ("PADIFF_SHIM_STEPS", "1-3", r"steps= is a step number .*, got '1-3' \(PADIFF_SHIM_STEPS\)"),
        ("PADIFF_SHIM_CARRY", "padle", r"unknown carry 'padle'.*native.*\(PADIFF_SHIM_CARRY\)"),
        ("PADIFF_SHIM_OPS", "norm,linaer", r"unknown op or family 'linaer'. Did you mean 'linear'.* \(PADIFF_SHIM_OPS\)$"),
        ("PADIFF_SHIM_EXCLUDE", "nosuch", r"unknown op or family 'nosuch'.* \(PADIFF_SHIM_EXCLUDE\)$"),
        ("PADIFF_SHIM_CALLBACK", "f", "PADIFF_SHIM_CALLBACK: callback= takes a function, which only a call can give"),
    ],
)
def test_a_wrong_variable_is_refused_in_every_mode(variable, text, message, monkeypatch):
    monkeypatch.setenv(variable, text)
    for function in (padiff_shim.reference, padiff_shim.compare):
        with pytest.raises(ArgumentError, match=message):
            function("torch")


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.cfg"])
def test_a_file_above_is_read(name, nowhere, monkeypatch):
    if name == "pyproject.toml":
        pytest.importorskip("tomllib")
    values = "ops = ['linear']\naudit = 3\n" if name == "pyproject.toml" else "ops = linear\naudit = 3\n"
    table(nowhere, values, name)
    (nowhere / "deep" / "er").mkdir(parents=True)
    (nowhere / "deep" / "pyproject.toml").write_text("[tool.other]\nx = 1\n")
    monkeypatch.chdir(nowhere / "deep" / "er")
    result = options.outside(CompareOptions)
    assert {key: parameter.value for key, parameter in result.items()} == {"ops": ["linear"], "audit": 3}
    assert str(nowhere / name) in result["audit"].origin
    assert set(options.outside(ReferenceOptions)) == {"ops"}, "a mode takes the settings that it has"


def test_of_two_files_in_one_folder_one_counts(nowhere):
    pytest.importorskip("tomllib")
    table(nowhere, "audit = 3\n")
    table(nowhere, "audit = 4\n", "setup.cfg")
    assert options.outside(CompareOptions)["audit"].value == 3


def test_a_changed_file_is_read_again(nowhere):
    table(nowhere, "audit = 3\n", "setup.cfg")
    assert options.outside(CompareOptions)["audit"].value == 3
    table(nowhere, "audit = 40\n", "setup.cfg")
    assert options.outside(CompareOptions)["audit"].value == 40


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("opps = 'linear'", "opps in .*pyproject.toml: unknown setting 'opps'. Did you mean 'ops'"),
        ("mismatch-from = 'WRONG'", "Did you mean 'mismatch_from'"),
        ("audit = 1.5", r"audit= is a whole number from 0 on, got 1.5 \(audit in \[tool.padiff_shim\] of .*pyproject.toml"),
        ("strict = 'perhaps'", "strict= is True or False, got 'perhaps'"),
        ("ops = [", "pyproject.toml: "),
    ],
)
def test_a_wrong_file_is_refused(text, message, nowhere):
    pytest.importorskip("tomllib")
    table(nowhere, text)
    with pytest.raises(ArgumentError, match=message):
        padiff_shim.reference("torch")


def test_without_a_toml_reader_it_says_what_to_do(nowhere, monkeypatch):
    table(nowhere, "audit = 7\n")
    monkeypatch.setitem(sys.modules, "tomllib" if sys.version_info >= (3, 11) else "tomli", None)
    with pytest.raises(MissingFrameworkError, match="pip install tomli"):
        options.outside(CompareOptions)


def test_a_file_without_our_table_is_not_read(nowhere):
    (nowhere / "pyproject.toml").write_text("this is no TOML, and [tool.padiff_shims] is not ours")
    (nowhere / "setup.cfg").write_text("[padiff]\nx = 1\n")
    assert options.outside(ModeOptions) == {}


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("pyproject.toml", "[tool.padiff-shim]"),
        ("pyproject.toml", "[padiff_shim]"),
        ("setup.cfg", "[tool:padiff_shim]"),
        ("setup.cfg", "[tool.padiff_shim]"),
        ("setup.cfg", "[padiff-shim]"),
    ],
)
def test_a_table_under_a_name_that_is_not_read_is_refused(name, head, nowhere):
    (nowhere / name).write_text(f"[other]\nx = 1\n{head}\nevery = 3\n")
    meant = "[tool.padiff_shim]" if name == "pyproject.toml" else "[padiff_shim]"
    with pytest.raises(ArgumentError) as caught:
        made(padiff_shim.compare, "torch")
    assert str(caught.value).endswith(f"{name}: {head} is not read. Did you mean {meant}?")


@pytest.mark.parametrize(
    "text", ["[tool.uv.sources.padiff-shim]\n", "[project]\ndependencies = ['padiff-shim']\n", "# [padiff_shim]\n"]
)
def test_what_others_say_of_us_is_no_table_of_ours(text, nowhere):
    (nowhere / "pyproject.toml").write_text(text)
    assert options.settings_file() is None


def test_call_before_environment_before_file_before_default(nowhere, monkeypatch):
    table(nowhere, "audit = 3\nkeep_inputs = 5\nlinear_layout = view\n", "setup.cfg")
    monkeypatch.setenv("PADIFF_SHIM_AUDIT", "4")
    monkeypatch.setenv("PADIFF_SHIM_EVERY", "2")
    monkeypatch.setenv("PADIFF_SHIM_STEPS", "0:10")
    run = made(padiff_shim.compare, "torch", every=None).run
    recorded = run.header["options"]
    assert (recorded["every"], recorded["audit"], run.linear_layout, recorded["seed"]) == (None, 4, "view", 0)
    assert any("steps=0:10: PADIFF_SHIM_STEPS" in warning for warning in run.warnings), run.warnings
    assert any("audit=4: PADIFF_SHIM_AUDIT" in warning for warning in run.warnings), run.warnings
    assert any("keep_inputs=5: keep_inputs in [padiff_shim]" in warning for warning in run.warnings)
    assert not any("every" in warning for warning in run.warnings)


def test_reference_that_hands_on_to_compare_takes_its_settings(monkeypatch):
    monkeypatch.setenv("PADIFF_SHIM_AUDIT", "4")
    monkeypatch.setenv("PADIFF_SHIM_STRICT", "1")
    monkeypatch.setenv("PADIFF_SHIM_LINEAR_LAYOUT", "view")
    run = made(padiff_shim.reference, "torch", compare=True).run
    assert run.header["options"]["audit"] == 4
    assert run.linear_layout == "view"


def test_what_the_library_opens_itself_heeds_no_settings(monkeypatch):
    monkeypatch.setenv("PADIFF_SHIM_OPS", "none")  # refused by a mode that heeds it
    assert padiff_shim.prove(paddle.nn.Linear(4, 3), torch.nn.Linear(4, 3), np.ones((2, 4)))


def test_options_are_checked_where_they_are_made():
    with pytest.raises(PadiffShimError, match="keep_inputs= is a whole number"):
        CompareOptions(keep_inputs="few")
