"""Known differences: what an entry matches, version ranges, and the file that a user writes."""

import json

import pytest

from padiff_shim.catalogue import known_differences

VERSIONS = {"paddle": "3.3.1", "torch": "2.13.0+cpu"}
RECORD = {
    "op": "sum",
    "phase": "forward",
    "tensor": "out",
    "dtype": "float32",
    "verdict": "LOW_ACCURACY",
    "side": "paddle",
    "hypothesis": "sequential-sum",
    "modifiers": [],
    "layer": "encoder.layers.3.norm",
    "site": "train.py:41 in forward",
    "stats": {"paddle": {"rho_max": 12.0}, "torch": {"rho_max": 0.5}},
}
WHOLE = {
    "name": "ours",
    "op": ["sum", "mea?"],
    "reason": "why",
    "verdict": ["LOW_ACCURACY"],
    "side": "paddle",
    "phase": "forward",
    "tensor": "out",
    "dtype": "float*",
    "layer": "encoder.*",
    "site": "train.py:*",
    "rho_max": 100,
    "paddle": ">=2.6,!=3.0.*",
    "torch": ">=2.5",
    "mute": True,
}


def loaded(tmp_path, *entries):
    path = tmp_path / "known.json"
    path.write_text(json.dumps({"known": list(entries)}))
    return known_differences.load(path)


def test_the_users_entry_comes_first(tmp_path):
    (ours,) = loaded(tmp_path, WHOLE)
    assert ours.mute
    assert known_differences.find(RECORD, VERSIONS, [ours]) is ours
    assert known_differences.find(RECORD, VERSIONS).name == "sequential sum"
    assert known_differences.find({**RECORD, "verdict": "WRONG"}, VERSIONS, [ours]) is None


@pytest.mark.parametrize(
    "change",
    [
        {"op": "logsumexp"},
        {"verdict": "WRONG"},
        {"side": "torch"},
        {"phase": "backward"},
        {"tensor": "grad:x"},
        {"dtype": "bfloat16"},
        {"layer": "decoder.0"},
        {"layer": None},
        {"site": "other.py:1"},
        {"stats": {"paddle": {"rho_max": 101.0}}},
        {"stats": {"paddle": {"rho_max": "nan"}}},
        {"stats": {"paddle": {"rho_max": "inf"}}},
        {"stats": {}},
    ],
    ids=str,
)
def test_every_key_narrows(tmp_path, change):
    (ours,) = loaded(tmp_path, WHOLE)
    assert ours.matches(RECORD, VERSIONS)
    assert not ours.matches({**RECORD, **change}, VERSIONS)


def test_hypothesis_is_a_pattern(tmp_path):
    (ours,) = loaded(tmp_path, {**WHOLE, "hypothesis": "eps=*"})
    assert not ours.matches(RECORD, VERSIONS)
    assert not ours.matches({**RECORD, "hypothesis": None}, VERSIONS)
    assert ours.matches({**RECORD, "hypothesis": "eps=1e-5"}, VERSIONS)


def test_a_hypothesis_explains_all_of_the_error_or_nothing(tmp_path):
    (ours,) = loaded(tmp_path, {**WHOLE, "hypothesis": "eps=*"})
    (broad,) = loaded(tmp_path, WHOLE)
    record = {**RECORD, "hypothesis": "eps=1e-5", "modifiers": ["partly"]}
    assert not ours.matches(record, VERSIONS)
    assert broad.matches(record, VERSIONS), "without a hypothesis the entry is the user's word for everything of its class"


def test_rho_max_of_both_sides(tmp_path):
    (ours,) = loaded(tmp_path, {"name": "n", "op": "*", "reason": "r", "verdict": "WRONG", "rho_max": 2})
    for torch_rho, expected in ((1.0, True), (3.0, False)):
        stats = {"paddle": {"rho_max": 1.0}, "torch": {"rho_max": torch_rho}}
        assert ours.matches({**RECORD, "verdict": "WRONG", "side": "both", "stats": stats}, VERSIONS) is expected


@pytest.mark.parametrize(
    ("version", "version_range", "expected"),
    [
        ("3.3.1", ">=3.3,<3.4", True),
        ("3.4.0", ">=3.3,<3.4", False),
        ("3.10.0", ">=3.9", True),
        ("2.13.0+cpu", "==2.13", True),
        ("2.13.0+cpu", "==2.13.0", True),
        ("2.13.1", "==2.13", False),
        ("2.13.1", "==2.13.*", True),
        ("2.13.1", "!=2.13.*", False),
        ("3.0.0rc1", "<=3.0", True),
        ("3.3.1", ">3.3", True),
        ("", ">=3.3", False),
        ("develop", ">=3.3", False),
        ("develop", "", True),
    ],
)
def test_version_ranges(version, version_range, expected):
    assert known_differences.in_range(version, version_range) is expected


def test_toml(tmp_path):
    """The example of the module's own documentation, as it stands there."""
    pytest.importorskip("tomllib")
    _, _, text = known_differences.__doc__.partition("::\n")
    example = text.partition("A record matches")[0]
    path = tmp_path / "known.toml"
    path.write_text("\n".join(line.strip() for line in example.splitlines()))
    ours, muted = known_differences.load(path)
    assert (ours.name, ours.op, ours.mute, ours.rho_max) == ("our gelu", ("gelu",), True, 100.0)
    assert muted.name == "sequential sum"
    assert muted.mute
    assert known_differences.find(RECORD, VERSIONS, [muted]) is muted
    path.write_text("known = 3 3")
    with pytest.raises(ValueError, match=r"known\.toml"):
        known_differences.load(path)


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({**WHOLE, "verdicts": "WRONG"}, r"entry 1 \(ours\).*unknown key 'verdicts'.*'verdict'"),
        ({k: v for k, v in WHOLE.items() if k != "reason"}, "'reason' is missing"),
        ({**WHOLE, "verdict": ["WORNG"]}, "unknown verdict 'WORNG'.*'WRONG'"),
        ({**WHOLE, "verdict": 3}, "a string or a list of strings"),
        ({**WHOLE, "op": [""]}, "a string or a list of strings"),
        ({**WHOLE, "side": "padle"}, "unknown side 'padle'.*'paddle'"),
        ({**WHOLE, "phase": "back"}, "unknown phase"),
        ({**WHOLE, "mute": "yes"}, "true or false"),
        ({**WHOLE, "rho_max": "many"}, "a number of rounding units"),
        ({**WHOLE, "rho_max": float("nan")}, "a number of rounding units"),
        ({**WHOLE, "paddle": "~=3.3"}, "not a version condition"),
        ({**WHOLE, "paddle": ">3.*"}, "not a version condition"),
        ({**WHOLE, "name": 3}, "'name' is a string"),
        ({"name": "sequential summ", "mute": True}, "'sequential sum'"),
        ("layer_norm", "not a table of keys"),
    ],
)
def test_wrong_entries_are_refused(tmp_path, entry, complaint):
    with pytest.raises(ValueError, match=complaint):
        loaded(tmp_path, entry)


@pytest.mark.parametrize("content", ['{"known": {}}', "[]", '{"known": [], "more": 1}', "{"])
def test_wrong_files_are_refused(tmp_path, content):
    path = tmp_path / "known.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"known\.json"):
        known_differences.load(path)
    with pytest.raises(FileNotFoundError):
        known_differences.load(tmp_path / "none.toml")
