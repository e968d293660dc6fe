"""A new user's way, examples/first_port.sh: install, first proof, equal bits, the pull request's report, a training run in CI."""

import os
import subprocess
import sys

import pytest
from helpers import PATIENCE, ROOT


@pytest.mark.slow
def test_the_way_leads_to_equal_bits(tmp_path):
    commands, work = tmp_path / "bin", tmp_path / "work"
    commands.mkdir()
    work.mkdir()
    installed = commands / "padiff-shim"
    installed.write_text(f'#!/bin/sh\nexec {sys.executable} -m padiff_shim "$@"\n')
    installed.chmod(0o755)
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "PADIFF_SHIM_LANG": "en"}
    script = ["bash", str(ROOT / "examples" / "first_port.sh"), str(work)]
    done = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=5 * PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    source = (work / "port.py").read_text()
    assert "epsilon=1e-6" in source
    assert "F.silu(h)" in source, "what --bits --apply wrote"
    verdicts = [word for word in done.stdout.split() if word.startswith("CODE_")]
    assert verdicts == ["CODE_DIFFERS:", "CODE_CORRECT_WITHIN_ROUNDING:", "CODE_CORRECT:"]
    assert "RIGHT: " in (work / "report.md").read_text()
    assert (work / "report.html").exists()
    assert (work / "baseline.jsonl").exists()
