"""Why do the bits of a right port differ, and what makes them equal? Formulations exchanged in each of five ports.

`python examples/demo_bitwise.py` prints a row for each exchange: whether its line was named as an origin of different bits, with
its cause, and whether the printed change, written into the source by this script, makes the port identical bit for bit. It fails if
an origin is invented on an identical pair. `--paddlenlp` asks of two ports of paddlenlp as they are (`make demo-bitwise-nlp`).
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import digits_data
import digits_paddle
import digits_torch
import numpy as np
import torch
from ports import nlp
from rich.console import Console
from tables import new_progress, new_table
from zoo.pairs import arrays_of, drop_nothing, module_of

import padiff_shim
from padiff_shim.proof.bits.formulation import BACKWARD, FUSED, GROUPING, LAYOUT, ROUNDING

HERE = Path(__file__).parent


class Exchange(NamedTuple):
    """A formulation that the port writes otherwise: ``old`` in the source becomes ``new``, for one of these causes."""

    name: str
    causes: tuple[str, ...]
    old: str
    new: str


def exchange(name: str, cause: str, old: str, new: str, *others: str) -> Exchange:
    return Exchange(name, (cause, *others), old, new)


EXCHANGES: dict[str, tuple[Exchange, ...]] = {
    "transformer": (
        exchange(
            "scale on the queries",
            ROUNDING,
            "paddle.matmul(query, key, transpose_y=True) / math.sqrt(query.shape[-1])",
            "paddle.matmul(query * query.shape[-1] ** -0.5, key, transpose_y=True)",
        ),
        exchange(
            "gelu by its formula",
            FUSED,
            "        return x + self.dropout(self.linear2(F.gelu(self.linear1(self.norm2(x)))))",
            "        hidden = self.linear1(self.norm2(x))\n"
            "        hidden = hidden * 0.5 * (1.0 + paddle.erf(hidden / math.sqrt(2.0)))\n"
            "        return x + self.dropout(self.linear2(hidden))",
        ),
        exchange("softmax by log-softmax", FUSED, "F.softmax(scores, axis=-1)", "paddle.exp(F.log_softmax(scores, axis=-1))"),
        exchange(
            "bias behind the product",
            GROUPING,
            "self.head(self.norm(x).mean(axis=1))",
            "F.linear(self.norm(x).mean(axis=1), self.head.weight) + self.head.bias",
        ),
        exchange(
            "norm by its formula",
            FUSED,
            "        x = x + self.dropout(self.attention(self.norm1(x)))",
            "        mean = x.mean(-1, keepdim=True)\n"
            "        y = (x - mean) / paddle.sqrt(((x - mean) ** 2).mean(-1, keepdim=True) + 1e-5)\n"
            "        x = x + self.dropout(self.attention(y * self.norm1.weight + self.norm1.bias))",
        ),
    ),
    "llama": (
        exchange(
            "norm divided by the root",
            ROUNDING,
            "(x * paddle.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))",
            "(x / paddle.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))",
        ),
        exchange(
            "scale on the queries",
            ROUNDING,
            "paddle.matmul(q, k, transpose_y=True) * SIZE**-0.5",
            "paddle.matmul(q * SIZE**-0.5, k, transpose_y=True)",
        ),
        exchange(
            "silu by its formula",
            FUSED,
            "PF.silu(self.gate(y)) * self.up(y)",
            "self.gate(y) * PF.sigmoid(self.gate(y)) * self.up(y)",
        ),
        exchange(
            "rotation in float32",
            ROUNDING,
            "    left, right = paddle.chunk(x, 2, axis=-1)\n    return x * cos + paddle.concat([-right, left], axis=-1) * sin",
            '    dtype, x, cos, sin = x.dtype, x.astype("float32"), cos.astype("float32"), sin.astype("float32")\n'
            "    left, right = paddle.chunk(x, 2, axis=-1)\n"
            "    return (x * cos + paddle.concat([-right, left], axis=-1) * sin).astype(dtype)",
        ),
        exchange(
            "key heads repeated before the rotation",
            BACKWARD,
            "        q, k = paddle_rotated(self.q_norm(q), cos, sin), paddle_rotated(self.k_norm(k), cos, sin)\n"
            "        k, v = (paddle.repeat_interleave(t, HEADS // KEYS, axis=1) for t in (k, v))\n",
            "        k, v = (paddle.repeat_interleave(t, HEADS // KEYS, axis=1) for t in (k, v))\n"
            "        q, k = paddle_rotated(self.q_norm(q), cos, sin), paddle_rotated(self.k_norm(k), cos, sin)\n",
            ROUNDING,  # beside the scale and the rotation, which round otherwise: one origin from the keys to the scores
        ),
        exchange(
            "product by transposing the result",
            LAYOUT,
            "        mixed = paddle.matmul(PF.softmax(scores, axis=-1), v)\n",
            "        weights = PF.softmax(scores, axis=-1)\n"
            "        mixed = paddle.matmul(v, weights, transpose_x=True, transpose_y=True).transpose([0, 1, 3, 2])\n",
        ),
    ),
    "moe": (
        exchange(
            "router in float32",
            ROUNDING,
            "PF.softmax(self.router(tokens), axis=-1)",
            'PF.softmax(self.router(tokens).astype("float32"), axis=-1).astype(tokens.dtype)',
        ),
        exchange(
            "weights normalised in float64",
            ROUNDING,
            "        chosen = chosen / chosen.sum(-1, keepdim=True)",
            '        wide = chosen.astype("float64")\n        chosen = (wide / wide.sum(-1, keepdim=True)).astype(chosen.dtype)',
        ),
        exchange("swiglu by its formula", FUSED, "PF.silu(gate) * up", "gate * PF.sigmoid(gate) * up"),
        exchange(
            "experts mixed by a product",
            GROUPING,
            "(made * chosen.unsqueeze(-1)).sum(1)",
            "paddle.matmul(chosen.unsqueeze(1), made).squeeze(1)",
        ),
        exchange(
            "scores divided or multiplied",
            ROUNDING,
            "paddle.matmul(q, k, transpose_y=True) / D**0.5",
            "paddle.matmul(q, k, transpose_y=True) * D**-0.5",
        ),
        exchange(
            "product by transposing the result",
            LAYOUT,
            "        return self.out(paddle.matmul(PF.softmax(scores, axis=-1), v))\n",
            "        weights = PF.softmax(scores, axis=-1)\n"
            "        return self.out(paddle.matmul(v, weights, transpose_x=True, transpose_y=True).transpose([0, 2, 1]))\n",
        ),
    ),
    "bert": (
        exchange(
            "scores multiplied",
            ROUNDING,
            "        scores = paddle.matmul(q, k.transpose([0, 1, 3, 2])) / (width // self.heads) ** 0.5 + mask",
            "        scores = paddle.matmul(q, k.transpose([0, 1, 3, 2])) * (1 / (width // self.heads) ** 0.5) + mask",
        ),
        exchange(
            "gelu by its formula",
            FUSED,
            "        return self.norm2(x + self.drop(self.down(PF.gelu(self.up(x)))))",
            "        y = self.up(x)\n"
            "        y = y * 0.5 * (1.0 + paddle.erf(y / 2.0**0.5))\n"
            "        return self.norm2(x + self.drop(self.down(y)))",
        ),
        exchange(
            "embeddings added in another order",
            GROUPING,
            "self.words(tokens) + self.kinds(kinds) + self.places(paddle.arange(tokens.shape[1]))",
            "self.words(tokens) + (self.kinds(kinds) + self.places(paddle.arange(tokens.shape[1])))",
        ),
        exchange(
            "norm by its formula",
            FUSED,
            "        x = self.norm1(x + self.drop(self.out(mixed)))",
            "        y = x + self.drop(self.out(mixed))\n"
            "        y = y - y.mean(-1, keepdim=True)\n"
            "        x = y / paddle.sqrt((y * y).mean(-1, keepdim=True) + 1e-12) * self.norm1.weight + self.norm1.bias",
        ),
        exchange(
            "bias behind the product",
            GROUPING,
            "paddle.tanh(self.pooler(x[:, 0]))",
            "paddle.tanh(PF.linear(x[:, 0], self.pooler.weight) + self.pooler.bias)",
        ),
        exchange(
            "product by transposing the result",
            LAYOUT,
            "        mixed = paddle.matmul(self.drop(PF.softmax(scores, axis=-1)), v).transpose([0, 2, 1, 3])",
            "        weights = self.drop(PF.softmax(scores, axis=-1))\n"
            "        mixed = paddle.matmul(v, weights, transpose_x=True, transpose_y=True)"
            ".transpose([0, 1, 3, 2]).transpose([0, 2, 1, 3])",
        ),
    ),
    "reformer": (
        exchange("divided by the root", ROUNDING, "query * paddle.rsqrt(", "query / paddle.sqrt("),
        exchange(
            "mean over another axis",
            LAYOUT,
            "(query**2).mean(axis=-1, keepdim=True)",
            "(query.transpose([0, 1, 2, 4, 3]) ** 2).mean(axis=-2).unsqueeze(-1)",
        ),
        exchange(
            "norm by its formula",
            FUSED,
            "self.down(PF.relu(self.up(self.norm2(left))))\n",
            "self.down(PF.relu(self.up(self.normed(left))))\n\n"
            "    def normed(self, x):\n"
            "        x = x - x.mean(-1, keepdim=True)\n"
            "        x = x * paddle.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)\n"
            "        return x * self.norm2.weight + self.norm2.bias\n",
        ),
        exchange(
            "rounds mixed by a product",
            GROUPING,
            "(attended * paddle.exp(total - whole)).sum(axis=2)",
            "paddle.matmul(paddle.exp(total - whole).transpose([0, 1, 3, 4, 2]), attended.transpose([0, 1, 3, 2, 4])).squeeze(3)",
        ),
        exchange(
            "bias behind the product",
            GROUPING,
            "self.head(self.norm(paddle.concat([left, right], axis=-1)))",
            "PF.linear(self.norm(paddle.concat([left, right], axis=-1)), self.head.weight) + self.head.bias",
        ),
    ),
}
INPUTS = {
    "transformer": ("images",),
    "llama": ("tokens",),
    "moe": ("tokens",),
    "bert": ("tokens", "kinds"),
    "reformer": ("tokens", "rotations"),
}


ROUNDS = 3  # of changes: those of the same lines are written one after the other


class Row(NamedTuple):
    """What became of one exchange: whether bits differ, its line was named, with its cause, and the change works."""

    model: str
    dtype: str
    what: str
    differs: bool
    named_line: bool
    named: bool
    changed: bool
    invented: int
    text: str


class Port(NamedTuple):
    """A port in a file of its own, and its original."""

    path: Path
    name: str


def written(name: str, exchanges: Sequence[Exchange], folder: Path) -> Path:
    """The source of a port with formulations exchanged."""
    if name == "transformer":
        source, rest = Path(digits_paddle.__file__).read_text(), ""
    else:
        held, original, rest = Path(importlib.import_module(f"zoo.{name}").__file__ or "").read_text().partition("class Torch")
        source, rest = held, original + rest
    for each in exchanges:
        if each.old not in source:
            raise SystemExit(f"{name} has no {each.old!r}")
        source = source.replace(each.old, each.new, 1)
    path = folder / f"{name}_{len(list(folder.iterdir()))}.py"
    path.write_text(source + rest)
    return path


def models(name: str, path: Path) -> tuple[Any, Any]:
    """The port of a file, and its original, without dropout."""
    package = "" if name == "transformer" else "zoo."
    module = module_of(f"{package}{path.stem}_{time.monotonic_ns()}", path)
    torch.manual_seed(0)
    if name == "transformer":
        config = digits_data.Config(layers=2)
        return module.Classifier(config), digits_torch.Classifier(config)
    port, original = module.paddle_model(), module.torch_model()
    drop_nothing(port)
    drop_nothing(original)
    return port, original


def inputs(name: str) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    if name == "transformer":
        return (rng.random((16, 8, 8)).astype("float32"),)
    arrays = arrays_of(importlib.import_module(f"zoo.{name}"), rng, "float32")
    return tuple(arrays[key] for key in INPUTS[name])


def asked(name: str, exchanges: Sequence[Exchange], dtype: str, folder: Path, *, show: bool) -> list[Row]:
    """Ask of a port with formulations exchanged; then write what is printed into the source, and prove it."""
    path = written(name, exchanges, folder)
    source = path.read_text()
    port, original = models(name, path)
    answer = padiff_shim.prove(port, original, inputs(name), weights="random", dtype=dtype).bits()
    text = str(answer)
    if show:
        print(f"\n===== {name}, {dtype}: {', '.join(each.name for each in exchanges) or 'as it is'}\n{text}")
    places = [(source[: source.index(each.new)].count("\n") + 1, each.new.count("\n") + 1) for each in exchanges]
    behind = answer
    for _ in range(ROUNDS):
        if behind.identical or not behind.apply():
            break
        behind = padiff_shim.prove(*models(name, path), inputs(name), weights="random", dtype=dtype).bits()
        if show and not behind.identical:
            print("----- behind the changes:", behind.headline)
    identical = behind.identical
    rows, owned = [], set()
    for each, (line, lines) in zip(exchanges, places):
        at = [number for number, origin in enumerate(answer.origins) if origin.paddle and line <= origin.paddle.line < line + lines]
        owned.update(at)
        origins = [answer.origins[number] for number in at]
        named = any(origin.cause in each.causes for origin in origins)
        works = bool(origins) and all(origin.patch for origin in origins) and (identical or len(exchanges) > 1)
        rows.append(Row(name, dtype, each.name, not answer.identical, bool(at), named, works, 0, text))
    invented = len(answer.origins) - len(owned)
    whole = "as it is" if not exchanges else exchanges[0].name if len(exchanges) == 1 else f"all {len(exchanges)} at once"
    if len(exchanges) == 1:
        return [rows[0]._replace(invented=invented)]
    whole_row = Row(name, dtype, whole, not answer.identical, False, False, identical, invented, text)
    return [whole_row, *(row._replace(what=f"  {row.what}") for row in rows)]


NLP = {  # ports of paddlenlp 2.8.1, as they are: what is run forward, or both
    "BERT": ("BertModel", nlp.ENCODER, "both"),
    "Reformer": (
        "ReformerModel",
        {
            **nlp.REFORMER,
            "attn_layers": ["lsh", "local"],
            "lsh_attn_chunk_length": 4,
            "num_hashes": 2,
            "num_buckets": 4,
            "hash_seed": 0,
        },
        "forward",  # its training fails natively
    ),
}


def of_paddlenlp(console: Console, dtypes: Sequence[str]) -> int:
    """Where the bits of paddlenlp's own ports part from transformers'; 1 if one of them is not right."""
    table = new_table("port", "dtype", "origins", "with a change", "identical", "headline")
    wrong = 0
    for name, (model, config, phase) in NLP.items():
        for dtype in dtypes:
            port, original, arrays = nlp.both(model, model, config, config)
            answer = padiff_shim.prove(port, original, arrays, weights="random", phase=phase, dtype=dtype).bits()
            console.print(
                f"===== {name}, {dtype}", answer.headline, *map(str, answer.origins), sep="\n", markup=False, highlight=False
            )
            changes = sum(bool(origin.change) for origin in answer.origins)
            same = "yes" if answer.mended else "no"
            table.add_row(name, dtype, str(len(answer.origins)), str(changes), same, answer.headline)
            wrong += not answer.comparable
    console.print(table)
    return int(wrong > 0)


def main() -> int:
    """Print the table; the exit status is 1 if an origin was invented on an identical pair."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", default=[], help=f"of {', '.join(EXCHANGES)} (default: all)")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"], choices=["float32", "bfloat16"])
    parser.add_argument("--only", type=int, help="the number of the one exchange to make, from 0")
    parser.add_argument("--verbose", action="store_true", help="print every answer")
    parser.add_argument(
        "--paddlenlp", action="store_true", help="paddlenlp's BERT and Reformer as they are; see `make demo-bitwise-nlp`"
    )
    options = parser.parse_args()
    console = Console()
    if options.paddlenlp:
        return of_paddlenlp(console, options.dtypes)
    rows: list[Row] = []
    silent: set[tuple[str, str, str]] = set()  # exchanges that change no bit
    with tempfile.TemporaryDirectory() as folder, new_progress(console, transient=True) as progress:
        work = [
            (name, dtype, chosen)
            for name in options.models or EXCHANGES
            for dtype in options.dtypes
            for chosen in _choices(EXCHANGES[name], options.only)
        ]
        bar = progress.add_task("", total=len(work))
        for name, dtype, chosen in work:
            progress.update(bar, description=f"{name}, {dtype}")
            try:
                made = asked(name, chosen, dtype, Path(folder), show=options.verbose)
                if len(chosen) == 1 and not made[0].differs:
                    silent.add((name, dtype, chosen[0].name))
                rows += [row for row in made if (name, dtype, row.what.strip()) not in silent or len(chosen) == 1]
            except Exception as error:
                if options.verbose:
                    console.print_exception()
                rows.append(Row(name, dtype, ", ".join(each.name for each in chosen), True, False, False, False, 0, repr(error)))
            progress.advance(bar)
    table = new_table("port", "dtype", "exchanged", "bits", "line", "cause", "change", "invented")
    for row in rows:
        marks = ["yes" if mark else "no" for mark in (row.named_line, row.named, row.changed)] if row.differs else ["", "", ""]
        if row.what == "as it is" or row.what.startswith("all "):
            marks = ["", "", marks[2]]
        table.add_row(
            row.model, row.dtype, row.what, "differ" if row.differs else "equal", *marks, str(row.invented) if row.invented else ""
        )
    console.print(table)
    asked_for = [row for row in rows if row.differs and row.what != "as it is" and not row.what.startswith("all ")]
    count = len(asked_for) or 1
    named, changed = (sum(getattr(row, word) for row in asked_for) for word in ("named", "changed"))
    console.print(
        f"{len(asked_for)} exchanges that make other bits: {sum(row.named_line for row in asked_for)} at their line, "
        f"{named} with the right cause ({named / count:.0%}), {changed} with a change that works ({changed / count:.0%})"
    )
    return int(any(row.invented or row.differs for row in rows if row.what == "as it is"))


def _choices(exchanges: tuple[Exchange, ...], only: int | None) -> list[tuple[Exchange, ...]]:
    if only is not None:
        return [(exchanges[only],)] if only >= 0 else [exchanges]
    return [(), *((each,) for each in exchanges), exchanges]


if __name__ == "__main__":
    sys.exit(main())
