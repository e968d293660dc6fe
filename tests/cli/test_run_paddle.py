"""``padiff-shim run`` with Paddle: the mode is open all the time, nothing else changes, and the summary comes whatever happens."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from helpers import PATIENCE, ROOT, thinned

import padiff_shim

pytestmark = pytest.mark.compat

PROGRAM = """
import sys
import paddle

paddle.seed(0)
x = paddle.arange(12, dtype="float32").reshape([3, 4])
print(paddle.matmul(x, x, transpose_y=True).sum().item())
"""
ENDS = {
    "returns": ("", 0),
    "raises": ("1 / 0\n", 1),
    "exits": ("sys.exit(7)\n", 7),
    "is interrupted": ("raise KeyboardInterrupt\n", -signal.SIGINT),
}


def ended(*command, cwd, **variables):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", **variables}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


def shim(*arguments, cwd, **variables):
    return ended(sys.executable, "-m", "padiff_shim", "run", *arguments, cwd=cwd, **variables)


@pytest.mark.slow
@pytest.mark.parametrize("end", thinned(ENDS, "raises"))
def test_the_summary_comes_however_the_program_ends(end, tmp_path):
    last, status = ENDS[end]
    (tmp_path / "train.py").write_text(PROGRAM + last)
    done, out, err = shim("train.py", cwd=tmp_path)
    assert (done, out) == (status, "1134.0\n")
    original, headline, summary = err.partition("All 3 float calls ran on torch's kernels.")
    assert headline
    assert "matmul" in summary
    if end == "raises":
        assert (done, out, original) == ended(sys.executable, "train.py", cwd=tmp_path)


def test_a_comparison_leaves_a_log_and_pages(tmp_path):
    (tmp_path / "train.py").write_text("import os\nos.makedirs('elsewhere')\nos.chdir('elsewhere')\n" + PROGRAM + "1 / 0\n")
    files = ("--log", "log", "--html", "new/page.html", "--markdown", "notes.md", "--json", "all.json")
    status, _, err = shim("--compare", *files, "--ops", "matmul", "--ops", "sum", "train.py", cwd=tmp_path)
    assert status == 1, err
    run = padiff_shim.load(tmp_path / "log")
    assert set(run.by_op()) == {"matmul", "sum"}
    assert (tmp_path / "notes.md").read_text() == run.markdown()
    assert json.loads((tmp_path / "all.json").read_text())["verdicts"] == run.verdicts
    assert "</html>" in (tmp_path / "new" / "page.html").read_text()
    assert "page.html written" in err
    assert (run.calls[0].file, run.calls[0].line) == (str(tmp_path / "train.py"), 10), "the user's line, none of ours"


@pytest.mark.slow
def test_a_reference_run_leaves_a_log_and_pages(tmp_path):
    (tmp_path / "train.py").write_text("import os\nos.makedirs('elsewhere')\nos.chdir('elsewhere')\n" + PROGRAM)
    files = ("--log", "log", "--html", "new/page.html", "--markdown", "notes.md", "--json", "all.json")
    status, _, err = shim("--profile", *files, "train.py", cwd=tmp_path)
    assert status == 0, err
    run = padiff_shim.load(tmp_path / "log")
    assert run.substituted["matmul"] > 0
    assert (tmp_path / "notes.md").read_text() == run.markdown()
    assert json.loads((tmp_path / "all.json").read_text()) == run.to_dict()
    page = (tmp_path / "new" / "page.html").read_text()
    assert "train.py:" in page
    for name, expected in (("--html", "again.html written"), ("--markdown", "float calls")):
        target = tmp_path / "again.html" if name == "--html" else "-"
        done, out, err = ended(sys.executable, "-m", "padiff_shim", "log", "log", name, str(target), cwd=tmp_path)
        assert (done, expected in out + err) == (0, True), err
    assert (tmp_path / "again.html").read_text() == page


REFUSED = {  # how a program comes to what Paddle refuses
    "by both frameworks": "paddle.matmul(x, paddle.ones([5, 7]))",
    "before there is a result": "paddle.nn.functional.softmax(x, axis=7)",
    "in a layer, caught and raised again": """
class Model(paddle.nn.Layer):
    def forward(self, x):
        return paddle.nn.functional.gelu(paddle.concat([x, paddle.ones([2, 5])]))
try:
    Model()(x)
except ValueError as error:
    raise RuntimeError("the model") from error
""",
    "in a thread": """
import threading
thread = threading.Thread(target=paddle.matmul, args=(x, paddle.ones([5, 7])))
thread.start()
thread.join()
raise SystemExit(1)
""",
    "in what is compiled": "paddle.jit.to_static(lambda x: paddle.matmul(x, x))(x)",
    "in a backward of its own": """
class Wrong(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        raise ValueError("no")
x.stop_gradient = False
paddle.tanh(Wrong.apply(paddle.sin(x))).sum().backward()
""",
}
CHANGES = re.compile(r"(?m)^W\d.*\n|\(0x[0-9a-f]+\)")  # from run to run: lines of Paddle's own log, addresses


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_what_paddle_refuses_has_the_programs_own_traceback(name, tmp_path):
    """No frame of ours, before it, in it or below it, nor in its message, and nothing of what was tried."""
    (tmp_path / "train.py").write_text(f"import paddle\nx = paddle.ones([3, 4])\n{REFUSED[name]}\n")
    plain = ended(sys.executable, "train.py", cwd=tmp_path)
    assert plain[0] == 1
    for mode in ("--reference", "--compare"):
        status, out, err = shim(mode, "--quiet", "train.py", cwd=tmp_path)
        assert (status, out) == plain[:2]
        assert CHANGES.sub("", err) == CHANGES.sub("", plain[2])


@pytest.mark.slow
def test_errors_of_our_own_keep_their_traceback(tmp_path):
    conv = "paddle.vision.ops.deform_conv2d(paddle.ones([1, 1, 3, 3]), paddle.ones([1, 18, 1, 1]), paddle.ones([1, 1, 3, 3]))"
    (tmp_path / "train.py").write_text(f"import paddle\n{conv}\n")
    status, _, err = shim("--strict", "train.py", cwd=tmp_path)
    assert status == 1
    assert "StayedNativeError" in err
    assert "padiff_shim/" in err.partition("Traceback")[2]


@pytest.mark.slow
def test_what_is_set_before_the_import_of_paddle_counts(tmp_path):
    head = "import os, sys\nassert not {'paddle', 'torch', 'numpy'} & set(sys.modules)\nos.environ['FLAGS_check_nan_inf'] = '1'\n"
    tail = "print(paddle.get_flags('FLAGS_check_nan_inf'))\n"
    (tmp_path / "train.py").write_text(head + PROGRAM + tail)
    status, out, err = shim("--quiet", "train.py", cwd=tmp_path)
    assert (status, err) == (0, "")
    assert out.endswith("{'FLAGS_check_nan_inf': True}\n")


@pytest.mark.slow
def test_settings_count_and_the_command_line_comes_first(tmp_path):
    (tmp_path / "setup.cfg").write_text("[padiff_shim]\naudit = 3\nkeep_inputs = 5\nseed = 9\n")
    (tmp_path / "train.py").write_text(PROGRAM)
    status, _, err = shim("--compare", "--log", "log", "--seed", "1", "train.py", cwd=tmp_path, PADIFF_SHIM_AUDIT="4")
    assert status == 0, err
    options = padiff_shim.load(tmp_path / "log").header["options"]
    assert (options["audit"], options["seed"]) == (4, 1)
    assert "audit=4: PADIFF_SHIM_AUDIT" in " ".join(err.split())


@pytest.mark.slow
def test_an_unknown_op_ends_the_program_where_it_imports_paddle(tmp_path):
    (tmp_path / "train.py").write_text("print('before')\ntry:\n    import paddle\nexcept ImportError:\n    pass\nprint('after')\n")
    status, out, err = shim("--ops", "layer_nrm", "train.py", cwd=tmp_path)
    assert (status, out) == (2, "before\n")
    assert "Did you mean 'layer_norm'" in err


LOADING = """
import paddle
from paddle.io import DataLoader, Dataset


class Squares(Dataset):
    def __getitem__(self, index):
        return paddle.to_tensor([float(index)]).numpy() ** 2

    def __len__(self):
        return 8


if __name__ == "__main__":
    for workers in (0, 2):
        for batch in DataLoader(Squares(), batch_size=4, num_workers=workers):
            print(workers, batch[0].sum().item() if isinstance(batch, list) else batch.sum().item())
"""


@pytest.mark.slow
def test_workers_of_a_data_loader(tmp_path):
    (tmp_path / "train.py").write_text(LOADING)
    plain = ended(sys.executable, "train.py", cwd=tmp_path)
    done = shim("train.py", cwd=tmp_path)
    assert done[:2] == plain[:2] == (0, "0 14.0\n0 126.0\n2 14.0\n2 126.0\n")
    assert done[2].count("━┓") == 1, "the workers report nothing"


FORKING = """
import os, sys
import paddle

x = paddle.ones([2, 2])
x @ x
sys.stdout.flush()
if os.fork() == 0:
    sys.exit(0)
os.wait()
"""


@pytest.mark.slow
def test_a_forked_child_that_exits_reports_nothing(tmp_path):
    (tmp_path / "train.py").write_text(FORKING)
    status, _, err = shim("train.py", cwd=tmp_path)
    assert status == 0
    assert err.count("━┓") == 1


ATEXIT = """
import atexit
atexit.register(print, "registered before paddle")
import paddle
atexit.register(lambda: print(paddle.ones([2, 2]).matmul(paddle.ones([2, 2])).sum().item()))
"""


@pytest.mark.slow
def test_exit_callbacks_run_in_the_mode(tmp_path):
    (tmp_path / "train.py").write_text(ATEXIT)
    plain = ended(sys.executable, "train.py", cwd=tmp_path)
    done = shim("train.py", cwd=tmp_path)
    assert done[:2] == plain[:2] == (0, "8.0\nregistered before paddle\n")
    assert "matmul" in done[2]
