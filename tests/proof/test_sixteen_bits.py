"""Proofs of ports in bfloat16 and float16: on a CPU, where Paddle has few kernels of them."""

import re
import sys
import types
from pathlib import Path

import numpy as np
import paddle
import paddle.nn.functional as PF
import pytest
import torch
import torch.nn.functional as TF

from padiff_shim import ArgumentError, ProofVerdict, prove
from padiff_shim.proof.findings import Cause

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
from zoo.pairs import build

pytestmark = pytest.mark.usefixtures("undone")
HALVES = ["bfloat16", "float16"]
BFLOAT16 = ["bfloat16", pytest.param("float16", marks=pytest.mark.slow)]  # the other repeats it
X = np.random.default_rng(0).standard_normal((2, 5, 16))


class PaddleNorm(paddle.nn.Layer):
    """A root mean square norm as language models have it: computed in float32, but for what is in ``wrong``."""

    def __init__(self, wrong):
        super().__init__()
        self.weight = self.create_parameter([16], default_initializer=paddle.nn.initializer.Constant(1.0))
        self.wrong = wrong

    def forward(self, x):
        if "norm in 16 bits" in self.wrong:
            return self.weight * (x * paddle.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6))
        wide = x.astype("float32")
        wide = wide * paddle.rsqrt((wide * wide).mean(-1, keepdim=True) + (1e-3 if "epsilon" in self.wrong else 1e-6))
        return (self.weight * wide).astype(x.dtype) if "rounded last" in self.wrong else self.weight * wide.astype(x.dtype)


class Port(paddle.nn.Layer):
    def __init__(self, *wrong):
        super().__init__()
        self.norm, self.wrong = PaddleNorm(wrong), wrong
        self.q, self.k, self.v, self.o = (paddle.nn.Linear(16, 16, bias_attr=False) for _ in range(4))

    def forward(self, x):
        hidden = self.norm(x)
        q, k, v = (layer(hidden).reshape([2, 5, 4, 4]).transpose([0, 2, 1, 3]) for layer in (self.q, self.k, self.v))
        scores = q.matmul(k, transpose_y=True) * 0.5
        wide = scores if "softmax in 16 bits" in self.wrong else scores.astype("float32")
        weights = PF.softmax(wide, -1).astype(q.dtype)
        return x + self.o((weights @ v).transpose([0, 2, 1, 3]).reshape([2, 5, 16]))


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(0.5, 1.5, 16))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm()
        self.q, self.k, self.v, self.o = (torch.nn.Linear(16, 16, bias=False) for _ in range(4))

    def forward(self, x):
        hidden = self.norm(x)
        q, k, v = (layer(hidden).view(2, 5, 4, 4).transpose(1, 2) for layer in (self.q, self.k, self.v))
        weights = TF.softmax(q @ k.transpose(2, 3) * 0.5, -1, dtype=torch.float32).to(q.dtype)
        return x + self.o((weights @ v).transpose(1, 2).reshape(2, 5, 16))


def proven(*wrong, dtype="bfloat16", original=Original, **options):
    torch.manual_seed(0)
    return prove(Port(*wrong), original(), X, dtype=dtype, **options)


@pytest.mark.bitexact
@pytest.mark.parametrize("dtype", [*HALVES, "float32", "float64"])
def test_a_right_port_is_proven_bit_for_bit(dtype):
    proof = proven(dtype=dtype)
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)
    assert (proof.differences["native"] is None) is (dtype in HALVES)
    assert any(dtype in note for note in proof.notes) is (dtype in HALVES)


@pytest.mark.parametrize("dtype", BFLOAT16)
@pytest.mark.parametrize(
    ("wrong", "cause", "line"),
    [
        ("epsilon", Cause.CONSTANT, "1e-3 if"),
        ("norm in 16 bits", Cause.DTYPE, "self.weight * (x"),
        ("softmax in 16 bits", Cause.DTYPE, "PF.softmax"),
    ],
)
def test_a_mistake_is_found(wrong, cause, line, dtype):
    proof = proven(wrong, dtype=dtype)
    (mistake,) = proof.mistakes
    assert line in mistake.paddle.source, str(proof)
    assert mistake.cause in (cause, Cause.ATTRIBUTE, Cause.OPERAND), str(proof)
    if cause is Cause.DTYPE:
        assert {dtype, "float32"} <= set(re.findall(r"b?float\d+", mistake.text)), mistake.text


@pytest.mark.parametrize("dtype", BFLOAT16)
def test_another_order_of_rounding_is_right(dtype):
    proof = proven("rounded last", dtype=dtype)
    assert proof.verdict is ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING, str(proof)
    assert proof.differences["float64"] < 1e-13 < proof.differences["shim"]


def test_tensors_are_of_that_dtype_too_and_the_models_stay_as_they_are():
    port, original = Port(), Original()
    for inputs in (paddle.to_tensor(X.astype("float32")), lambda side: X if side == "torch" else paddle.to_tensor(X)):
        assert prove(port, original, inputs, dtype="bfloat16").verdict is ProofVerdict.CODE_CORRECT
    assert port.q.weight.dtype == paddle.float32
    assert original.q.weight.dtype is torch.float32


@pytest.mark.parametrize("dtype", [paddle.bfloat16, torch.bfloat16])
def test_a_dtype_of_a_framework(dtype):
    assert proven(dtype=dtype).differences["native"] is None


@pytest.mark.parametrize("dtype", ["bf16", "int8", 16, torch.int8])
def test_a_dtype_that_is_none(dtype):
    with pytest.raises(ArgumentError, match=r"unknown dtype .* Accepted: bfloat16, float16, float32, float64"):
        prove(Port(), Original(), X, dtype=dtype)


@pytest.mark.rows(1)
@pytest.mark.bitexact
@pytest.mark.parametrize("name", ["gpt", "llama", "resnet", "tagger"])
def test_models_of_the_zoo(name):
    pair = build(name, "float32")
    proof = prove(pair.paddle, pair.torch, _inputs(pair), dtype="bfloat16", phase="forward")
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)


def _inputs(pair):
    names = {"tokens", "kinds", "images", "lengths"}
    return tuple(array for name, array in pair.arrays.items() if name in names)


# Models that do not run in float64


class NoDouble(torch.nn.Module):
    """A kernel that has no float64."""

    def forward(self, x):
        if x.dtype is torch.float64:
            raise RuntimeError("no kernel of float64")
        return x


class InSingle(Original):
    def __init__(self):
        super().__init__()
        self.only = NoDouble()

    def forward(self, x):
        return self.only(super().forward(x))


@pytest.mark.rows(1)
@pytest.mark.parametrize("dtype", BFLOAT16)
@pytest.mark.parametrize("wrong", ["", "rounded last", "epsilon"])
def test_where_float64_does_not_run_float32_tells(wrong, dtype):
    proof = proven(wrong, dtype=dtype, original=InSingle)
    if not wrong:
        assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)
        return
    assert bool(proof) is (wrong == "rounded last"), str(proof)
    assert any("RuntimeError" in note for note in proof.notes)
    assert proof.differences["float64"] is None
    if wrong == "epsilon":
        (mistake,) = proof.mistakes
        assert "1e-3 if" in mistake.paddle.source
    else:
        assert "float32" in proof.reason


@pytest.mark.parametrize("phase", ["both", "train"])
def test_of_float32_nothing_is_told_where_float64_does_not_run(phase):
    """What differs is no mistake by that alone."""

    class Turned(Port):
        def forward(self, x):
            return super().forward(x + 1.0) - 1.0

    class Straight(InSingle):
        def forward(self, x):
            return super().forward(x + 0.5 + 0.5) - 1.0

    options = {"phase": "train", "optimizer": "SGD", "loss": lambda out: out.sum()} if phase == "train" else {}
    proof = prove(Turned(), Straight(), X * 1e-3, dtype="float32", **options)
    assert proof.verdict is ProofVerdict.NOT_COMPARABLE, str(proof)
    assert "float64" in proof.reason


class Experts(InSingle):
    """As transformers 5 has them: a switch says how experts are computed."""

    def __init__(self):
        super().__init__()
        self.config = types.SimpleNamespace(_experts_implementation="grouped_mm")

    def set_experts_implementation(self, name):
        self.config._experts_implementation = name

    def forward(self, x):
        eager = self.config._experts_implementation == "eager"
        return Original.forward(self, x) if eager else super().forward(x)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_grouped_experts_are_run_without_groups_in_float64(dtype):
    original = Experts()
    proof = prove(Port("epsilon"), original, X, dtype=dtype)
    assert [mistake.paddle.source[-6:] for mistake in proof.mistakes] == ["1e-6))"], str(proof)
    assert any("experts_implementation='eager'" in note for note in proof.notes), str(proof)
    assert original.config._experts_implementation == "grouped_mm"


# Trainings


def loss(out):
    return (out * out).mean()


def with_masters(clip):
    def made(model):
        weights = list(model.parameters())
        masters = [weight.detach().float().requires_grad_() for weight in weights]
        optimizer = torch.optim.AdamW(masters, lr=1e-2, weight_decay=0.1)

        def step():
            if clip:
                torch.nn.utils.clip_grad_norm_(weights, clip)
            for master, weight in zip(masters, weights):
                master.grad = weight.grad.float()
            optimizer.step()
            with torch.no_grad():
                for master, weight in zip(masters, weights):
                    weight.copy_(master)
                    weight.grad = None

        return step

    return made


def adamw(multi_precision, clip=0.0):
    limit = paddle.nn.ClipGradByGlobalNorm(clip) if clip else None
    words = {"weight_decay": 0.1, "multi_precision": multi_precision, "grad_clip": limit}
    return lambda model: paddle.optimizer.AdamW(1e-2, parameters=model.parameters(), **words)


@pytest.mark.bitexact
@pytest.mark.parametrize("dtype", BFLOAT16)
def test_a_training_with_masters(dtype):
    proof = proven(phase="train", dtype=dtype, steps=5, loss=loss, optimizer=(adamw(True), with_masters(0.0)))
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)


def test_masters_on_one_side_alone():
    for paddles, torchs, words in (
        (adamw(False), with_masters(0.0), "by copies in float32: write multi_precision=True"),
        (adamw(True), lambda model: torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0.1), "write multi_precision=False"),
    ):
        proof = proven(phase="train", steps=3, loss=loss, optimizer=(paddles, torchs))
        assert proof.verdict is ProofVerdict.CODE_DIFFERS, str(proof)
        assert words in str(proof.mistakes[0])


def test_a_clip_that_is_missing_is_told_by_rounded_gradients():
    proof = proven(phase="train", steps=2, loss=lambda out: loss(out) * 100.0, optimizer=(adamw(True), with_masters(0.5)))
    (mistake,) = proof.mistakes
    assert "ClipGradByGlobalNorm(0.5" in str(mistake), str(proof)


@pytest.mark.bitexact
@pytest.mark.parametrize("name", ["SGD", "Momentum", "AdamW"])
def test_optimizers_by_name(name):
    proof = proven(phase="train", steps=3, loss=loss, optimizer=name)
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)


def test_a_training_behind_a_wrong_forward_is_told_by_the_original_gradients():
    proof = proven("epsilon", phase="train", steps=2, loss=loss, optimizer=(adamw(True), with_masters(0.0)))
    assert proof.verdict is ProofVerdict.CODE_DIFFERS, str(proof)
    assert "1e-3 if" in proof.mistakes[0].paddle.source


def test_masters_on_one_side_alone_where_all_rounds_otherwise():
    def plain(model):
        return torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0.1)

    proof = proven("rounded last", phase="train", steps=3, loss=loss, optimizer=(adamw(True), plain))
    assert ["multi_precision=False" in str(mistake) for mistake in proof.mistakes] == [True], str(proof)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_gradients_whose_squares_are_nothing(dtype):
    scale = 1e-22 if dtype == "float32" else 1e-7
    proof = proven(phase="train", dtype=dtype, steps=2, loss=lambda out: loss(out) * scale, optimizer="SGD")
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)


@pytest.mark.parametrize("dtype", BFLOAT16)
def test_an_output_of_another_dtype(dtype):
    class Wide(Original):
        def forward(self, x):
            return super().forward(x).float()

    proof = proven(dtype=dtype, original=Wide)
    assert proof.verdict is ProofVerdict.CODE_DIFFERS, str(proof)
    assert f"has dtype {dtype} against float32" in str(proof)


def test_models_of_two_dtypes():
    port = Port()
    port._to_impl(dtype="bfloat16", floating_only=True)
    proof = prove(port, Original(), X)
    assert "bfloat16, the original's float32" in proof.reason


# Tables that constructors make: a conversion to 16 bits rounds those that layers hold, in Paddle plain attributes, too


def rotated(module, base=10000.0):
    """A model of either framework that turns its hidden states by the sines of a table, which its layer holds in some way."""
    torchs = module is torch
    layer = torch.nn.Module if torchs else paddle.nn.Layer

    class Rotated(layer):
        def __init__(self, holds):
            super().__init__()
            self.holds = holds
            self.a, self.b = (torch.nn.Linear(16, 16) if torchs else paddle.nn.Linear(16, 16) for _ in range(2))
            made = self.frequencies() if "frequencies" in holds else self.angles(self.frequencies()).cos()
            if "buffer" in holds:
                self.register_buffer("table", made, **{"persistent" if torchs else "persistable": False})
            elif holds != "nothing":
                self.table = made

        def frequencies(self):
            return base ** -(module.arange(0, 16, 2, dtype=module.float32) / 16)

        def angles(self, frequencies):
            whole = module.concat([frequencies, frequencies], -1)
            return module.arange(9, 14, dtype=module.float32).unsqueeze(-1) * cast(whole, module.float32)

        def forward(self, x):
            table = self.frequencies() if self.holds == "nothing" else self.table
            cosines = table if "cosines" in self.holds else self.angles(table).cos()
            return self.b(module.tanh(self.a(x)) * cast(cosines, x.dtype))

    def cast(tensor, dtype):
        return tensor.to(dtype) if torchs else tensor.astype(dtype)

    return Rotated


def proven_tables(port, original, dtype, base, *, handed_over):
    """The proof of such models, converted by the caller or by the proof."""
    torch.manual_seed(0)
    wide, source = rotated(paddle, base)(port), rotated(torch)(original)
    if handed_over:
        return prove(wide.to(dtype=dtype), source.to(getattr(torch, dtype)), X)
    return prove(wide, source, X, dtype=dtype)


RIGHT, ROUNDED = ProofVerdict.CODE_CORRECT, ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING


@pytest.mark.rows(5)
@pytest.mark.parametrize("handed_over", [False, True])
@pytest.mark.parametrize("dtype", BFLOAT16)
@pytest.mark.parametrize(
    ("port", "original", "verdict"),
    [
        ("frequencies in a buffer", "frequencies in a buffer", RIGHT),
        ("cosines", "frequencies", RIGHT),
        ("cosines in a buffer", "nothing", RIGHT),
        ("cosines", "frequencies in a buffer", ROUNDED),
        ("nothing", "frequencies in a buffer", ROUNDED),
        ("frequencies", "frequencies", ProofVerdict.CODE_DIFFERS),
        ("frequencies in a buffer", "cosines in a buffer", ProofVerdict.CODE_DIFFERS),
    ],
)
def test_a_table_is_rounded_on_one_side(port, original, verdict, dtype, handed_over):
    """The code is right: what is told is the cast, at the line that computes with rounded numbers."""
    proof = proven_tables(port, original, dtype, 10000.0, handed_over=handed_over)
    assert proof.verdict is verdict, str(proof)
    assert (dtype in proof.answer and "table" in proof.answer) is (verdict is not RIGHT), str(proof)
    assert [(mistake.cause, "unsqueeze(-1) *" in mistake.paddle.source) for mistake in proof.mistakes] == (
        [(Cause.DTYPE, True)] * (verdict is ProofVerdict.CODE_DIFFERS)
    ), str(proof)


@pytest.mark.rows(2)
@pytest.mark.parametrize("handed_over", [False, True])
@pytest.mark.parametrize(("port", "original"), [("cosines", "frequencies in a buffer"), ("frequencies", "cosines")])
def test_another_base_is_no_rounding(port, original, handed_over):
    proof = proven_tables(port, original, "bfloat16", 10500.0, handed_over=handed_over)
    assert Cause.DTYPE not in {mistake.cause for mistake in proof.mistakes} != set(), str(proof)


class Scaled(paddle.nn.Layer):
    """A number that a conversion to 16 bits rounds, and that the original has in its source."""

    def __init__(self):
        super().__init__()
        self.a = paddle.nn.Linear(16, 8)
        self.register_buffer("scale", paddle.to_tensor(12.0**0.5, dtype="float32"), persistable=False)

    def forward(self, x):
        return paddle.tanh(self.a(x) * self.scale.astype(x.dtype))


class ScaledOriginal(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(16, 8)

    def forward(self, x):
        return torch.tanh(self.a(x) * 12.0**0.5)


@pytest.mark.parametrize("dtype", BFLOAT16)
def test_a_single_number_is_rounded_on_one_side(dtype):
    assert prove(Scaled(), ScaledOriginal(), X, dtype=dtype).verdict is ROUNDED


def leveled(module):
    """A model of either framework with whole numbers in a buffer, which Paddle's conversion casts and Torch's does not."""

    class Leveled(torch.nn.Module if module is torch else paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.register_buffer("levels", module.to_tensor([8, 5, 4]) if module is paddle else torch.tensor([8, 5, 4]))
            self.a, self.b = module.nn.Linear(16, 3), module.nn.Linear(16, 3)

        def forward(self, x):
            if module is torch:
                x = torch.nn.functional.silu(x)
                half = self.levels // 2
                return (torch.tanh(self.a(x).float()) / half).to(x.dtype) * self.b(x)
            x = x / (1 + paddle.exp(-x))
            half = (self.levels // 2).astype("float32")
            return (paddle.tanh(self.a(x).astype("float32")) / half).astype(x.dtype) * self.b(x)

    return Leveled()


def test_whole_numbers_round_in_no_dtype():
    port, original = leveled(paddle).to(dtype="bfloat16"), leveled(torch).to(torch.bfloat16)
    proof = prove(port, original, X)
    assert proof.verdict is ROUNDED, str(proof)


class GatedExperts(torch.nn.Module):
    """Gated experts in bfloat16, whose results are multiplied by routing weights in float32, one after the other."""

    def __init__(self):
        super().__init__()
        self.router = torch.nn.Linear(16, 4, bias=False)
        shapes = {"gate": (16, 24), "up": (16, 24), "down": (24, 16)}
        for name, shape in shapes.items():
            setattr(self, name, torch.nn.ModuleList(torch.nn.Linear(*shape, bias=False) for _ in range(4)))

    def forward(self, x):
        weights = torch.softmax(self.router(x).float(), -1)
        y = torch.zeros(x.shape)
        for at, (gate, up, down) in enumerate(zip(self.gate, self.up, self.down)):
            y = y + down(torch.nn.functional.silu(gate(x)) * up(x)) * weights[:, at : at + 1]
        return y


class PortedGatedExperts(paddle.nn.Layer):
    """First all gates, then all weights; the last expert first."""

    def __init__(self, routing):
        super().__init__()
        self.router, self.routing = paddle.nn.Linear(16, 4, bias_attr=False), routing
        for name, shape in {"gate": (16, 24), "up": (16, 24), "down": (24, 16)}.items():
            setattr(self, name, paddle.nn.LayerList([paddle.nn.Linear(*shape, bias_attr=False) for _ in range(4)]))

    def forward(self, x):
        weights = paddle.nn.functional.softmax(self.router(x).astype(self.routing), -1).astype("float32")
        inner = [paddle.nn.functional.silu(gate(x)) * up(x) for gate, up in zip(self.gate, self.up)]
        y = paddle.zeros(x.shape)
        for at in reversed(range(4)):
            y = y + self.down[at](inner[at]).astype("float32") * weights[:, at : at + 1]
        return y


@pytest.mark.rows(1)
@pytest.mark.parametrize("routing", ["float32", "bfloat16"])
def test_experts_are_paired_by_what_they_compute(routing):
    """A gate is not the other program's routing weight, though as many products stand in both."""
    torch.manual_seed(0)
    x = np.random.default_rng(0).standard_normal((12, 16)).astype("float32")
    proof = prove(PortedGatedExperts(routing), GatedExperts(), x, dtype="bfloat16")
    assert bool(proof) is (routing == "float32"), str(proof)
    assert [(mistake.cause, "softmax" in mistake.text) for mistake in proof.mistakes] == [(Cause.DTYPE, True)] * (not proof)
