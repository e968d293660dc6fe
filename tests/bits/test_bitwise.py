"""Origins of different bits: named at their lines, mended by what is printed, and none where no bit differs."""

import importlib.util
import sys

import numpy as np
import paddle
import pytest
import torch
from helpers import classes, in_turn, sampled

import padiff_shim
from padiff_shim.present.annotations import Patch
from padiff_shim.proof.bits.formulation import BACKWARD, FUSED, LAYOUT, ROUNDING
from padiff_shim.proof.bits.result import BitOrigin, Bitwise

PORT = """
import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class Port(nn.Layer):
    def __init__(self):
        super().__init__()
        self.weight = self.create_parameter([24], default_initializer=nn.initializer.Constant(1.0))
        self.norm, self.embed = nn.LayerNorm(24, epsilon=1e-6), nn.Linear(24, 24)
        self.q, self.k, self.v = (nn.Linear(24, 24, bias_attr=False) for _ in range(3))
        self.up, self.down = nn.Linear(24, 48), nn.Linear(48, 24)

    def forward(self, x):
        x = self.embed(x)
        y = x * paddle.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        q, k, v = self.q(y), self.k(y), self.v(y)
        scores = paddle.matmul(q, k, transpose_y=True) / math.sqrt(24)
        x = x + paddle.matmul(F.softmax(scores, -1), v)
        y = self.norm(x)
        return x + self.down(F.silu(self.up(y)))
"""


class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(24))
        self.norm, self.embed = torch.nn.LayerNorm(24, eps=1e-6), torch.nn.Linear(24, 24)
        self.q, self.k, self.v = (torch.nn.Linear(24, 24, bias=False) for _ in range(3))
        self.up, self.down = torch.nn.Linear(24, 48), torch.nn.Linear(48, 24)

    def forward(self, x):
        x = self.embed(x)
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        q, k, v = self.q(y), self.k(y), self.v(y)
        scores = torch.matmul(q, k.mT) / 24**0.5
        x = x + torch.matmul(torch.softmax(scores, -1), v)
        y = self.norm(x)
        return x + self.down(torch.nn.functional.silu(self.up(y)))


SCALE = "paddle.matmul(q, k, transpose_y=True) / math.sqrt(24)", "paddle.matmul(q / math.sqrt(24), k, transpose_y=True)"
SILU = (
    "        return x + self.down(F.silu(self.up(y)))",
    ("        y = self.up(y)\n        y = y * F.sigmoid(y)\n        return x + self.down(y)"),
)
NORM = (
    "        y = self.norm(x)",
    (
        "        y = x - x.mean(-1, keepdim=True)\n"
        "        y = y * paddle.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)\n"
        "        y = y * self.norm.weight + self.norm.bias"
    ),
)
ROOT = "paddle.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)", "(x.pow(2).mean(-1, keepdim=True) + 1e-6) ** -0.5"
EXCHANGED = SCALE, SILU, NORM, ROOT
INPUTS = np.random.default_rng(0).standard_normal((2, 9, 24)).astype("float32")


def port_of(folder, *exchanges):
    """A file with formulations exchanged."""
    source = PORT
    for old, new in exchanges:
        assert old in source
        source = source.replace(old, new)
    path = folder / "port.py"
    path.write_text(source)
    return path


def load(path):
    """A file as a module."""
    spec = importlib.util.spec_from_file_location(f"port_{len(sys.modules)}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def answer_of(path, inputs, **options):
    """What ``bitwise`` answers of both models in a file."""
    port = load(path)
    return padiff_shim.prove(port.Port(), port.Original(), inputs, weights="random", **options).bits()


def ask(path, **options):
    torch.manual_seed(0)
    return padiff_shim.prove(load(path).Port(), Original(), INPUTS, weights="random", **options).bits()


def line_of(path, text):
    return path.read_text().partition(text)[0].count("\n") + 1


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """A port with three formulations exchanged, what is said of it, and the same behind the changes."""
    path = port_of(tmp_path_factory.mktemp("three"), SCALE, SILU, NORM)
    lines = [line_of(path, text) for text in ("scores =", "y = y * self.norm.weight", "y = y * F.sigmoid(y)")]
    answer = ask(path)
    answer.apply()
    return lines, answer, ask(path)


def test_each_origin_is_named_at_its_line_with_its_cause(three):
    lines, answer, _ = three
    assert [origin.paddle.line for origin in answer.origins] == lines
    assert [origin.cause for origin in answer.origins] == [ROUNDING, FUSED, FUSED]
    assert not answer
    assert all(origin.ulp and origin.differs == "both" for origin in answer.origins)


def test_with_the_changes_no_bit_differs_in_memory_and_in_the_source(three):
    _, answer, behind = three
    assert answer.mended
    assert "with these 3 changes all" in answer.answer
    assert behind.identical, str(behind)
    assert behind.origins == []
    assert behind.proof.verdict is padiff_shim.ProofVerdict.CODE_CORRECT


def test_the_change_is_in_the_ports_own_names(three):
    _, answer, _ = three
    scale, norm, silu = (origin.patch for origin in answer.origins)
    assert scale.after == "        scores = paddle.matmul(q, k.transpose([0, 2, 1])) / 24 ** 0.5\n"
    assert "F.layer_norm(x, self.norm.weight.shape, self.norm.weight, self.norm.bias, epsilon=1e-06)" in norm.after
    assert silu.after == "        y = F.silu(y)\n"


def test_the_origins_explain_the_final_difference(three):
    _, answer, _ = three
    assert answer.explained == pytest.approx(sum(origin.contribution for origin in answer.origins))
    assert answer.explained >= 0.95
    rows = {row.layer: row for row in answer.travel}
    assert rows["q"].share == 0.0
    assert rows["down"].share > 0.0
    assert rows[""].origins == (1, 2, 3)


@pytest.mark.parametrize(("seed", "dtype"), sampled(in_turn([1, 2], ["float32", "bfloat16"]), 4))
def test_shares_of_any_exchanges_add_up(tmp_path, seed, dtype):
    """Some formulations drawn at random: what their origins explain is the final difference."""
    drawn = np.random.default_rng(seed).permutation(4)[:3]
    answer = ask(port_of(tmp_path, *(EXCHANGED[place] for place in sorted(drawn))), dtype=dtype)
    assert answer.origins
    assert all(origin.contribution is not None or origin.differs == "gradient" for origin in answer.origins)
    assert 0.95 <= sum(origin.contribution or 0.0 for origin in answer.origins) <= 1.05


@pytest.mark.rows(1)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_origin_is_invented_where_no_bit_differs(tmp_path, dtype):
    answer = ask(port_of(tmp_path), dtype=dtype)
    assert answer
    assert answer.origins == []
    assert answer.identical


@pytest.mark.slow
def test_gradients_alone_may_part(tmp_path):
    answer = ask(port_of(tmp_path, ROOT))
    (origin,) = answer.origins
    assert origin.differs == "gradient"
    assert answer.mended
    assert ask(port_of(tmp_path, ROOT), phase="forward").identical


def test_gradients_of_readers_in_another_order_are_mended_by_a_copy(tmp_path):
    order = "q, k, v = self.q(y), self.k(y), self.v(y)", "v, q, k = self.v(y), self.q(y), self.k(y)"
    path = port_of(tmp_path, order)
    answer = ask(path)
    (origin,) = answer.origins
    assert origin.cause == BACKWARD
    assert answer.mended, str(answer)
    assert [path] == answer.apply()
    assert ask(path).identical


def test_an_origin_without_a_change_says_so():
    """No op of Paddle's multiplies and adds with one rounding."""

    def port(self, x):
        return x + 0.3 * paddle.tanh(x)

    def fused(self, x):
        return torch.add(x, torch.tanh(x), alpha=0.3)

    Port, Fused = classes(port, fused)

    answer = padiff_shim.prove(Port(), Fused(), INPUTS).bits()
    if answer.identical:
        pytest.skip("this machine's processor has no fused multiply-add")
    (origin,) = answer.origins
    assert not origin.change
    assert origin.reason


def test_a_weight_without_axes_gets_other_numbers_as_all_do():
    """Ones and zeros hide roundings; so have contrastive models a temperature that is one number."""

    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.scale = self.create_parameter([], default_initializer=paddle.nn.initializer.Constant(1.0))

        def forward(self, x):
            return x * self.scale.exp()

    class Original(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones([]))

        def forward(self, x):
            return self.scale.exp() * x

    assert padiff_shim.prove(Port(), Original(), INPUTS).bits().identical


def test_a_wrong_port_is_proven_and_nothing_else(tmp_path):
    answer = ask(port_of(tmp_path, ("F.silu", "F.gelu")))
    assert not answer.comparable
    assert not answer.origins
    assert "gelu" in answer.answer


def test_a_proof_within_rounding_points_here(tmp_path):
    torch.manual_seed(0)
    proof = padiff_shim.prove(load(port_of(tmp_path, SCALE)).Port(), Original(), INPUTS, weights="random")
    assert "proof.bits()" in proof.following[0]


def test_a_statement_with_slices_and_lists_is_no_obstacle(tmp_path):
    path = port_of(
        tmp_path, SCALE, ("        y = self.norm(x)", "        y = paddle.concat([self.norm(x)[:, :4], self.norm(x)[:, 4:]], 1)")
    )
    assert ask(path).origins


@pytest.mark.slow
def test_a_patch_refuses_lines_that_were_changed(tmp_path):
    path = port_of(tmp_path, SCALE)
    (patch,) = ask(path).patches
    with pytest.raises(ValueError, match="no longer those"):
        patch.apply(path.read_text().replace("scores =", "score ="))


REPEATED = """
import paddle
import torch


class Port(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.k = paddle.nn.Linear(6, 6)

    def forward(self, x, q, c):
        k = self.k(x)
        k = k.unsqueeze(1).expand([5, 3, 6]).reshape([15, 6])
        k = k * c + paddle.tanh(k) * k
        return k * q


class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.k = torch.nn.Linear(6, 6)

    def forward(self, x, q, c):
        k = self.k(x)
        k = k * c + torch.tanh(k) * k
        k = k.unsqueeze(1).expand(5, 3, 6).reshape(15, 6)
        return k * q
"""


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    "written",
    [
        "k = k * c + paddle.tanh(k) * k",
        pytest.param("y = k * c\n        z = paddle.tanh(k)\n        k = y + z * k", marks=pytest.mark.slow),
    ],
)
def test_a_repetition_before_other_calls_is_named_at_its_own_line_and_moved(tmp_path, written):
    path = tmp_path / "repeated.py"
    path.write_text(REPEATED.replace("k = k * c + paddle.tanh(k) * k", written))
    rng = np.random.default_rng(0)
    inputs = tuple(rng.standard_normal(shape).astype("float32") for shape in ((5, 6), (15, 6), (6,)))
    answer = answer_of(path, inputs)
    (origin,) = answer.origins
    assert (origin.cause, origin.paddle.line) == (BACKWARD, line_of(path, "k = k.unsqueeze(1)"))
    assert answer.mended, str(answer)
    answer.apply()
    assert answer_of(path, inputs).identical


STRIDED = """
import paddle
import torch


class Port(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.head = paddle.nn.Linear(16, 24)

    def forward(self, x):
        y = paddle.tanh(x).transpose([0, 2, 1])PORT
        return self.head(y)


class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(16, 24)

    def forward(self, x):
        y = torch.tanh(x).permute(0, 2, 1)ORIGINAL
        return self.head(y)
"""


@pytest.mark.parametrize("dense", [("", ".contiguous()"), (".contiguous()", "")])
def test_the_line_that_lays_out_an_operand_is_named_and_mended(tmp_path, dense):
    """A Linear layer of Torch's is one kernel for a dense operand, and a product and a sum for another."""
    path = tmp_path / "strided.py"
    path.write_text(STRIDED.replace("PORT", dense[0]).replace("ORIGINAL", dense[1]))
    inputs = np.random.default_rng(0).standard_normal((5, 16, 32)).astype("float32")
    answer = answer_of(path, inputs, dtype="bfloat16")
    (origin,) = answer.origins
    assert (origin.cause, origin.paddle.line) == (LAYOUT, line_of(path, "y = paddle.tanh"))
    answer.apply()
    assert answer_of(path, inputs, dtype="bfloat16").identical


@pytest.mark.rows(1)
@pytest.mark.parametrize(
    "written",
    [
        "k = k * c + paddle.tanh(k) * k\n        REPEAT",
        pytest.param("y = k * c\n        z = paddle.tanh(k)\n        k = y + z * k\n        REPEAT", marks=pytest.mark.slow),
        "k = (k * c + paddle.tanh(k) * k).unsqueeze(1).expand([5, 3, 6]).reshape([15, 6])",
    ],
)
def test_a_repetition_behind_other_calls_is_moved_before_them(tmp_path, written):
    repeat = "k = k.unsqueeze(1).expand([5, 3, 6]).reshape([15, 6])"
    source = REPEATED.replace(f"{repeat}\n        k = k * c + paddle.tanh(k) * k", written.replace("REPEAT", repeat))
    again = "k = k.unsqueeze(1).expand(5, 3, 6).reshape(15, 6)", "k = k * c + torch.tanh(k) * k"
    path = tmp_path / "repeated.py"
    path.write_text(source.replace("\n        ".join(reversed(again)), "\n        ".join(again)))
    rng = np.random.default_rng(0)
    inputs = tuple(rng.standard_normal(shape).astype("float32") for shape in ((5, 6), (15, 6), (6,)))
    answer = answer_of(path, inputs)
    (origin,) = answer.origins
    assert (origin.cause, origin.paddle.line) == (BACKWARD, line_of(path, ".unsqueeze(1)"))
    assert answer.mended, str(answer)
    answer.apply()
    assert answer_of(path, inputs).identical


@pytest.mark.slow
def test_a_repetition_and_a_division_are_mended_by_one_change(tmp_path):
    """The repeated keys have no counterpart, so the division and the repetition are one group of calls."""
    source = REPEATED.replace("return k * q", "return k * (1 / 3) * q", 1).replace("return k * q\n", "return k / 3 * q\n")
    path = tmp_path / "two.py"
    path.write_text(source)
    rng = np.random.default_rng(0)
    inputs = tuple(rng.standard_normal(shape).astype("float32") for shape in ((5, 6), (15, 6), (6,)))
    answer = answer_of(path, inputs)
    assert answer.mended, str(answer)
    (origin,) = answer.origins
    assert origin.paddle.line == line_of(path, "return k * (1 / 3)")
    answer.apply()
    assert answer_of(path, inputs).identical


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_end_as_they_did(end, tmp_path):
    file = tmp_path / "port.py"
    file.write_bytes(end.join(["a = 1", "b = 2", "c = 3", ""]).encode())
    patch = Patch(str(file), 2, 2, "b = 2\n", "d = 4\nb = d\n")
    origin = BitOrigin(ROUNDING, "b", "", None, None, ("",), "both", 1.0, 1.0, patch=patch)
    assert Bitwise(None, origins=[origin]).apply() == [file]
    assert file.read_bytes() == end.join(["a = 1", "d = 4", "b = d", "c = 3", ""]).encode()
