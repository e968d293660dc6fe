"""A sound installation is called sound, and each thing that can be wrong is told."""

import pytest
import torch
from helpers import in_child
from padiff_shim.patches import _unsubstituted

from padiff_shim import tested
from padiff_shim.frameworks import memory, settings
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.intercept import entry_points
from padiff_shim.questions import doctor

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]


def states(health):
    return {check.name: check.state for check in health.checks if check.name != "switches"}


def test_here_all_is_well():
    health = doctor.examine()
    assert health, [check for check in health.checks if check.state == doctor.BAD]
    assert set(states(health)) == set(doctor._CHECKS)
    assert health.environment["device"] == "cpu"
    assert "torch.backends.cuda.matmul.allow_tf32" in health.switches


def test_versions_that_were_not_tested_are_named(monkeypatch):
    monkeypatch.setattr(tested, "_LISTS", {"Paddle": ("3.0.0", "3.1.1"), "Torch": ("2.10.0", "2.13.0"), "Python": ("3.11", "3.13")})
    installed = {"paddle": "3.0.0", "torch": "2.13.0+cpu", "python": "3.11.9", "numpy": "1.26.4"}
    assert tested.untested(installed) == tested.untested({}) == []
    others = {"paddle": "3.0.1", "torch": "2.12.0+cu126", "python": "3.14.0"}
    assert tested.untested(others) == [
        ("Paddle", "3.0.1", ("3.0.0", "3.1.1")),
        ("Torch", "2.12.0", ("2.10.0", "2.13.0")),
        ("Python", "3.14", ("3.13",)),
    ]
    assert tested.too_old(installed | others) == tested.too_old({"paddle": "0.0.0"}) == []
    assert tested.too_old({"paddle": "2.5.2", "torch": "2.3.1+cpu"}) == [("Paddle", "2.5.2", "2.6"), ("Torch", "2.3.1+cpu", "2.4")]
    monkeypatch.setattr(tested, "_LISTS", {"Torch": ("2.5.1",)})  # another one is installed
    health = doctor.examine()
    assert health, "a remark, and no more"
    assert states(health)["versions"] == doctor.REMARK


OLD = """
    import sys
    from padiff_shim.cli.main import main
    torch.__version__ = "2.3.1"
    status = main(["doctor"])
    try:
        with padiff_shim.compare("torch"):
            pass
    except padiff_shim.BackendError as error:
        print(status, error)
"""


def test_a_torch_that_is_too_old_is_refused():
    lines = in_child(OLD).stdout.splitlines()
    assert lines[0].startswith("BAD: Torch 2.3.1 is older than 2.4")
    assert lines[1].startswith("1 Torch 2.3.1 is older than 2.4")


def test_a_torch_without_a_private_name_is_refused():
    """As a later one may be: the name is said, where a mode is opened and where a function of ours is looked up."""
    program = """
    import sys
    for name in [name for name in sys.modules if name.startswith("padiff_shim.") or name == "padiff_shim"]:
        del sys.modules[name]
    del torch._C._storage_Use_Count
    import padiff_shim
    for use in (lambda: padiff_shim.reference("torch"), lambda: padiff_shim.prove):
        try:
            use()
        except padiff_shim.BackendError as error:
            print(type(error).__name__, error)
    """
    done = in_child(program)
    assert done.stdout.count("BackendError") == done.stdout.count("_storage_Use_Count") == 2, (done.stdout, done.stderr)


def test_an_optimizer_that_is_wrong_is_bad(monkeypatch):
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self: None)
    assert states(doctor.examine())["optimizer"] == doctor.BAD


def test_a_comparison_or_a_proof_that_fails_is_bad(monkeypatch):
    def fail(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(doctor, "prove", fail)
    monkeypatch.setattr(doctor, "opened_comparison", fail)
    health = doctor.examine()
    assert not health
    assert [states(health)[name] for name in ("comparison", "proof", "optimizer")] == [doctor.BAD, doctor.BAD, doctor.GOOD]


@pytest.mark.parametrize(
    ("name", "door", "copies"),
    [
        ("Paddle -> Torch", "to_torch", lambda door: lambda tensor: door(tensor).clone()),
        ("Torch -> Paddle", "to_paddle", lambda door: lambda tensor: door(tensor).clone()),
    ],
)
def test_a_bridge_that_copies_is_bad(name, door, copies, monkeypatch):
    monkeypatch.setattr(memory, door, copies(getattr(memory, door)))
    health = doctor.examine()
    assert not health
    assert states(health)[name] == doctor.BAD


def test_a_device_that_torch_cannot_use_is_bad(monkeypatch):
    def refuse():
        raise ValueError("Paddle is on 'gpu:0' but this torch cannot use a GPU")

    monkeypatch.setattr(settings, "check_devices", refuse)
    health = doctor.examine()
    assert states(health)["device"] == doctor.BAD
    assert "cannot use a GPU" in str(health.to_dict()["checks"])


def test_an_entry_point_that_is_unknown_is_named(monkeypatch):
    monkeypatch.setattr(_unsubstituted, "NATIVE", {name: why for name, why in _unsubstituted.NATIVE.items() if name != "nms"})
    assert entry_points.inventory()[2] == ["nms"]
    health = doctor.examine()
    assert health, "a remark, and no more"
    assert any(check.state == doctor.REMARK and "nms" in check.text for check in health.checks)


def test_of_this_paddle_nothing_is_unknown():
    here, absent, strange = entry_points.inventory()
    assert here > 500
    assert absent > 0, "the table is that of several versions"
    assert strange == []


# A Paddle that is newer than any that is known: another version, and a C function that no table names.
NEWER = """
    import ctypes
    from padiff_shim.cli.main import main
    from padiff_shim.patching import functions

    view, definition = functions._check_layout(paddle._C_ops.relu)
    named = functions._MethodDef(b"brand_new_op", definition.ml_meth, definition.ml_flags, None)
    paddle._C_ops.brand_new_op = functions._new_function(ctypes.addressof(named), view.m_self, view.m_module)
    paddle.__version__ = "9.9.0" if paddle.__version__.startswith("3") else paddle.__version__ + ".1"
"""


def test_on_a_newer_paddle_doctor_names_what_it_does_not_know():
    done = in_child(NEWER + "    print(main(['doctor']), main(['doctor', '--strict']))\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "0 1", "a remark counts under --strict alone"
    assert ("9.9.0" if IS_3 else "2.6.2.1") in done.stdout
    assert "brand_new_op" in done.stdout


def test_on_a_newer_paddle_modes_work_and_count_what_they_do_not_know():
    program = """
    x = paddle.to_tensor([-1.0, 2.0])
    with padiff_shim.reference("torch") as run:
        assert paddle._C_ops.brand_new_op(x).tolist() == [0.0, 2.0]
        paddle.tanh(x)
    with padiff_shim.compare("torch") as compared:
        paddle._C_ops.brand_new_op(x)
    print(run.substituted, run.native, compared.native)
    """
    done = in_child(NEWER + program, opened=False)  # the first mode looks for what there is
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].count("brand_new_op") == 2
    assert done.stdout.splitlines()[-1].startswith("{'tanh': 1} {'brand_new_op'"), done.stdout
