"""A sound installation is called sound, and each thing that can be wrong is told."""

import pytest
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
    assert tested.untested("3.0.0", "2.13.0+cpu", "3.11.9") == []
    assert tested.untested("3.0.1", "2.13.0+cpu", "3.12.0") == [
        f"Paddle 3.0.1 (tested: {', '.join(tested.PADDLES)})",
        "Python 3.12 (tested: 3.11)",
    ]
    monkeypatch.setattr(tested, "TORCHES", ("2.5.1",))  # another one is installed
    health = doctor.examine()
    assert health, "a remark, and no more"
    assert states(health)["versions"] == doctor.REMARK


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
    assert any(check.state == doctor.REMARK and "1 of this Paddle are unknown here" in check.text for check in health.checks)


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
    assert "1 of this Paddle are unknown here, and stay native: brand_new_op" in " ".join(done.stdout.split())


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
    done = in_child(NEWER + program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].count("brand_new_op") == 2
    assert done.stdout.splitlines()[-1].startswith("{'tanh': 1} {'brand_new_op'"), done.stdout
