"""Records as a compare run writes them, made up: what the tests of the report draw."""

import math
import random

HEADER = {
    "type": "run",
    "schema": 1,
    "created": "2026-01-31T12:00:00+00:00",
    "rank": 0,
    "pid": 1234,
    "backend": "torch",
    "carry": "native",
    "environment": {"paddle": "3.3.1", "torch": "2.13.0", "numpy": "2.4.6", "python": "3.11.7", "device": "cpu"},
    "flags": {
        "paddle.FLAGS_use_accuracy_compatible_kernel": False,
        "torch.float32_matmul_precision": "highest",
        "torch.num_threads": 1,
    },
    "options": {"every": 1, "audit": 50},
    "warnings": ["Paddle computes on 1 CPU thread(s), torch on 8: sums may be split otherwise"],
}
COVERAGE = {
    "float_calls": 1200,
    "checked_calls": 1140,
    "float_elements": 9_500_000,
    "checked_elements": 9_100_000,
    "unchecked": {"no reference for this op": 40, "sampling: every=2": 20},
    "unchecked_ops": {"conv2d": {"no reference for this op": 30}, "cumsum": {"no reference for this op": 10}},
}
OPS = {
    "linear": ("paddle.nn.functional.linear", ("x", "weight", "bias"), 256),
    "matmul": ("paddle.Tensor.__matmul__", ("x", "y"), 64),
    "layer_norm": ("paddle.nn.functional.layer_norm", ("x", "weight", "bias"), 256),
    "softmax": ("paddle.nn.functional.softmax", ("x",), 64),
    "gelu": ("paddle.nn.functional.gelu", ("x",), 1),
    "sum": ("paddle.sum", ("x",), 4096),
}
LAYERS = {
    "linear": ("linear1", "linear2", "self_attn.q_proj", "self_attn.out_proj"),
    "matmul": ("self_attn",),
    "layer_norm": ("norm1", "norm2"),
    "softmax": ("self_attn",),
    "gelu": ("activation",),
    "sum": ("",),
}
RARE = (
    ("LOW_ACCURACY", "paddle", None, 14.0),
    ("PRECISION_MODE", "paddle", "tf32-inputs", 40.0),
    ("SEMANTICS", "paddle", "epsilon->float32", 3e4),
    ("LOCAL_WRONG", "torch", None, 300.0),
    ("WRONG", "paddle", None, 1e6),
    ("NONFINITE", "paddle", None, math.nan),
    ("LOCAL_SUSPECT", "torch", None, 0.8),
    ("UNVERIFIED", "none", None, None),
)


def side(rng, share, bound):
    """One side's statistics for an error of ``share`` of the bound."""
    if share is None or math.isnan(share):
        return {"nan": 3 if share is not None else 0, "inf": 0}
    rho = share * rng.uniform(3, 8)
    return {
        "rho_max": rho,
        "rho_rms": rho / 5,
        "prob": share,
        "det": share / 20,
        "error_max": share * bound,
        "nan": 0,
        "inf": 0,
    }


def record(index, rng, *, verdict="ROUNDING", guilty="none", hypothesis=None, share=None, **changes):
    """One ``"call"`` record; ``share``: the guilty side's error as a share of the bound."""
    op = rng.choice(list(OPS))
    entry, operands, k = OPS[op]
    layer = rng.choice(LAYERS[op])
    path = f"encoder.layers.{rng.randrange(4)}.{layer}" if layer else ""
    backward = rng.random() < 0.4
    tensor = f"grad:{rng.choice(operands)}" if backward else "out"
    bound = 10 ** rng.uniform(-7, -4)
    usual = {name: 10 ** rng.uniform(-1.6, -0.6) for name in ("paddle", "torch")}
    if guilty == "both":
        usual = dict.fromkeys(usual, share)
    elif guilty != "none":
        usual[guilty] = share
    if verdict == "UNVERIFIED":
        usual = dict.fromkeys(usual)
    equal = verdict == "EQUAL"
    difference = 0.0 if equal else bound * 0.2
    counts = {
        "type": "call",
        "index": index,
        "call": index // 2,
        "op": op,
        "entry": entry,
        "site": f"train.py:{rng.randrange(30, 60)} in forward",
        "file": "/home/user/project/train.py",
        "line": 41,
        "layer": path,
        "step": index // 100,
        "phase": "backward" if backward else "forward",
        "tensor": tensor,
        "inputs": [{"name": name, "shape": [8, k], "dtype": "float32", "strides": "contiguous"} for name in operands],
        "attributes": {"axis": -1} if op in ("softmax", "sum") else {},
        "shape": [8, 256],
        "dtype": "float32",
        "device": "cpu",
        "amp": "off",
        "train": True,
        "verdict": verdict,
        "side": guilty,
        "hypothesis": hypothesis,
        "alternatives": ["fp16-inputs"] if hypothesis == "tf32-inputs" else [],
        "modifiers": [],
        "quirk": None,
        "muted": False,
        "reason": f"both within the rounding bound of {k} terms" if verdict == "ROUNDING" else f"{verdict} on the side of {guilty}",
        "stats": {
            "count": 2048,
            "different": 0 if equal else 1500,
            "max_abs": difference,
            "mean_abs": difference / 4,
            "rel_fro": 0.0 if equal else 10 ** rng.uniform(-8, -6),
            "ulp_max": 0.0 if equal else 12.0,
            "first_bad": None if verdict in ("EQUAL", "ROUNDING") else [3, 17],
            "k": k,
            "lambda": 6.6,
            "oracle": None if equal else "float64",
            "sampled": 0 if equal else 128,
            "kappa": 2.5,
            "bound": None if equal else bound,
            "error": None if equal else (max((s for s in usual.values() if s is not None), default=0.0) * bound),
            "tolerance": {"atol": difference, "rtol": difference * 3},
            "paddle": {"nan": 0, "inf": 0} if equal else side(rng, usual["paddle"], bound),
            "torch": {"nan": 0, "inf": 0} if equal else side(rng, usual["torch"], bound),
            "incoming": None,
            "propagated": None,
            "amplification": None,
        },
    }
    return {**counts, **changes}


def run_of(count, seed=0, rare=0.01):
    """``count`` records: mostly ROUNDING, one in ten EQUAL, and a share ``rare`` of all the others in turn."""
    rng = random.Random(seed)
    for index in range(count):
        if rng.random() < rare:
            verdict, guilty, hypothesis, share = RARE[rng.randrange(len(RARE))]
            yield record(index, rng, verdict=verdict, guilty=guilty, hypothesis=hypothesis, share=share)
        else:
            yield record(index, rng, verdict="EQUAL" if rng.random() < 0.1 else "ROUNDING")


def account_data(*, profile=True, native=None, substituted=None, name="ref"):
    """What a reference run's ``to_dict()`` gives, made up; ``name`` is put wherever a program may put one."""
    counts = substituted if substituted is not None else {"linear": 380, "gelu": 80, "adamw": 560}
    random = "random op: its values come from Paddle's generator"
    stayed = native if native is not None else {("dropout", random): 80, (f"uniform{name}", f"random {name}"): 12}
    ops = {op: {"substituted": calls, "backward": calls, "native": {}} for op, calls in counts.items()}
    for (op, reason), calls in stayed.items():
        ops.setdefault(op, {"substituted": 0, "backward": 0, "native": {}})["native"][reason] = calls
    site = f"net.py:7 in forward{name if name != 'ref' else ''}"
    places = [
        ("optimizer", "Optimizer", "", f"train.py:20 in {name}", 20, 0.4),
        ("reference", "linear", "blocks.10.up", site, 380, 0.5),
        ("native", "dropout", "blocks.2.drop", site, 80, 0.1),
        ("backward", "linear", "blocks.10.up", site, 380, 0.3),
        ("backward", "", "", "", 20, 0.1),
        ("moves", "reshape", "", f"train.py:9 in {name}", 3, 0.001),
    ]
    keys = ("part", "op", "layer", "site", "calls", "seconds")
    return {
        "backend": "torch",
        "linear_layout": "contiguous",
        "environment": {"paddle": "3.3.1", "torch": "2.13.0", "device": "cpu"},
        "command": f"python train.py {name}",
        "layout_cost": {"copies": 200, "bytes": 2**20, "seconds": 0.06, "reused": 0, "views": 0, "spared": 0},
        "warnings": [f"a warning {name}"],
        "optimizers": {"adamw": {"torch": 560}},
        "ops": ops,
        "lines": [{"op": op, "reason": why, "layer": "blocks.2.drop", "site": site, "calls": n} for (op, why), n in stayed.items()],
        "profile": {"seconds": 2.0, "threads": 1, "processes": 1, "places": [dict(zip(keys, place)) for place in places]}
        if profile
        else None,
    }
