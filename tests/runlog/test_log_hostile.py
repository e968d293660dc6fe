"""What a hostile log may hold, and what is then shown or done: only text, and only errors of the library's own."""

import json

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from log_data import HEADER, dumped, lines_of, paths_of, put, record, replaced, wrong

from padiff_shim.errors import PadiffShimError
from padiff_shim.report.live import line
from padiff_shim.runlog.counts import NAMES, OTHER_NAMES
from padiff_shim.runlog.reader import LogError
from padiff_shim.runs.compare_run import load
from padiff_shim.text import shown

# ------------------------------------------------------------------------------------------------ what is shown

HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\nnext\u202etxt\ud800[bold]x[/bold] <b> | `c`"
TEXTS = ("op", "layer", "site", "tensor", "dtype", "hypothesis", "quirk", "reason", "entry", "device")


def views(run):
    """Everything of a run that goes to a terminal or into Markdown."""
    yield str(run)
    yield run.markdown()
    yield from map(str, run.calls)
    yield from map(repr, run.calls)
    yield from map(str, run.worst(3))
    for call in run.calls[:1]:
        with pytest.raises(AttributeError) as caught:
            _ = call.nothing_like_it
        yield str(caught.value)


def only_text(text):
    return all(part.isprintable() for part in text.split("\n"))


def test_control_characters_never_reach_the_terminal(tmp_path):
    hostile = dict.fromkeys(TEXTS, HOSTILE)
    calls = [wrong(0, **hostile, alternatives=[HOSTILE], modifiers=[HOSTILE]), record(1, verdict="UNVERIFIED", **hostile)]
    calls[0][HOSTILE] = 1
    header = dumped(type="run", schema=1, backend=HOSTILE, warnings=[HOSTILE], environment={"paddle": HOSTILE})
    end = dumped(type="end", coverage={"unchecked": {HOSTILE: 1}, "unchecked_ops": {HOSTILE: {HOSTILE: 1}}})
    run = load(put(tmp_path, header, *lines_of(calls), end))
    seen = list(views(run))
    assert all(map(only_text, seen)), [text for text in seen if not only_text(text)]
    assert "\\x1b[2J" in seen[0], "what was there is shown, not dropped"
    assert "[bold]x[/bold]" in seen[0], "no markup of the terminal library either"
    assert "\x1b[2J" not in line(run.counts, calls[0])
    page = run.save(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "\\u001b" not in page, "the page's data holds the escape as text"
    assert "\\\\x1b[2J" in page


def test_a_substituting_run_shows_names_as_text():
    from padiff_shim.runs.run import Run

    run = Run("torch", "contiguous")
    run.tally().native["exp", "[bold]no[/bold] [/x] \x1b[2J :warning:"] += 1
    run.warn("\x1b[31m[red]")
    text = " ".join(str(run).replace("│", " ").split())
    assert only_text(text)
    assert "[bold]no[/bold] [/x] \\x1b[2J :warning:" in text
    assert "\\x1b[31m[red]" in text


def test_long_names_are_cut_and_their_length_said(tmp_path):
    long = "n" * 100_000
    calls = [wrong(0, **dict.fromkeys(TEXTS, long)), record(1, op="exp")]
    run = load(put(tmp_path, HEADER, *lines_of(calls)))
    assert max(map(len, views(run))) < 60_000
    assert shown(long, 10) == "nnnnnnnnnn… (100,000 characters)"
    assert "(100,000 characters)" in str(run.calls[0])
    assert run.calls[0].op == long, "the data itself is whole"


@pytest.mark.slow
def test_very_many_names_are_counted_together(tmp_path):
    from padiff_shim.report.compare_page import pack

    calls = [record(call, op=f"op{call}", layer=f"layer{call}", quirk=f"quirk{call}") for call in range(NAMES + 50)]
    run = load(put(tmp_path, HEADER, *lines_of(calls)))
    packed = pack((call.to_dict() for call in run.calls), {}, 10)
    for groups in (run.by_op(), run.by_layer()):
        assert len(groups) == NAMES + 1
        assert groups[OTHER_NAMES].records == 50
    for groups in (packed["ops"], packed["layers"]):
        assert len(groups) == NAMES + 1
        assert groups[OTHER_NAMES] == {"known": 50}, "what an entry explains is counted apart"
    assert len(run.counts.quirks) == NAMES + 1
    assert sum(group.records for group in run.by_op().values()) == NAMES + 50


# ------------------------------------------------------------------------------------------------ anything at all

WORDS = st.sampled_from(["nan", "-inf"])
SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=6) | WORDS
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3))
REAL = [
    {"type": "run", "schema": 1, "rank": 0, "backend": "torch", "environment": {}, "flags": {}, "options": {}, "warnings": []},
    {"type": "call", "index": 0, **wrong()},
    {"type": "call", "index": 1, **record(stats=None, inputs=[{"name": "x", "number": 2}])},
    {"type": "event", "kind": "warning", "text": "so", "created": "now", "coverage": {}},
    {"type": "end", "calls": 1, "records": 1, "seconds": 1.5, "coverage": {"unchecked_ops": {"a": {"b": 1}}, "float_calls": 3}},
]


PLACES = [(number, path) for number, entry in enumerate(REAL) for path in paths_of(entry) if path]


def use(folder):
    """Load and ask for everything; an error of the library is an answer, any other is not."""
    try:
        run = load(folder)
    except LogError:
        return
    for text in views(run):
        assert only_text(text)
    run.to_dict(), run.by_layer(), run.by_line(), run.amplifications(), run.first_divergence("EQUAL")
    run.calls.filter(op="*", layer="*", at_least="ROUNDING", step=0, muted=False)
    json.dumps(run.to_dict(), default=str)
    run.save(folder / "report.html")
    for call in run.calls:
        try:
            run.repro(call, folder / "show.py")
        except PadiffShimError:
            continue


FUZZ = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@FUZZ
@given(st.lists(st.tuples(st.sampled_from(PLACES), JSON), min_size=1, max_size=3))
def test_any_value_in_any_field(tmp_path, changes):
    records = list(REAL)
    for (number, path), value in changes:
        try:
            records[number] = replaced(records[number], path, value)
        except (KeyError, TypeError, IndexError):
            continue  # an earlier change took the place away
    use(put(tmp_path, *(json.dumps(entry).encode() + b"\n" for entry in records)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@FUZZ
@given(st.lists(st.tuples(st.integers(0, 5000), st.binary(max_size=4), st.integers(0, 4)), min_size=1, max_size=5))
def test_any_bytes_in_any_place(tmp_path, changes):
    content = b"".join(json.dumps(entry).encode() + b"\n" for entry in REAL)
    for place, new, removed in changes:
        content = content[:place] + new + content[place + removed :]
    use(put(tmp_path, content))
