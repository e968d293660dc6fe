"""What docs/ecosystem.md says differs: each program shows it, and that what it says to write is the original's."""

import re
import runpy

import paddle
import pytest
from helpers import ROOT

PROGRAMS = sorted((ROOT / "tests/ecosystem").glob("*.py"))


@pytest.fixture(autouse=True)
def _default_dtype():
    dtype = paddle.get_default_dtype()
    yield
    paddle.set_default_dtype(dtype)


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.stem for program in PROGRAMS])
def test_the_port_differs_and_what_is_to_be_written_does_not(program, capsys):
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(program))
    port, mended = map(float, re.findall(r"\d\.\de[+-]\d+", capsys.readouterr().out))
    assert ended.value.code == 1
    assert port > 1e-4
    assert mended < 1e-9


def test_the_page_lists_every_program():
    page = (ROOT / "docs/ecosystem.md").read_text(encoding="utf-8")
    assert {program.name for program in PROGRAMS} == set(re.findall(r"\.\./tests/ecosystem/(\w+\.py)", page))
