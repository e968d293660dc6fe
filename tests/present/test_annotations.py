"""Annotations for GitHub's workflows, and SARIF."""

import dataclasses

import pytest

from padiff_shim.present.annotations import SCHEMA, Finding, Patch, github, sarif


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "checkout" / "src files").mkdir(parents=True)
    (tmp_path / "checkout" / "src files" / "a,b:c%.py").write_text("pass\n")
    (tmp_path / "checkout" / "port.py").write_text("pass\n")
    (tmp_path / "elsewhere.py").write_text("pass\n")
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.chdir(tmp_path / "checkout")
    return tmp_path


ODD = "src files/a,b:c%.py"
FINDINGS = [
    Finding("CODE_DIFFERS: another attribute", "error", "100% wrong,\r\nsays: this", [(ODD, 3), ("port.py", 7)]),
    Finding("CODE_DIFFERS: another attribute", "error", "again", [("port.py", 9), ("port.py", 9)]),
    Finding("LOW_ACCURACY", "warning", "in a package", [("../elsewhere.py", 1), ("none.py", 2), ("port.py", 0)]),
    Finding("LOCAL_SUSPECT", "note", "no line"),
]


def read(value):
    """As the runner does: https://docs.github.com/actions/reference/workflow-commands."""
    for code, sign in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        value = value.replace(code, sign)
    return value


def test_workflow_commands_are_read_back(project):
    lines = github(FINDINGS, "CODE_DIFFERS: at port.py:7", "error").splitlines()
    commands = []
    for line in lines:
        _, command, text = line.split("::", 2)
        word, _, properties = command.partition(" ")
        commands.append((word, dict(map(read, pair.split("=", 1)) for pair in properties.split(",")), read(text)))
    titles = [finding.rule for finding in FINDINGS]
    assert commands == [
        ("error", {"file": ODD, "line": "3", "title": titles[0]}, "100% wrong,\r\nsays: this"),
        ("error", {"file": "port.py", "line": "9", "title": titles[1]}, "again"),
        ("warning", {"title": titles[2]}, "in a package"),
        ("notice", {"title": titles[3]}, "no line"),
        ("error", {"title": "padiff-shim"}, "CODE_DIFFERS: at port.py:7"),
    ]


def test_files_are_relative_to_the_workspace(project, monkeypatch):
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project))
    assert FINDINGS[1].lines == [("checkout/port.py", 9)]
    assert FINDINGS[2].lines == [("elsewhere.py", 1)]


def test_sarif_has_what_the_standard_demands(project):
    log = sarif(FINDINGS, "CODE_DIFFERS: at port.py:7", "error", "1.2.3")
    assert (log["$schema"], log["version"]) == (SCHEMA, "2.1.0")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("padiff-shim", "1.2.3")
    assert [rule["id"] for rule in driver["rules"]] == ["CODE_DIFFERS: another attribute"]
    assert all(driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    assert [(result["level"], result["message"]) for result in run["results"]] == [
        ("error", {"text": "100% wrong,\r\nsays: this"}),
        ("error", {"text": "again"}),
    ]
    first = run["results"][0]
    places = [place["physicalLocation"] for place in (*first["locations"], *first["relatedLocations"])]
    assert [(place["artifactLocation"]["uri"], place["region"]["startLine"]) for place in places] == [
        ("src%20files/a%2Cb%3Ac%25.py", 3),
        ("port.py", 7),
    ]
    assert {place["artifactLocation"]["uriBaseId"] for place in places} == {"%SRCROOT%"}
    assert "relatedLocations" not in run["results"][1]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is True
    assert [(remark["level"], remark["message"]["text"]) for remark in invocation["toolExecutionNotifications"]] == [
        ("warning", "in a package"),
        ("note", "no line"),
        ("error", "CODE_DIFFERS: at port.py:7"),
    ]


def replaced(text, change):
    """As an editor applies a fix: https://docs.oasis-open.org/sarif/sarif/v2.1.0, 3.57."""
    region, lines = change["deletedRegion"], text.split("\n")
    before = [*lines[: region["startLine"] - 1], lines[region["startLine"] - 1][: region["startColumn"] - 1]]
    after = [lines[region["endLine"] - 1][region["endColumn"] - 1 :], *lines[region["endLine"] :]]
    return "\n".join(before) + change["insertedContent"]["text"] + "\n".join(after)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_sarif_mends_the_file(project, end):
    file = project / "checkout" / "port.py"
    before = ["x = 'ö𝄞'; y = f(x,", "      axis=1)", "z = y"]
    file.write_bytes(end.join([*before, ""]).encode())
    patch = Patch("port.py", 1, 2, "\n".join([*before[:2], ""]), "y0 = x\nx = 'ö𝄞'; y = f(y0,\n      axis=-1)\n")
    outside = dataclasses.replace(patch, file="../elsewhere.py")
    mended, as_it_is = (Finding("r", "error", "text", [("port.py", 1)], each) for each in (patch, outside))
    first, second = sarif([mended, as_it_is], "", "error", "1")["runs"][0]["results"]
    assert "fixes" not in second
    (fix,) = first["fixes"]
    assert fix["description"]["text"] == "y0 = x\nx = 'ö𝄞'; y = f(y0,\naxis=-1)"
    (change,) = fix["artifactChanges"]
    assert change["artifactLocation"] == first["locations"][0]["physicalLocation"]["artifactLocation"]
    text = file.read_bytes().decode()
    assert replaced(text, change["replacements"][0]) == patch.after.replace("\n", end) + before[2] + end
