"""Wrong arguments, everywhere: an error of the library's own that names the argument, what was given and what is accepted."""

import gc
import re
import warnings
from pathlib import Path

import paddle
import pytest
from log_data import HEADER, filled, lines_of, put, record, wrong

import padiff_shim
from padiff_shim import testing
from padiff_shim.catalogue import known_differences
from padiff_shim.errors import FileError, PadiffShimError, UnknownNameError, nearest, unknown
from padiff_shim.report import compare_page
from padiff_shim.runlog.calls import Calls
from padiff_shim.runs.compare_run import CompareRun, load


def planted(*args, **options):
    with testing.planted(*args, **options):
        pass


def plain(value):
    return value


WORDS = (3, None, ["native"], b"torch", "nativ")
FLAGS = ("no", 1, 0, None, [])
COUNTS = (-1, "3", 1.5, None, True, [4])
PATHS = (3, "", "a\0b", b"log", ["log"])
NAMES = (3, None, [3], [None], b"exp", {"exp": 1}, "exq")
CASES = [
    # (call, argument, values, what the message says of what is accepted)
    (padiff_shim.reference, "backend", WORDS, "torch"),
    (padiff_shim.reference, "ops", NAMES[:1] + NAMES[2:], "op"),
    (padiff_shim.reference, "exclude", NAMES, "name|op"),
    (padiff_shim.reference, "layers", (3, [], [3], ""), "glob patterns"),
    (padiff_shim.reference, "strict", FLAGS, "True or False"),
    (padiff_shim.reference, "linear_layout", WORDS, "contiguous, copy, view"),
    (padiff_shim.reference, "all_threads", FLAGS, "True or False"),
    (padiff_shim.reference, "compare", FLAGS, "True or False"),
    (padiff_shim.compare, "backend", WORDS, "torch"),
    (padiff_shim.compare, "ops", NAMES[:1] + NAMES[2:], "op"),
    (padiff_shim.compare, "exclude", NAMES, "name|op"),
    (padiff_shim.compare, "layers", (3, [], [3], ""), "glob patterns"),
    (padiff_shim.compare, "steps", ("3", 1.5, True, -3, [], [1, "a"], {0, -1}, range(0), range(-3, 2)), "step number"),
    (padiff_shim.compare, "ranks", ("0", 1.5, True, b"0"), "number of a process"),
    (padiff_shim.compare, "every", (0, -1, "2", 1.5, True), "from 1 on"),
    (padiff_shim.compare, "first", (0, -1, "2", 1.5, True), "from 1 on"),
    (padiff_shim.compare, "budget", ("ten", "-10%", 0, -0.1, True, float("nan"), float("inf"), [1]), "share"),
    (padiff_shim.compare, "carry", WORDS, "native, torch"),
    (padiff_shim.compare, "on_mismatch", WORDS, "log, raise, warn"),
    (padiff_shim.compare, "mismatch_from", WORDS, "ROUNDING"),
    (padiff_shim.compare, "callback", (3, "f", []), "function of one record"),
    (padiff_shim.compare, "log", PATHS, "a path"),
    (padiff_shim.compare, "on_log_error", WORDS, "raise, warn"),
    (padiff_shim.compare, "known_differences", PATHS, "a path"),
    (padiff_shim.compare, "audit", COUNTS, "from 0 on"),
    (padiff_shim.compare, "keep_inputs", COUNTS, "from 0 on"),
    (padiff_shim.compare, "shadow", FLAGS, "True or False"),
    (padiff_shim.compare, "progress", FLAGS, "True or False"),
    (padiff_shim.compare, "linear_layout", WORDS, "contiguous, copy, view"),
    (padiff_shim.compare, "all_threads", FLAGS, "True or False"),
    (padiff_shim.compare, "seed", COUNTS, "from 0 on"),
    (load, "folder", PATHS, "a path"),
    (lambda op: planted(op, plain), "op", (3, None, ["exp"], "exq"), "exp|abs, acos"),
    (lambda change: planted("exp", change), "change", (3, None, "f"), "function of the result"),
    (lambda side: planted("exp", plain, side=side), "side", (3, None, "both", "padle"), "paddle, torch"),
    (lambda gradients: planted("exp", plain, gradients=gradients), "gradients", FLAGS, "True or False"),
    (lambda layers: planted("exp", plain, layer=layers), "layers", (3, [], ""), "glob patterns"),
    (known_differences.load, "known_differences", PATHS, "a path"),
]  # fmt: skip
ON_A_RUN = [
    (CompareRun.worst, "n", ("linear", -1, 1.5, None, True), "from 0 on"),
    (CompareRun.amplifications, "n", ("linear", -1, 1.5, None, True), "from 0 on"),
    (CompareRun.first_divergence, "at_least", (3, None, "rounding", ["WRONG"]), "ROUNDING"),
    (lambda run, call: run.repro(call, "show.py"), "call", ("linear", 1.5, None, -1, 99, [0]), "from 0 on|place in run.calls"),
    (lambda run, path: run.repro(0, path), "path", PATHS, "a path"),
    (CompareRun.save, "path", PATHS, "a path"),
    (lambda run, limit: compare_page.text(run, limit=limit), "limit", (0, -1, "3", None), "from 1 on"),
    (CompareRun.copy_log, "folder", PATHS, "a path"),
    (lambda run, value: run.calls.filter(op=value), "op", (3, [3], b"exp"), "name"),
    (lambda run, value: run.calls.filter(layer=value), "layer", (3, [3], b"exp"), "name"),
    (lambda run, value: run.calls.filter(verdict=value), "verdict", (3, "WRNG", ["WRNG"]), "WRONG|name"),
    (lambda run, value: run.calls.filter(at_least=value), "at_least", (3, "wrong"), "WRONG"),
    (lambda run, value: run.calls.filter(side=value), "side", (3, "left"), "paddle|name"),
    (lambda run, value: run.calls.filter(phase=value), "phase", (3, "sideways"), "forward|name"),
    (lambda run, value: run.calls.filter(step=value), "step", ("one", 1.5, True), "number"),
    (lambda run, value: run.calls.filter(muted=value), "muted", ("no", 1, 0), "True or False"),
    (lambda run, value: run.calls.filter(where=value), "where", (3, "WRONG"), "function of a Call"),
]  # fmt: skip


def flattened(cases):
    return [
        pytest.param(call, name, value, message, id=f"{name}={value!r}")
        for call, name, values, message in cases
        for value in values
    ]


def complains(call, name, value, wanted):
    with pytest.raises(PadiffShimError) as caught:
        call()
    message = str(caught.value)
    assert re.search(rf"\b{name}\b|op or family", message), message
    assert re.search(wanted, message), message
    element = value[0] if isinstance(value, list) and value else value
    shown = (str(element), repr(element), repr(element)[1:-1], type(value).__name__)
    assert any(text in message for text in shown), message


@pytest.mark.parametrize(("call", "name", "value", "message"), flattened(CASES))
def test_a_wrong_argument_is_named(monkeypatch, tmp_path, call, name, value, message):
    monkeypatch.chdir(tmp_path)
    inner = {"change", "op", "state", "program", "layers", "folder", "side", "gradients", "carry", "known_differences"}
    by_place = call not in (padiff_shim.reference, padiff_shim.compare) and name in inner
    complains(lambda: call(value) if by_place else call(**{name: value}), name, value, message)
    assert not list(tmp_path.iterdir()), "nothing was begun"


@pytest.mark.parametrize(("call", "name", "value", "message"), flattened(ON_A_RUN))
def test_a_wrong_argument_of_a_run_is_named(monkeypatch, tmp_path, call, name, value, message):
    monkeypatch.chdir(tmp_path)
    run = filled([record(0), wrong(1)])
    run.recorder.save_inputs({"index": 0}, {})
    complains(lambda: call(run, value), name, value, message)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("index", ["0", 1.5, None])
def test_the_place_of_a_call_is_a_whole_number(index):
    with pytest.raises(PadiffShimError, match="whole numbers and slices"):
        Calls()[index]


def test_the_rank_of_the_environment_is_a_number(monkeypatch):
    monkeypatch.setenv("PADDLE_TRAINER_ID", "first")
    with pytest.raises(PadiffShimError, match=r"PADDLE_TRAINER_ID.*'first'"):
        padiff_shim.compare("torch")


# ------------------------------------------------------------------------------------------------ what was meant


def test_names_are_suggested_whatever_their_case():
    assert nearest("wrong", ["WRONG", "ROUNDING"])[0] == "WRONG"
    assert nearest("LayerNorm", ["layer_norm", "softmax"]) == ["layer_norm"]
    for call in (lambda: padiff_shim.compare("torch", mismatch_from="wrong"), lambda: filled([]).first_divergence("wrong")):
        with pytest.raises(UnknownNameError, match="Did you mean 'WRONG'"):
            call()
    message = str(unknown("op", "x" * 5_000_000, ["exp"]))
    assert len(message) < 300
    assert "5,000,000 characters" in message


@pytest.mark.parametrize("door", ["reference", "compare"])
def test_a_model_or_a_function_in_place_of_the_backend(door):
    mode = getattr(padiff_shim, door)
    with pytest.raises(PadiffShimError, match=rf"Linear: .*with padiff_shim.{door}\(\"torch\"\)"):
        mode(paddle.nn.Linear(2, 2))
    with pytest.raises(PadiffShimError, match=rf"got plain: write `@padiff_shim.{door}\(\"torch\"\)`"):
        mode(plain)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("deformable_conv", "a step of object detection"),
        ("sparse_add", "works on sparse tensors"),
        ("top_p_sampling", "random op"),
        ("lars_momentum_", "optimizer update"),
        ("full", "exact in both"),
    ],
)
def test_an_op_that_paddle_has_and_we_have_not(name, why):
    for argument in ("ops", "exclude"):
        with pytest.raises(UnknownNameError, match=rf"{argument}= takes .*'{name}.*Paddle's kernel: .*{why}"):
            padiff_shim.reference(**{argument: name})
    with pytest.raises(UnknownNameError, match=rf"op '{name}' has no records: .*{why}"):
        filled([record()]).calls.filter(op=name)


def test_the_records_of_an_op_that_did_not_run(tmp_path):
    calls = load(put(tmp_path, HEADER, *lines_of([record(0), record(1, op="of_another_version"), record(2, op="tanh")]))).calls
    assert len(calls.filter(op="softmax")) == 0, "known, but not run"
    assert len(calls.filter(op="sof*")) == 0, "a pattern"
    assert len(calls.filter(op="of_another_version")) == 1
    assert len(calls.filter(op="tanh").filter(op="of_another_version")) == 0, "not in this part of the log"
    assert len(calls.filter(op=["tanh", "softmax"])) == 1
    for wanted in ("liner", ["softmax", "liner"]):
        with pytest.raises(UnknownNameError, match=r"unknown op 'liner'\. Did you mean 'linear'"):
            calls.filter(op=wanted)


@pytest.mark.usefixtures("undone")
def test_a_mode_that_is_not_open_says_so():
    mode = padiff_shim.reference("torch")
    assert "padiff_shim.reference('torch')" in repr(mode)
    with pytest.raises(AttributeError, match=r"'substituted'.*with padiff_shim"):
        _ = mode.substituted
    assert not hasattr(mode, "substituted")
    with pytest.raises(AttributeError, match="no attribute 'substitutes'"):
        _ = mode.substitutes
    with mode:
        assert repr(mode) == "<padiff_shim.Mode open (1 time)>"
        with pytest.raises(PadiffShimError, match=r"'warnings'.*`with"):
            _ = mode.warnings
    with pytest.raises(PadiffShimError, match="not open"):
        mode.stop()
    comparing = padiff_shim.compare("torch")
    assert "padiff_shim.compare('torch')" in str(comparing)
    with pytest.raises(PadiffShimError, match="'worst'"):
        comparing.worst(3)
    comparing.start()
    comparing.stop()


def test_a_mode_that_never_was_open_is_said_when_it_goes():
    mode = padiff_shim.reference("torch")
    with pytest.warns(RuntimeWarning, match=r"with padiff_shim\.reference"):
        del mode
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        padiff_shim.reference("torch")(plain)  # a decorated function need not be called
        opened = padiff_shim.reference("torch")
        opened.start()
        opened.stop()
        del opened
        gc.collect()
        for bad in ({"backend": "jax"}, {"ops": "liner"}):
            with pytest.raises(PadiffShimError):
                padiff_shim.reference(**bad)


# ------------------------------------------------------------------------------------------------ files


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileError, match=r"none\.toml.*: No such file"):
        padiff_shim.compare("torch", known_differences=tmp_path / "none.toml")
    with pytest.raises(FileError, match="Is a directory"):
        padiff_shim.compare("torch", known_differences=tmp_path)
    run = filled([wrong()])
    assert run.save(tmp_path / "no" / "such" / "folder" / "r.html").is_file()
    (tmp_path / "file").touch()
    (tmp_path / "folder.html").mkdir()
    for path in (tmp_path / "file" / "r.html", tmp_path / "folder.html"):
        with pytest.raises(FileError, match="cannot be written"):
            run.save(path)
    with pytest.raises(FileError, match="cannot be saved"):
        run.copy_log(tmp_path / "file" / "log")


def test_a_call_whose_operands_were_not_kept_offers_the_nearest(tmp_path):
    run = filled([wrong(0, site="a.py:1"), record(1, op="tanh"), wrong(2, site="b.py:2"), wrong(3, site="b.py:2")], folder=tmp_path)
    for use in (lambda: run.repro(3, tmp_path / "show.py"), lambda: run.repro(run.calls[3], tmp_path / "show.py")):
        with pytest.raises(
            PadiffShimError,
            match=r"linear .*keep_inputs=N, ops='linear', mismatch_from='WRONG'",
        ):
            use()
    for index in (0, 2):
        run.recorder.save_inputs({"index": index}, {})
    assert [call.call for call in run.kept()] == [0, 2]
    with pytest.raises(PadiffShimError, match=r"#3 linear .*run\.kept\(\).*run\.repro\(2, \.\.\.\), #2"):
        run.repro(run.worst(3)[-1], tmp_path / "show.py")
    assert [call.call for call in load(tmp_path).kept()] == [0, 2]


@pytest.mark.parametrize("columns", [None, "90"])
def test_a_table_in_a_file_is_not_folded(monkeypatch, columns):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    reason = "a reason of " + "many " * 20 + "words"
    run = padiff_shim.Run("torch", "contiguous")
    run.tally().native["exp", reason] += 1
    run.warn("long " * 60)
    lines = str(run).splitlines()
    assert any(reason in line for line in lines) is (columns is None)
    assert any(line.startswith("warning:") and len(line) > 290 for line in lines) is (columns is None)
    assert columns is None or max(map(len, lines)) <= int(columns)


def test_docs_show_a_call_that_can_be_shown():
    text = (Path(__file__).resolve().parents[2] / "docs" / "compare.md").read_text(encoding="utf-8")
    assert "for call in run.kept()" in text
    assert 'run.repro(call, "repro.py")' in text
