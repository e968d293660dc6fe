"""What every script of :mod:`padiff_shim.repro.script` does, whatever the op. Its text below the imports goes into the script.

The script itself defines ``RECORD`` (the record of the log), ``run_paddle`` and ``run_torch`` (functions of the operands), and
``exact`` (the op in long double, or None).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import paddle
import torch

from ..runlog.inputs import strided_view

DATA = Path(__file__).with_suffix(".npz")
RECORD: dict[str, Any] = {}
run_paddle: Any = None
run_torch: Any = None
exact: Any = None
# --- from here on: the script ---


class Saved(NamedTuple):
    """A tensor as it lay in memory. Raw uint16 is bfloat16."""

    flat: np.ndarray
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements

    def raw(self) -> np.ndarray:
        return strided_view(self.flat, self.shape, self.strides)

    def numpy(self) -> np.ndarray:
        """Its values, bfloat16 as float32."""
        raw = self.raw()
        return (raw.astype(np.uint32) << 16).view(np.float32) if raw.dtype == np.uint16 else raw

    def torch(self) -> torch.Tensor:
        flat = torch.from_numpy(self.flat)
        flat = flat.view(torch.bfloat16) if self.flat.dtype == np.uint16 else flat
        return flat.to(TORCH_DEVICE).as_strided(self.shape, self.strides)

    def paddle(self, *, transposed: bool) -> Any:
        if transposed:  # torch keeps a Linear's weight as [out, in], Paddle as [in, out]
            return paddle.to_tensor(np.ascontiguousarray(self.raw().T))
        if self.raw().flags.c_contiguous:
            return paddle.to_tensor(self.raw())
        return paddle.as_strided(paddle.to_tensor(self.flat), list(self.shape), list(self.strides)).detach()


def load() -> dict[str, Saved]:
    """The saved operands, the incoming gradient ("grad"), and what both kernels gave ("paddle", "torch")."""
    with np.load(DATA, allow_pickle=False) as file:
        layout = json.loads(str(file["layout"]))
        return {
            name: Saved(file[name], tuple(placement["shape"]), tuple(placement["strides"])) for name, placement in layout.items()
        }


def plain(name: str) -> str:
    """``operands[1]`` as a Python name."""
    return name.replace("[", "_").replace("]", "")


def wanted(saved: dict[str, Saved]) -> list[str]:
    """The operands whose gradients were wanted."""
    operands = [operand["name"] for operand in RECORD["inputs"] if operand["name"] in saved]
    known = RECORD.get("needs")
    floating = [name for name in operands if saved[name].flat.dtype.kind == "f" or saved[name].flat.dtype == np.uint16]
    return floating if known is None else [name for name in operands if name in known]


def operands(saved: dict[str, Saved]) -> list[str]:
    return [name for name in saved if name not in ("grad", "paddle", "torch")]


def by_paddle(saved: dict[str, Saved]) -> np.ndarray:
    """The judged tensor as Paddle computes it, laid out as torch has it."""
    tensors = {name: saved[name].paddle(transposed=name in TRANSPOSED) for name in operands(saved)}
    leaves = wanted(saved) if "grad" in saved else []
    for name, tensor in tensors.items():
        tensor.stop_gradient = name not in leaves
    out = run_paddle(**{plain(name): tensor for name, tensor in tensors.items()})
    name = RECORD["tensor"].partition(":")[2]
    if name:
        gradients = paddle.grad([out], [tensors[leaf] for leaf in leaves], [saved["grad"].paddle(transposed=False)])
        out = gradients[leaves.index(name)]
    out = out.astype("float32") if "bfloat16" in str(out.dtype) else out
    return out.numpy().T if name in TRANSPOSED else out.numpy()


def by_torch(saved: dict[str, Saved], *, wide: bool) -> np.ndarray:
    """The judged tensor as torch computes it; ``wide``: in float64 throughout."""
    tensors = {name: tensor.torch() for name, tensor in saved.items() if name not in ("paddle", "torch")}
    if wide:
        tensors = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    grad = tensors.pop("grad", None)
    # Forward, too: torch chooses some kernels by whether an operand requires a gradient.
    leaves = wanted(saved) if grad is not None or RECORD.get("needs") is not None else []
    for leaf in leaves:
        tensors[leaf].requires_grad_()
    out = run_torch(**{plain(name): tensor for name, tensor in tensors.items()}, **({"dtype": torch.float64} if wide else {}))
    name = RECORD["tensor"].partition(":")[2]
    if name:
        out = torch.autograd.grad(out, [tensors[leaf] for leaf in leaves], grad)[leaves.index(name)]
    out = out.detach().cpu()
    return out.float().numpy() if out.dtype is torch.bfloat16 else out.numpy()


def oracle(saved: dict[str, Saved]) -> tuple[np.ndarray, str]:
    """The judged tensor in higher precision, and how that was computed."""
    if RECORD["dtype"] != "float64":
        return by_torch(saved, wide=True), "torch in float64 on the same operands"
    if exact is None or "grad" in saved or np.finfo(np.longdouble).nmant <= 52:
        return by_torch(saved, wide=True), "torch in float64: no higher precision is at hand here, torch's own error is not seen"
    values = {plain(name): saved[name].numpy() for name in operands(saved)}
    return exact(**{n: v.astype(np.longdouble) if v.dtype.kind == "f" else v for n, v in values.items()}), "NumPy in long double"


def errors(result: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """|result - expected|; 0 where both are the same infinity or both NaN, infinite where only one is."""
    with np.errstate(all="ignore"):
        error = np.abs(result.astype(np.longdouble) - expected)
        top = np.finfo(result.dtype).max if RECORD["dtype"] not in ("bfloat16",) else np.inf
        same = (result == expected) | (np.isnan(result) & np.isnan(expected)) | (np.isinf(result) & (np.abs(expected) > top))
    return np.where(same, 0, np.where(np.isnan(error), np.inf, error))


def number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def judged(sides: dict[str, np.ndarray], saved: dict[str, Saved], expected: np.ndarray) -> int:
    """Print what both sides are off by, here and at the recorded place; 1 if the recorded difference is there, else 0."""
    now = {name: errors(result, expected) for name, result in sides.items()}
    before = {name: errors(saved[name].numpy(), expected) for name in sides if name in saved} or now
    for name, error in now.items():
        same = name in saved and np.array_equal(sides[name], saved[name].numpy(), equal_nan=True)
        print(f"max |{name} - oracle| = {float(error.max(initial=0)):.6g}" + ("   (bit for bit as recorded)" if same else ""))
    print(f"max |paddle - torch| = {float(errors(sides['paddle'], sides['torch']).max(initial=0)):.6g}")
    bound, recorded = number(RECORD["stats"].get("bound")), number(RECORD["stats"].get("error"))
    either = np.max(list(before.values()), axis=0)
    if not either.size:
        print("The tensor is empty.")
        return 0
    distance = np.abs(either - recorded) if np.isfinite(recorded) else -either
    place = tuple(int(i) for i in np.unravel_index(int(np.argmin(distance)), either.shape))
    values = ", ".join(f"{name} {result[place]!s}" for name, result in sides.items())
    print(f"at {list(place)}: {values}, oracle {expected[place]!s}")
    side = RECORD["side"]
    guilty = [name for name in sides if side in (name, "both")]
    if not guilty:
        print("The recorded verdict blames neither side: there is nothing to show.")
        return 0
    # A verdict can rest on more than its bound (the other side is far better): then half the recorded error is the mark.
    mark, named = (bound, "the bound") if not recorded <= bound else (recorded / 2, "half the recorded error")
    if np.isnan(mark):
        mark, named = sys.float_info.max, "any finite number"
    print(f"recorded error {recorded:.6g}, bound {bound:.6g}; the mark here is {named}, {mark:.6g}")
    there = [name for name in guilty if float(now[name][place]) > mark]
    for name in guilty:
        print(f"{name}: error {float(now[name][place]):.6g} {'exceeds' if name in there else 'is within'} the mark")
    print("REPRODUCED" if there else "NOT REPRODUCED")
    return 1 if there else 0


def main() -> int:
    environment = RECORD.get("environment") or {}
    for name, here in (("paddle", paddle.__version__), ("torch", torch.__version__), ("numpy", np.__version__)):
        print(f"{name} {here} (recorded with {environment.get(name, 'unknown')})")
    hypothesis = f" ({RECORD['hypothesis']})" if RECORD.get("hypothesis") else ""
    print(f"{RECORD['entry']}: {RECORD['tensor']} {RECORD['shape']} {RECORD['dtype']}")
    print(f"recorded verdict: {RECORD['verdict']}{hypothesis}, side {RECORD['side']}: {RECORD['reason']}")
    saved = load()
    expected, how = oracle(saved)
    print(f"oracle: {how}")
    return judged({"paddle": by_paddle(saved), "torch": by_torch(saved, wide=False)}, saved, expected)


TRANSPOSED: frozenset[str] = frozenset(RECORD.get("transposed", ()))
ON_GPU = not str(RECORD.get("device", "cpu")).startswith("cpu") and torch.cuda.is_available() and paddle.is_compiled_with_cuda()
TORCH_DEVICE = "cuda" if ON_GPU else "cpu"
paddle.set_device("gpu" if ON_GPU else "cpu")

if __name__ == "__main__":
    sys.exit(main())
