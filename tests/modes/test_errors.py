"""Clear errors at entry, strict mode, and what a run shows."""

import json
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import paddle
import pytest
import torch
from helpers import PATIENCE

import padiff_shim
from padiff_shim.catalogue import registry
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.intercept import entry_points
from padiff_shim.table.reasons import DETECTION

ROOT = Path(__file__).resolve().parents[2]
MODERN = not paddle.__version__.startswith("2.")


def output_of(source):
    """What Python source prints in another process."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip().splitlines()


# ------------------------------------------------------------------------------------------------ names


@pytest.mark.compat
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: padiff_shim.reference("torhc"), r"unknown backend 'torhc'\. Did you mean 'torch'\?"),
        (lambda: padiff_shim.reference("jax"), r"unknown backend 'jax'\. Accepted: torch"),
        (lambda: padiff_shim.reference(None), r"unknown backend None"),
        (lambda: padiff_shim.reference(ops="matmull"), r"unknown op or family 'matmull'\. Did you mean 'matmul'"),
        (lambda: padiff_shim.reference(ops=["linear", "layernorm"]), r"'layernorm'\. Did you mean .*'layer_norm'"),
        (lambda: padiff_shim.reference(exclude="sofmax"), r"'sofmax'\. Did you mean 'softmax'"),
        (lambda: padiff_shim.reference(linear_layout="views"), r"unknown linear_layout 'views'\. Did you mean 'view'"),
        (lambda: padiff_shim.reference(ops="linear", exclude="linear"), "no op is left"),
        (lambda: padiff_shim.reference(ops=[]), "no op is left"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest_ones(call, message):
    with pytest.raises(padiff_shim.UnknownNameError, match=message) as caught:
        call()
    assert isinstance(caught.value, (ValueError, padiff_shim.PadiffShimError))
    assert not entry_points.OPS.installed


# ------------------------------------------------------------------------------------------------ frameworks


@pytest.mark.rows(1)
@pytest.mark.compat
@pytest.mark.parametrize("missing", ["torch", "paddle"])
def test_a_missing_framework_gives_the_install_line(missing):
    lines = output_of(f"""
        import sys

        class Blocker:
            @staticmethod
            def find_spec(name, path=None, target=None):
                if name.split(".")[0] == {missing!r}:
                    raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

        sys.meta_path.insert(0, Blocker)
        import padiff_shim
        try:
            with padiff_shim.reference("torch"):
                pass
        except padiff_shim.MissingFrameworkError as error:
            assert isinstance(error, ImportError) and isinstance(error, padiff_shim.BackendError)
            print(error)
        try:
            padiff_shim.prove
        except padiff_shim.MissingFrameworkError as error:
            print(error)
    """)
    assert lines[-2] == lines[-1]
    assert f"{missing} cannot be imported" in lines[-1]
    assert f"pip install {missing}" in lines[-1]


@pytest.mark.rows(1)
@pytest.mark.parametrize("use", ["padiff_shim.reference('torch')", "padiff_shim.prove"])
def test_what_a_framework_lacks_itself_is_named(use):
    """Paddle without one of its own requirements is installed: the requirement is what is missing."""
    lacking = "google.protobuf" if IS_3 else "decorator"
    lines = output_of(f"""
        import sys

        class Blocker:
            @staticmethod
            def find_spec(name, path=None, target=None):
                if name == {lacking!r}:
                    raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

        sys.meta_path.insert(0, Blocker)
        import padiff_shim
        try:
            {use}
        except padiff_shim.MissingFrameworkError as error:
            print(error)
    """)
    assert lines[-1].startswith(f"paddle needs {lacking}")
    assert "pip install" not in lines[-1]


@pytest.mark.slow
@pytest.mark.skipif(not MODERN, reason="Paddle 3 has the torch proxy")
@pytest.mark.parametrize(
    "early",
    [pytest.param(False, id="torch not imported before", marks=pytest.mark.slow), pytest.param(True, id="torch imported before")],
)
def test_the_torch_proxy_is_refused_and_torch_works_afterwards(early):
    lines = output_of(f"""
        import warnings; warnings.simplefilter("ignore")
        import paddle, padiff_shim
        if {early}:
            import torch
            mode = padiff_shim.reference("torch")
        paddle.enable_compat()
        for attempt in range(2):
            try:
                (mode if {early} else padiff_shim.reference("torch")).start()
            except padiff_shim.BackendError as error:
                print(error)
        paddle.disable_compat()
        x = paddle.ones([2, 2])
        with padiff_shim.reference("torch") as run:
            x @ x
        print(run.substituted, run.environment["torch"])
    """)
    assert lines[-3] == lines[-2]
    assert "torch proxy" in lines[-2]
    assert "disable_compat" in lines[-2]
    assert lines[-1] == f"{{'matmul': 1}} {torch.__version__}"


@pytest.mark.parametrize(
    ("place", "available", "devices", "names", "message"),
    [
        ("xpu:0", False, 0, ("", ""), "Paddle is on 'xpu:0'"),
        ("gpu:0", False, 0, ("", ""), "cannot use a GPU; install a CUDA build of torch, or call paddle.set_device"),
        ("gpu:2", True, 1, ("", ""), r"torch sees 1 device\(s\)"),
        ("gpu:0", True, 2, ("A100", "H200"), "is 'H200' for Paddle but 'A100' for torch"),
    ],
)
def test_devices_that_cannot_be_shared(monkeypatch, place, available, devices, names, message):
    monkeypatch.setattr(paddle.device, "get_device", lambda: place)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: names[0])
    monkeypatch.setattr(paddle.device.cuda, "get_device_name", lambda index: names[1])
    with pytest.raises(padiff_shim.BackendError, match=message):
        padiff_shim.reference("torch").start()
    assert not entry_points.OPS.installed


# ------------------------------------------------------------------------------------------------ strict


def deformed(x):
    """An op that computes with floats, of which Torch has none."""
    image = x.reshape([1, 1, *x.shape])
    return paddle.vision.ops.deform_conv2d(image, paddle.zeros([1, 2, *x.shape]), paddle.ones([1, 1, 1, 1]))


@pytest.mark.compat
def test_strict_names_the_op_that_stays_native():
    x = paddle.ones([4, 4])
    with padiff_shim.reference("torch", strict=True) as run:
        (x @ x).sum()
        paddle.arange(3) * 2  # integers are exact
        paddle.concat([x, x]).reshape([-1])  # moves are exact
        with pytest.raises(
            padiff_shim.StayedNativeError, match=r"'deformable_conv' \(paddle\._C_ops\.deformable_conv\).*Torch itself"
        ):
            deformed(x)
    assert run.native["deformable_conv"] == {DETECTION.text: 1}
    deformed(x)


@pytest.mark.compat
def test_strict_accepts_what_the_user_filtered_out():
    x = paddle.ones([4, 4])
    with padiff_shim.reference("torch", strict=True, exclude="matmul") as run:
        x @ x
    assert run.native == {"matmul": {"filtered out by ops= or exclude=": 1}}


@pytest.mark.compat
def test_paddles_own_errors_are_raised_unchanged():
    x, y = paddle.ones([2, 3]), paddle.ones([2, 3])

    def caught(strict):
        with pytest.raises(ValueError) as error, padiff_shim.reference("torch", strict=strict):
            paddle.matmul(x, y)
        return str(error.value)

    with pytest.raises(ValueError) as native:
        paddle.matmul(x, y)
    assert caught(strict=False).splitlines()[-2:] == caught(strict=True).splitlines()[-2:] == str(native.value).splitlines()[-2:]


# ------------------------------------------------------------------------------------------------ the run


@pytest.mark.compat
def test_selection_by_op_and_by_family():
    x = paddle.ones([4, 4])

    def counted(**options):
        with padiff_shim.reference("torch", **options) as run:
            paddle.nn.functional.softmax(paddle.exp(x) @ x / 2)
        assert sum(run.substituted.values()) + sum(sum(why.values()) for why in run.native.values()) == 4
        return set(run.substituted)

    everything = {"exp", "matmul", "divide", "softmax"}
    assert counted() == everything
    assert counted(ops="exp") == {"exp"}
    assert counted(ops=("exp", "matmul")) == {"exp", "matmul"}
    assert counted(exclude=["exp"]) == everything - {"exp"}
    for family, names in registry.families().items():
        mine = set(names)
        assert counted(exclude=family) == everything - mine
        assert counted(ops=family) == everything & mine
        assert counted(ops=family, exclude="softmax") == (everything & mine) - {"softmax"} if mine != {"softmax"} else True


@pytest.mark.compat
def test_what_a_run_shows():
    net = paddle.nn.Linear(4, 4)
    x = paddle.ones([2, 4])
    with padiff_shim.reference("torch", exclude="exp") as run:
        deformed(paddle.exp(net(net(x)))).sum().backward()
    assert repr(run).startswith("<padiff_shim.Run: 3 of 4 float calls")
    text = str(run)
    for part in ("linear", "sum", "deformable_conv", "object detection", "filtered out", "Linear weights: contiguous"):
        assert part in " ".join(text.replace("│", " ").split()), part
    data = json.loads(json.dumps(run.to_dict()))
    assert data["ops"]["linear"] == {"substituted": 2, "backward": 2, "native": {}}
    assert data["ops"]["exp"] == {"substituted": 0, "backward": 0, "native": {"filtered out by ops= or exclude=": 1}}
    assert data["environment"]["paddle"] == paddle.__version__
    assert data["environment"]["device"] == "cpu"
    assert (data["layout_cost"]["copies"], data["layout_cost"]["reused"]) == (1, 1)
    assert (data["backend"], data["linear_layout"], data["warnings"]) == ("torch", "contiguous", [])
    assert pickle.loads(pickle.dumps(run)).to_dict() == run.to_dict()
    run.to_dict()["ops"].clear()
    assert run.to_dict()["ops"]


@pytest.mark.compat
def test_an_empty_run_and_view_layout():
    with padiff_shim.reference("torch", linear_layout="view") as run:
        pass
    assert run.to_dict()["ops"] == {}
    with padiff_shim.reference("torch", linear_layout="view") as run:
        paddle.nn.functional.linear(paddle.ones([2, 4]), paddle.to_tensor(np.eye(4, dtype="float32")))
    assert "views, no copies (1 call)" in str(run)
