"""Records made up for the log, and a run that holds some."""

import json

from padiff_shim.runs.compare_run import CompareRun

ENVIRONMENT = {"paddle": "3.3.1", "torch": "2.13.0", "numpy": "2.4.6", "device": "cpu"}


def side(prob):
    return {"rho_max": 4 * prob, "rho_rms": prob, "prob": prob, "det": prob / 9, "error_max": prob * 1e-6, "nan": 0, "inf": 0}


def record(call=0, *, prob=0.2, **changes):
    """A forward call of linear; ``prob``: Paddle's error over its bound."""
    made = {
        "call": call,
        "op": "linear",
        "entry": "paddle.nn.functional.linear",
        "site": "train.py:41 in forward",
        "file": "/home/user/train.py",
        "line": 41,
        "layer": "encoder.layers.0.linear1",
        "step": 0,
        "phase": "forward",
        "tensor": "out",
        "inputs": [{"name": "x", "shape": [8, 64], "dtype": "float32", "strides": "contiguous"}],
        "attributes": {"transpose_weight": False},
        "shape": [8, 256],
        "dtype": "float32",
        "device": "cpu",
        "amp": "off",
        "train": True,
        "verdict": "ROUNDING",
        "side": "none",
        "hypothesis": None,
        "alternatives": [],
        "modifiers": [],
        "quirk": None,
        "muted": False,
        "reason": "within the bound",
        "stats": {
            "count": 2048,
            "different": 900,
            "max_abs": 1e-6,
            "mean_abs": 2e-7,
            "ulp_max": None,
            "first_bad": None,
            "oracle": "float64",
            "bound": 1e-6,
            "error": prob * 1e-6,
            "tolerance": {"atol": 1e-6, "rtol": 1e-3},
            "paddle": side(prob),
            "torch": side(0.1),
        },
    }
    made.update(changes)
    return made


def wrong(call=0, *, prob=50.0, **changes):
    """A call on which Paddle is wrong."""
    return record(
        call, prob=prob, **{"verdict": "WRONG", "side": "paddle", "reason": "no order of summation explains it", **changes}
    )


def filled(records, **options):
    """A run that was begun and given these records."""
    run = CompareRun(**options)
    run.begin(ENVIRONMENT, {"torch.num_threads": 1})
    for record in records:
        run.recorder.add(record)
    return run


HEADER = b'{"type":"run","schema":1,"environment":{"paddle":"3.3.1"},"warnings":["a concern"]}\n'
END = b'{"type":"end","coverage":{}}\n'
NAME = "calls-rank0-pid1.jsonl"


def dumped(**fields):
    """A line of the log as another hand might have written it."""
    return json.dumps({"type": "call", **fields}).encode() + b"\n"


def lines_of(records):
    return [dumped(index=index, **record) for index, record in enumerate(records)]


def put(folder, *lines):
    """A log file of these lines."""
    folder.mkdir(exist_ok=True)
    (folder / NAME).write_bytes(b"".join(lines))
    return folder


def paths_of(value, path=()):
    """Every place in nested tables and lists."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths_of(item, (*path, key))


def replaced(value, path, new):
    """Nested tables and lists with another value at one place."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], new)
    return copy
