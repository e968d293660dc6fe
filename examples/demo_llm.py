"""Language models of PaddleFormers with their default configurations, under the shim, against transformers' bit for bit.

`python examples/demo_llm.py` prints two tables: the ports as they are, with the reasons where bits differ; then those that
differed, with the originals written as the ports are, which shows whether the reasons are complete. Each pair runs in a
process of its own. Exit status 1: something differs in the second table that is not listed as open.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from ports.decoders import DECODERS, Decoder
from rich.console import Console
from rich.table import Table
from tables import covered, explain, new_progress, new_table

STEPS, TOKENS, LENGTH, SECONDS = 20, 24, 12, 300
DTYPES = ("float32", "bfloat16")
SHIM = {"optimizer": "torch", "definitions": "torch"}
RESULT = "result of the pair: "
Row = tuple[Decoder, str, dict[str, Any]]
OPEN = {"DeepSeek V3"}  # its port refuses to generate
CLIPPED = (
    "All: the global norm is that of the port's weights, several of the original's in one and in another order; the second table "
    "clips the original's gradients by that norm"
)
COLUMNS = {
    "logits": "of 2 sentences of 12 tokens: largest difference, and the share that differs",
    "gradients": "weights whose gradient is Torch's bit for bit",
    "step": f"the first of {STEPS} steps of AdamW (float32 masters for bfloat16, clipping by the global norm) whose loss, or whose "
    "weights afterwards, differ",
    "generated": f"the first of {TOKENS} greedy steps with a KV cache whose logits differ; then how many tokens are the same",
    "padded": "logits of two sentences, one padded to the left",
    "packed": "logits of two sentences in one row",
    "covered": "float calls of the models that ran on Torch's kernels",
}


class Sides:
    """A port and its original, asked the same things; each answer is an array in float32, which holds bfloat16 exactly."""

    def __init__(self, port: Any, original: Any) -> None:
        import paddle
        import torch

        self.paddle, self.torch, self.port, self.original = paddle, torch, port, original

    def ported(self, ids: np.ndarray, **options: Any) -> Any:
        arrays = {name: self.paddle.to_tensor(value) if isinstance(value, np.ndarray) else value for name, value in options.items()}
        return self.port(input_ids=self.paddle.to_tensor(ids), return_dict=True, **arrays)

    def originals(self, ids: np.ndarray, **options: Any) -> Any:
        arrays = {name: self.torch.tensor(value) if isinstance(value, np.ndarray) else value for name, value in options.items()}
        return self.original(input_ids=self.torch.tensor(ids), **arrays)

    def array(self, tensor: Any) -> np.ndarray:
        if isinstance(tensor, self.torch.Tensor):
            return tensor.detach().float().numpy()
        return tensor.detach().astype("float32").numpy()

    def logits(self, ids: np.ndarray, ported: dict[str, Any], originals: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Of both, without gradients."""
        with self.paddle.no_grad():
            mine = self.array(self.ported(ids, use_cache=False, **ported).logits)
        with self.torch.no_grad():
            return mine, self.array(self.originals(ids, use_cache=False, **originals).logits)

    def losses(self, ids: np.ndarray) -> tuple[Any, Any]:
        """The mean cross entropy of the next token, in float32."""
        mine, other = self.ported(ids, use_cache=False).logits, self.originals(ids, use_cache=False).logits
        targets = ids[:, 1:].reshape(-1)
        return (
            self.paddle.nn.functional.cross_entropy(mine[:, :-1].astype("float32").flatten(0, 1), self.paddle.to_tensor(targets)),
            self.torch.nn.functional.cross_entropy(other[:, :-1].float().flatten(0, 1), self.torch.tensor(targets)),
        )


def sentences(seed: int, length: int = LENGTH) -> np.ndarray:
    """Two rows of tokens without padding."""
    return np.random.default_rng(seed).integers(3, 95, (2, length))


def differing(mine: np.ndarray, other: np.ndarray) -> dict[str, Any]:
    """The largest difference, and how many numbers differ in a bit."""
    apart = mine.view(np.int32) != other.view(np.int32)
    return {"largest": float(np.abs(mine - other).max()), "count": int(apart.sum()), "of": int(apart.size)}


def gradients(sides: Sides, mapping: Any) -> dict[str, Any]:
    """How many gradients are the same; a weight that nothing led to has none, which is 0."""
    for model in (sides.port, sides.original):
        model.train()
    for loss in sides.losses(sentences(1)):
        loss.backward()
    weights = {"torch": dict(sides.original.named_parameters()), "paddle": dict(sides.port.named_parameters())}
    count, largest, names = 0, 0.0, []
    pairs = [pair for pair in mapping if all(pair.slot(side).weight.name in weights[side] for side in weights)]
    for pair in pairs:
        laid_out = []
        for side, holders in weights.items():
            holder = holders[pair.slot(side).weight.name]
            values = np.zeros(tuple(holder.shape), "float32") if holder.grad is None else sides.array(holder.grad)
            laid_out.append(np.ascontiguousarray(pair.in_common(side, values, gradient=True)))
        apart = differing(*laid_out)
        count += not apart["count"]
        largest = max(largest, apart["largest"])
        names += [pair.torch] if apart["count"] else []
    sides.original.zero_grad()
    sides.port.clear_gradients()
    return {"same": count, "of": len(pairs), "largest": largest, "names": names[:3]}


class Masters:
    """AdamW with clipping, and with copies in float32 of what has 16 bits: what Paddle's has with ``multi_precision=True``."""

    def __init__(self, torch: Any, module: Any, places: list[np.ndarray] | None = None) -> None:
        self.torch, self.weights = torch, [weight for weight in module.parameters() if weight.requires_grad]
        self.places = places and [torch.from_numpy(place) for place in places]
        self.grouped = torch.utils._foreach_utils._group_tensors_by_device_and_dtype  # as clip_grad_norm_ does
        self.masters = [weight.detach().float().clone() if weight.dtype.itemsize == 2 else weight for weight in self.weights]
        self.optimizer = torch.optim.AdamW(self.masters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)

    def clip(self) -> None:
        """By the norm of all gradients: of the original's weights, or of the port's, where these hold several."""
        if self.places is None:
            self.torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
            return
        grads = [self.torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in self.weights]
        flat, ends = self.torch.cat([grad.flatten().float() for grad in grads]), np.cumsum([grad.numel() for grad in grads])
        dtypes = [grads[int(np.searchsorted(ends, int(place.flatten()[0]), "right"))].dtype for place in self.places]
        laid_out = [flat[place].to(dtype) for place, dtype in zip(self.places, dtypes)]
        norms = [norm for (same, *_), _ in self.grouped([laid_out]).values() for norm in self.torch._foreach_norm(same)]
        by = (1.0 / (self.torch.linalg.vector_norm(self.torch.stack(norms)) + 1e-6)).clamp(max=1.0)
        self.torch._foreach_mul_([weight.grad for weight in self.weights if weight.grad is not None], by)

    def step(self) -> None:
        self.clip()
        for weight, master in zip(self.weights, self.masters):
            master.grad = None if weight.grad is None else weight.grad.to(master.dtype)
        self.optimizer.step()
        with self.torch.no_grad():
            for weight, master in zip(self.weights, self.masters):
                if weight is not master:
                    weight.copy_(master)
                weight.grad = None


def places_of(sides: Sides, mapping: Any) -> list[np.ndarray]:
    """For each weight of the port where its numbers stand among those of the original's, one weight behind the other."""
    sources, start = {}, 0
    for name, weight in sides.original.named_parameters():
        if weight.requires_grad:
            sources[name] = start + np.arange(weight.numel(), dtype="int64").reshape(weight.shape)
            start += weight.numel()
    held: dict[str, list[Any]] = {}
    for pair in mapping:
        if pair.slot("torch").weight.name in sources:
            held.setdefault(pair.slot("paddle").weight.name, []).append(pair)
    linear = {f"{name}.weight" for name, layer in sides.port.named_sublayers() if isinstance(layer, sides.paddle.nn.Linear)}
    places = []
    for name, weight in sides.port.named_parameters():
        rows = np.full(tuple(weight.shape), -1, "int64")
        for pair in held.get(name, ()):
            own = np.arange(rows.size).reshape(rows.shape)
            values = {"torch": sources[pair.slot("torch").weight.name], "paddle": own}
            parts = [np.ascontiguousarray(pair.in_common(side, numbers)) for side, numbers in values.items()]
            rows.reshape(-1)[parts[1].reshape(-1)] = parts[0].reshape(-1)
        if name in held:
            places.append(np.ascontiguousarray(rows.T if name in linear else rows))
    return places


def trained(sides: Sides, mapping: Any, *, as_port: bool) -> int | None:
    """The first step that differs; None if none does. ``as_port``: gradients are clipped by the norm of the port's weights."""
    mine = sides.paddle.optimizer.AdamW(
        learning_rate=1e-3,
        parameters=sides.port.parameters(),
        weight_decay=0.01,
        multi_precision=True,
        grad_clip=sides.paddle.nn.ClipGradByGlobalNorm(1.0),
    )
    names = {name for name, weight in sides.original.named_parameters() if weight.requires_grad}
    other = Masters(sides.torch, sides.original, places_of(sides, mapping) if as_port else None)
    for step in range(1, STEPS + 1):
        losses = sides.losses(sentences(100 + step))
        for loss in losses:
            loss.backward()
        mine.step()
        mine.clear_grad()
        other.step()
        apart = mapping.check(sides.original, sides.port).differences
        moved = any(weight.pair.slot("torch").weight.name in names for weight in apart)
        if moved or differing(*map(sides.array, losses))["count"]:
            return step
    return None


def generated(sides: Sides) -> dict[str, Any]:
    """The first greedy step whose logits differ, and how many tokens are the same: each side goes on with its own."""
    chosen: list[list[np.ndarray]] = []
    shown: list[list[np.ndarray]] = []
    for ask in (sides.ported, sides.originals):
        ids, past, tokens, logits = sentences(2), None, [], []
        for step in range(TOKENS):
            # Without positions some ports begin at 0 again; their own generate() says them.
            positions = np.tile(np.arange(LENGTH) if step == 0 else [LENGTH + step - 1], (2, 1))
            answer = ask(ids, use_cache=True, past_key_values=past, position_ids=positions)
            past = answer.past_key_values
            logits.append(sides.array(answer.logits)[:, -1])
            ids = logits[-1].argmax(-1)[:, None]
            tokens.append(ids)
        chosen.append(tokens)
        shown.append(logits)
    first = next((step for step, pair in enumerate(zip(*shown), 1) if differing(*pair)["count"]), None)
    return {"first": first, "same": sum(bool((mine == other).all()) for mine, other in zip(*chosen))}


def padded(sides: Sides) -> dict[str, Any]:
    """Two sentences, of which one is padded to the left."""
    ids, mask = sentences(3), np.ones((2, LENGTH), "int64")
    ids[1, :4], mask[1, :4] = 0, 0
    options = {"attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clip(0)}
    return differing(*[logits[mask.astype(bool)] for logits in sides.logits(ids, options, options)])


def packed(sides: Sides) -> dict[str, Any]:
    """Two sentences, of 7 and of 5 tokens, in each row: the port gets their ends, the original reads them in the positions."""
    positions = np.tile(np.r_[np.arange(7), np.arange(5)], (2, 1))
    ends = np.tile(np.r_[np.full(7, 7), np.full(5, 12)].astype("int32"), (2, 1))[:, None, :, None]
    port = {"position_ids": positions, "attn_mask_startend_row_indices": ends}
    return differing(*sides.logits(sentences(4), port, {"position_ids": positions}))


def attempted(question: Any, *arguments: Any) -> Any:
    """The answer, or in words why there is none."""
    try:
        return question(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def alone(decoder: Decoder, dtype: str, *, reworded: bool) -> None:
    """Measure a pair in this process, and print what came out for the process that started it."""
    import paddle
    import torch

    import padiff_shim
    from padiff_shim.weights import match

    torch.set_num_threads(1)
    wordings = tuple(wording for wording in decoder.wordings if dtype in wording.dtypes)
    port, original = decoder.build(dtype, wordings if reworded else ())
    sides, mapping = Sides(port, original), match(original, port)
    answer: dict[str, Any] = {"reasons": [str(wording) for wording in wordings]}
    with padiff_shim.reference("torch", **SHIM) as run:
        answer["logits"] = differing(*sides.logits(sentences(0), {}, {}))
        with paddle.no_grad(), torch.no_grad():
            answer["generated"] = attempted(generated, sides)
        answer["padded"], answer["packed"] = attempted(padded, sides), attempted(packed, sides)
        answer["gradients"] = attempted(gradients, sides, mapping)
        answer["step"] = attempted(functools.partial(trained, as_port=reworded), sides, mapping)
    answer["covered"], answer["left"] = covered(run)
    print(RESULT + json.dumps(answer))


def apart(decoder: Decoder, dtype: str, *, reworded: bool) -> dict[str, Any]:
    """The same in a process of its own. ``reworded``: with the original written as the port is."""
    command = [sys.executable, "-W", "ignore", __file__, "--alone", decoder.title, "--dtypes", dtype]
    try:
        done = subprocess.run([*command, *["--reworded"] * reworded], capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"failed": f"no end in {SECONDS} s"}
    for line in done.stdout.splitlines():
        if line.startswith(RESULT):
            return json.loads(line.removeprefix(RESULT))
    return {"failed": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}


def equal(answer: dict[str, Any]) -> bool:
    """Whether nothing differs."""
    if "failed" in answer or any(isinstance(value, str) for value in answer.values()):
        return False
    counts = [answer[name]["count"] for name in ("logits", "padded", "packed")]
    same = answer["gradients"]["same"] == answer["gradients"]["of"] and answer["generated"]["first"] is None
    return not any(counts) and same and answer["step"] is None


def cells(answer: dict[str, Any]) -> list[str]:
    """What a row shows of an answer."""
    if "failed" in answer:
        return [answer["failed"]]

    def difference(name: str) -> str:
        value = answer[name]
        if isinstance(value, str):
            return "no answer"
        return "0" if not value["count"] else f"{value['largest']:.1e}, {100 * value['count'] / value['of']:.0f} %"

    gradient, made, step = answer["gradients"], answer["generated"], answer["step"]
    return [
        difference("logits"),
        "no answer" if isinstance(gradient, str) else f"{gradient['same']} of {gradient['of']}",
        "no answer" if isinstance(step, str) else "none" if step is None else str(step),
        "no answer" if isinstance(made, str) else f"{made['first'] or 'none'}, {made['same']} of {TOKENS}",
        difference("padded"),
        difference("packed"),
        f"{answer['covered'][0]} of {answer['covered'][1]}",
    ]


def shown(title: str, rows: list[Row]) -> Table:
    """All rows as one table."""
    table = new_table(title, "", *COLUMNS)
    for decoder, dtype, answer in rows:
        table.add_row(decoder.title, dtype, *cells(answer))
    return table


def each(console: Console, work: list[tuple[Decoder, str]], *, reworded: bool) -> Iterator[Row]:
    """The rows in order, two processes at a time, with a bar that grows."""
    with ThreadPoolExecutor(2) as pool, new_progress(console, transient=True) as progress:
        bar = progress.add_task("originals written as their ports" if reworded else "ports as they are", total=len(work))
        answers = pool.map(lambda pair: apart(*pair, reworded=reworded), work)
        for (decoder, dtype), answer in zip(work, answers):
            progress.advance(bar)
            yield decoder, dtype, answer


def main() -> int:
    """Measure all pairs, or those that are named."""
    titles = [decoder.title for decoder in DECODERS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help=f"of {', '.join(titles)} (default: all)")
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--alone", action="store_true", help="in this process, with all that the libraries print")
    parser.add_argument("--reworded", action="store_true", help="with --alone: the original written as the port is")
    options = parser.parse_args()
    for name in options.models:
        if name not in titles:
            parser.error(f"there is no model {name!r}; there are {', '.join(titles)}")
    chosen = [(decoder, dtype) for decoder in DECODERS for dtype in options.dtypes if decoder.title in (options.models or titles)]
    if options.alone:
        for decoder, dtype in chosen:
            alone(decoder, dtype, reworded=options.reworded)
        return 0
    return compared(Console(width=150), chosen)


def compared(console: Console, chosen: list[tuple[Decoder, str]]) -> int:
    """Print both tables and what explains them; 1 where something else differs."""
    start = time.perf_counter()
    rows = list(each(console, chosen, reworded=False))
    console.print(shown("ports as they are", rows))
    explain(console, COLUMNS)
    unequal = [row for row in rows if not equal(row[2])]
    reasons(console, unequal)
    again = list(each(console, [(decoder, dtype) for decoder, dtype, _ in unequal], reworded=True))
    if again:
        console.print(shown("originals written as their ports", again))
    refusals(console, [*rows, *again])
    open_rows = [f"{decoder.title} in {dtype}" for decoder, dtype, answer in again if not equal(answer)]
    for row in open_rows:
        console.print(f"not equal, or without an answer: {row}", markup=False, highlight=False)
    equals, seconds = len(rows) - len(unequal), time.perf_counter() - start
    console.print(
        f"{equals} of {len(rows)} rows identical bit for bit as they are, {len(rows) - len(open_rows)} with the originals written "
        f"as their ports; {seconds:.0f} s"
    )
    return 0 if {decoder.title for decoder, _, answer in again if not equal(answer)} <= OPEN else 1


def reasons(console: Console, unequal: list[Row]) -> None:
    """What the ports write otherwise, with the lines of both, and what the demo had to do for them."""
    dtypes: dict[str, list[str]] = {}
    for decoder, dtype, answer in unequal:
        for reason in answer.get("reasons", []):
            dtypes.setdefault(f"{decoder.title}: {reason}", []).append(dtype)
    for reason, names in dtypes.items():
        console.print(f"{reason} ({', '.join(names)})", markup=False, highlight=False)
    if unequal:
        console.print(CLIPPED, markup=False, highlight=False)
    titles = dict.fromkeys(decoder.title for decoder, _, _ in unequal)
    for decoder in DECODERS:
        if decoder.note and decoder.title in titles:
            console.print(f"{decoder.title}: {decoder.note}", markup=False, highlight=False)


def refusals(console: Console, rows: list[Row]) -> None:
    """Why a question has no answer, and what stayed on Paddle's kernels."""
    lines: dict[str, None] = {}
    for decoder, dtype, answer in rows:
        for name, value in answer.items():
            if isinstance(value, str):
                lines[f"{decoder.title}, {name}: {value}"] = None
        for op, why in answer.get("left", {}).items():
            lines[f"{decoder.title}, {dtype}: {op} stayed on Paddle's kernel: {why}"] = None
    for line in lines:
        console.print(line, markup=False, highlight=False)


if __name__ == "__main__":
    sys.exit(main())
