"""A script that shows a call will be run: whatever a log and its saved operands hold, it is refused or it stays a literal."""

import ast
import functools
import io
import json
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers import EVERY, in_turn, sampled
from hypothesis import HealthCheck, given, settings, strategies as st
from log_data import paths_of, record, replaced

from padiff_shim.errors import PadiffShimError
from padiff_shim.repro import script as repro_script
from padiff_shim.runlog import inputs

LOG = "calls-rank0-pid1"
ARRAY = np.arange(6, dtype=np.float32)


def operand(name):
    return {"name": name, "shape": [2, 3], "dtype": "float32", "strides": "contiguous"}


def one(op, entry, names, attributes, **changes):
    """A record of an op, and its tensors as they are saved."""
    made = record(op=op, entry=entry, inputs=[operand(name) for name in names], attributes=attributes, index=0, needs=names)
    made.update(environment={}, **changes)
    arrays = {name: ARRAY.reshape(2, 3) for name in (*names, "paddle", "torch", *(["grad"] if "phase" in changes else []))}
    return made, arrays


BACKWARD = {"phase": "backward", "tensor": "grad:x"}
SUM = {"axis": [0], "dtype": "torch.float64", "keepdim": False}
CALLS = {
    "linear": one("linear", "paddle.nn.functional.linear", ["x", "weight", "bias"], {"transpose_weight": False}),
    "linear backward": one(
        "linear", "paddle.nn.functional.linear", ["x", "weight", "bias"], {"transpose_weight": False}, **BACKWARD
    ),
    "sum": one("sum", "paddle._C_ops.sum", ["x"], SUM, dtype="float64"),
    "einsum": one("einsum", "paddle._C_ops.einsum", ["operands[0]", "operands[1]"], {"equation": "ij,kj->ik"}),
}
ATTACKS = (
    "x, y=open('/tmp/owned', 'w')",
    "x\nimport os",
    "out\nimport os\n#",
    "'); import os; ('",
    '"""\nimport os\n"""',
    "coding: utf-7 +AAo-import os",
    "__import__('os')",
    "torch.load",
    "torch.float32, __import__('os')",
    "../../x",
    "\x1b[2J\r\n\u2028import os\x00",
    "\ud800",
)


def save(folder, made, layout, arrays):
    """The operands of a call as somebody else would write them."""
    packed = {name: np.ascontiguousarray(array).reshape(-1) for name, array in arrays.items()}
    extra = {"layout": np.array(json.dumps(layout)), "record": np.array(json.dumps(made))}
    path = folder / f"{LOG}-0.npz"
    with zipfile.ZipFile(path, "w") as archive:  # np.savez refuses some names
        for name, array in {**packed, **extra}.items():
            content = io.BytesIO()
            np.save(content, array)
            archive.writestr(f"{name}.npy".encode("utf-8", "replace").decode().replace("\x00", "0"), content.getvalue())
    return path


def laid_out(arrays):
    return {name: {"shape": [2, 3], "strides": [3, 1]} for name in arrays}


# ------------------------------------------------------------------------------------------------ the script's structure


def statements(source):
    """{dump: node} of a script's statements; positions and comments do not count."""
    return {ast.dump(node): node for node in ast.parse(source).body}


def is_literal(node, names):
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(is_literal(item, names) for item in node.elts)
    if isinstance(node, ast.Dict):
        return all(is_literal(item, names) for item in (*node.keys, *node.values))
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)
    if isinstance(node, ast.Call):
        return ast.unparse(node) in ("float('nan')", "float('inf')", "float('-inf')")
    if isinstance(node, ast.Attribute):
        return ast.unparse(node).partition(".")[0] in ("torch", "paddle") and node.attr in repro_script._DTYPES
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in (*names, "dtype"))


def check_structure(script, op):
    """Nothing in the script but what scripts of such calls hold, one literal, and calls of the op with literals and operands."""
    doors = {"run_paddle": {entry.target for entry in op.entries}, "run_torch": None, "exact": None}
    for dump, node in statements(script.read_bytes()).items():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "RECORD":
            ast.literal_eval(node.value)
        elif isinstance(node, ast.FunctionDef) and node.name in doors:
            names = [argument.arg for argument in node.args.args]
            spelt = {name.replace("[", "_").replace("]", "") for name in ("dtype", *op.names, *(f"operands_{i}" for i in range(9)))}
            assert set(names) <= spelt, names
            assert all(is_literal(default, names) for default in node.args.defaults)
            assert not any((node.decorator_list, node.args.kwonlyargs, node.args.vararg, node.args.kwarg, node.returns))
            (returned,) = node.body
            call = returned.value.value if isinstance(returned.value, ast.Subscript) else returned.value
            assert doors[node.name] is None or ast.unparse(call.func) in doors[node.name]
            assert ast.unparse(call.func).replace(".", "_").isidentifier()
            assert all(is_literal(argument, names) for argument in call.args), ast.unparse(call)
            assert not call.keywords
        else:
            assert dump in known(op.name), ast.unparse(node)[:300]


@functools.cache
def known(op):
    """All statements that scripts of this op's innocent calls hold, in the dtypes that change what they hold."""
    outcomes = set()
    with tempfile.TemporaryDirectory() as folder:
        for made, arrays in CALLS.values():
            for dtype in ("float32", "float64") if made["op"] == op else ():
                path = repro_script.write({**made, "dtype": dtype}, arrays, Path(folder) / "plain.py")
                outcomes.update(statements(path.read_bytes()))
    return outcomes


def outcome(folder, made, layout, arrays):
    """Write the script if it is not refused, and look at it."""
    from padiff_shim.catalogue.registry import ops

    save(folder, made, layout, arrays)
    script = folder / "show.py"
    script.unlink(missing_ok=True)
    try:
        loaded, tensors = inputs.load_inputs(folder, {"index": 0}, LOG)
        repro_script.write(
            loaded, tensors, script, environment=loaded["environment"] if isinstance(loaded.get("environment"), dict) else None
        )
    except PadiffShimError:
        assert not script.exists()
        return "refused"
    check_structure(script, ops()[made["op"]])
    return "written"


@pytest.mark.parametrize("name", CALLS)
def test_innocent_calls_are_written(tmp_path, name):
    made, arrays = CALLS[name]
    assert outcome(tmp_path, made, laid_out(arrays), arrays) == "written"


def renamed(table, old, new):
    return {new if key == old else key: value for key, value in table.items()}


PLACES = {name: [path for path in paths_of(made) if path] for name, (made, _) in CALLS.items()}
SHOWN = {"reason", "site", "layer", "file", "hypothesis", "quirk", "device", "amp"}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("attack", "name"), sampled(in_turn(ATTACKS, ["linear backward", "sum"]), 7))
def test_code_in_any_field_is_refused_or_stays_a_literal(tmp_path, attack, name):
    made, arrays = CALLS[name]
    layout = laid_out(arrays)
    for path in PLACES[name]:
        end = outcome(tmp_path, replaced(made, path, attack), layout, arrays)
        assert end == "written" or path[0] not in SHOWN
    for old in arrays:
        assert outcome(tmp_path, made, renamed(layout, old, attack), renamed(arrays, old, attack)) == "refused" or old in (
            "paddle",
            "torch",
        )
        more = {**arrays, attack: ARRAY}
        assert outcome(tmp_path, made, {**layout, attack: layout[old]}, more) == "refused"


TEXT = st.sampled_from(ATTACKS) | st.text(max_size=20)
VALUE = TEXT | st.none() | st.booleans() | st.integers() | st.floats() | st.lists(TEXT, max_size=2) | st.dictionaries(TEXT, TEXT)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=250 if EVERY else 80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_anything_in_any_field_is_refused_or_stays_a_literal(tmp_path, data):
    name = data.draw(st.sampled_from(list(CALLS)))
    made, arrays = CALLS[name]
    layout = laid_out(arrays)
    for path in data.draw(st.lists(st.sampled_from(PLACES[name]), max_size=2, unique=True)):
        try:
            made = replaced(made, path, data.draw(VALUE))
        except (KeyError, TypeError, IndexError):
            continue  # an earlier change took the place away
    if data.draw(st.booleans()):
        old, new = data.draw(st.sampled_from(list(arrays))), data.draw(TEXT)
        layout, arrays = renamed(layout, old, new), renamed(arrays, old, new)
    if layout and data.draw(st.booleans()):
        path = data.draw(st.sampled_from([path for path in paths_of(layout) if path]))
        layout = replaced(layout, path, data.draw(VALUE))
    if made.get("op") in ("linear", "sum", "einsum"):
        outcome(tmp_path, made, layout, arrays)
