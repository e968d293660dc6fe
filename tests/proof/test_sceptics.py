"""Right ports that are written otherwise, and wrong ones, as a sceptical user would try them."""

import collections

import numpy as np
import paddle
import pytest
import torch
from helpers import numbers, pair

from padiff_shim import ProofVerdict, prove
from padiff_shim.proof.findings import Cause
from padiff_shim.proof.programs import Inputs

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]


def test_a_real_part_that_no_call_of_torchs_made():
    """Two transforms along one axis each against one along both."""

    def port(self, x):
        return paddle.fft.fft2(self.a(x)).real()

    def original(self, x):
        return torch.fft.fft(torch.fft.fft(self.a(x), dim=-1), dim=-2).real

    assert prove(*pair(port, original, a=("Linear", 8, 8)), numbers(2, 4, 8))


@pytest.mark.parametrize("wrong", [False, True])
def test_complex_outputs_in_another_rounding(wrong):
    def port(self, x):
        spectrum = paddle.fft.fft2(self.a(x)) * 0.1
        return paddle.conj(spectrum) if wrong else spectrum

    def original(self, x):
        return torch.fft.fft(torch.fft.fft(self.a(x) / 10, dim=-1), dim=-2)

    proof = prove(*pair(port, original, a=("Linear", 8, 8)), numbers(2, 4, 8), phase="forward")
    assert bool(proof) is not wrong


def test_outputs_with_nan_in_another_rounding():
    def port(self, x):
        return paddle.log(self.a(x)) / paddle.sqrt((x * x).mean(-1, keepdim=True))

    def original(self, x):
        return torch.log(self.a(x)) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True))

    models = pair(port, original, a=("Linear", 4, 4))
    assert np.isnan(models[1](torch.tensor(numbers(5, 4))).detach().numpy()).any()
    assert prove(*models, numbers(5, 4))


def test_a_state_that_the_port_makes_of_zeros():
    """``paddle.zeros`` has the default dtype, also in the float64 run."""

    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.cell = paddle.nn.GRUCell(4, 5)

        def forward(self, x):
            state, outputs = paddle.zeros([x.shape[0], 5]), []
            for place in range(x.shape[1]):
                _, state = self.cell(x[:, place], state)
                outputs.append(state)
            return paddle.stack(outputs, 1)

    class Original(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.GRU(4, 5, batch_first=True)

        def forward(self, x):
            return self.layer(x)[0]

    held = paddle.get_default_dtype(), torch.get_default_dtype()
    assert prove(Port(), Original(), numbers(3, 6, 4))
    assert (paddle.get_default_dtype(), torch.get_default_dtype()) == held


@pytest.mark.parametrize("columns", [3, 4])
def test_parts_that_are_written(columns):
    def port(self, x):
        h = self.a(x)
        h[:, 0] = h[:, 0] + 1.0
        h[:, 1:columns] = h[:, 1:columns] * 2.0
        return h

    def original(self, x):
        h = self.a(x).clone()
        h[:, 0] += 1.0
        h[:, 1:3] = h[:, 1:3] * 2.0
        return h

    assert bool(prove(*pair(port, original, a=("Linear", 6, 6)), numbers(3, 6))) is (columns == 3)


def test_a_named_tuple_and_a_dict_by_their_names():
    Outputs = collections.namedtuple("Outputs", "one other")

    def port(self, x):
        return {"other": self.b(x), "one": self.a(x)}

    def original(self, x):
        return Outputs(self.a(x), self.b(x))

    models = pair(port, original, a=("Linear", 4, 4), b=("Linear", 4, 4))
    assert prove(*models, numbers(4, 4)).verdict is ProofVerdict.CODE_CORRECT


def test_tied_weights_in_two_forms():
    """A head that is the embedding's weight, as a layer and as a function."""

    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.embedding = paddle.nn.Embedding(11, 8)

        def forward(self, ids, mask):
            h = self.embedding(ids)
            h = paddle.where(mask.unsqueeze(-1), h, paddle.zeros_like(h))
            return paddle.matmul(h, self.embedding.weight, transpose_y=True)

    class Original(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = torch.nn.Embedding(11, 8), torch.nn.Linear(8, 11, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, ids, mask):
            return self.head(self.embedding(ids).masked_fill(~mask[..., None], 0.0))

    ids, mask = np.random.default_rng(0).integers(0, 11, (2, 6)), np.ones((2, 6), bool)
    mask[1, 4:] = False
    assert prove(Port(), Original(), {"ids": ids, "mask": mask})


def test_heads_in_a_loop_with_a_mask_of_large_numbers():
    """Against the fused attention; one diagonal too far is found."""

    def attention(diagonal):
        class Port(paddle.nn.Layer):
            def __init__(self):
                super().__init__()
                self.q, self.k, self.v = (paddle.nn.Linear(8, 8, bias_attr=False) for _ in range(3))

            def forward(self, x):
                q, k, v = (paddle.split(layer(x), 2, axis=-1) for layer in (self.q, self.k, self.v))
                mask = paddle.triu(paddle.full([x.shape[1], x.shape[1]], -1e30), diagonal)
                heads = []
                for queries, other, values in zip(q, k, v):
                    scores = paddle.matmul(queries / 2.0, other, transpose_y=True) + mask
                    heads.append(paddle.matmul(paddle.nn.functional.softmax(scores), values))
                return paddle.concat(heads, -1)

        return Port()

    class Original(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = torch.nn.Linear(8, 24, bias=False)

        def forward(self, x):
            q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)

    assert prove(attention(1), Original(), numbers(2, 5, 8))
    assert prove(attention(2), Original(), numbers(2, 5, 8)).verdict is ProofVerdict.CODE_DIFFERS


def test_a_factor_of_one_unit_roundoff():
    """1e-7 too much, and a right port in the same words."""
    inputs = numbers(4, 6)
    for factor, right in ((0.70710678, True), (0.70710685, False)):
        models = pair(lambda self, x, factor=factor: self.a(x) * factor, lambda self, x: self.a(x) * 0.70710678, a=("Linear", 6, 6))
        assert bool(prove(*models, inputs)) is right


def test_arrays_have_the_dtype_of_a_model_in_half_precision():
    for dtype in ("bfloat16", "float16"):
        for framework in ("torch", "paddle"):
            (tensor,), _ = Inputs(numbers(2, 3)).of(framework, dtype)
            assert str(tensor.dtype).endswith(dtype)
            (tensor,), _ = Inputs(tensor).of(framework, "float32")
            assert str(tensor.dtype).endswith(dtype)


@pytest.mark.parametrize("last", ["adaptive_avg_pool2d", "log_softmax"])
def test_an_op_that_is_missing_behind_an_in_place_sum(last):
    """What the last op reads was written by ``add_``: a call's result, and no constant."""

    def port(self, x):
        y = self.b(paddle.nn.functional.relu(self.a(x)))
        y.add_(x)
        return getattr(paddle.nn.functional, last)(y, 2)

    def original(self, x):
        y = self.b(torch.relu(self.a(x)))
        y.add_(x)
        return getattr(torch.nn.functional, last)(torch.relu(y), 2)

    proof = prove(*pair(port, original, a=("Linear", 8, 8), b=("Linear", 8, 8)), numbers(2, 3, 8, 8), phase="forward")
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert (proof.mistakes[0].cause, proof.mistakes[0].torch.call) == (Cause.MISSING, "relu"), str(proof)


def test_indices_beside_a_result_get_no_gradient():
    """Paddle tracks those of ``topk``, and a gradient that is sent into them ends the process."""

    def port(self, x):
        h = self.a(x)
        return h, paddle.topk(h, 2)[1]

    def original(self, x):
        h = self.a(x)
        return h, torch.topk(h, 2).indices

    proof = prove(*pair(port, original, a=("Linear", 4, 6)), numbers(3, 4))
    assert proof, str(proof)


def test_rows_that_a_list_exchanges():
    def port(self, x, rows):
        h = self.a(x).reshape([2, 3, 2, 2]).transpose([0, 2, 1, 3])
        table = self.e(rows).transpose([2, 0, 1]).unsqueeze(0)[:, [1, 0]]
        return paddle.nn.functional.softmax(h @ h.mT + table) @ h

    def original(self, x, rows):
        h = self.a(x).reshape(2, 3, 2, 2).transpose(1, 2)
        return (h @ h.mT + self.e(rows).permute(2, 0, 1)[None]).softmax(-1) @ h

    models = pair(port, original, e=("Embedding", 9, 2), a=("Linear", 4, 4))
    (mistake,) = prove(*models, (numbers(2, 3, 4), np.random.default_rng(0).integers(0, 9, (3, 3)))).mistakes
    first = port.__code__.co_firstlineno
    assert first < mistake.paddle.line <= first + 3, mistake


def test_a_slice_of_a_whole_table_is_no_call():
    """The original takes the last rows of a table that it keeps: all of them."""

    def port(self, x):
        q = self.a(x).reshape([2, 7, 3, 2]).transpose([0, 2, 1, 3])
        steps = paddle.arange(7)
        table = (steps.unsqueeze(0) - steps.unsqueeze(1)).abs().astype(x.dtype) * paddle.to_tensor([[[0.1]], [[0.4]], [[0.2]]])
        return paddle.nn.functional.softmax(q @ q.mT + table.unsqueeze(0), axis=-1) @ q

    def original(self, x):
        q, steps = self.a(x).reshape(2, 7, 3, 2).transpose(1, 2), torch.arange(7)
        if not hasattr(self, "table"):
            table = -(steps[None, None] - steps[None, :, None]).abs() * torch.tensor([[[0.1]], [[0.4]], [[0.2]]])
            self.register_buffer("table", table, persistent=False)
            return (q @ q.mT + table).softmax(-1) @ q
        return (q @ q.mT + self.table[..., -7:, -7:]).softmax(-1) @ q

    proof = prove(*pair(port, original, a=("Linear", 6, 6)), numbers(2, 7, 6))
    assert proof.mistakes, str(proof)
    assert not any(mistake.torch and mistake.torch.call == "slice" for mistake in proof.mistakes), str(proof)


def test_a_sum_that_the_table_of_ops_has_no_word_for_is_written_or_left_out():
    """The missing branch reads what the original adds with ``stack(...).sum(0)``, and a dropout reads both branches."""

    def port(self, x):
        x = paddle.tanh(self.a(x)) + paddle.tanh(self.b(x))
        return paddle.nn.functional.dropout2d(x * paddle.nn.functional.sigmoid(self.s(x)), p=0.2, training=self.training)

    def original(self, x):
        x = torch.stack([torch.tanh(self.a(x)), torch.tanh(self.b(x))]).sum(0)
        c = torch.sigmoid(self.c(x.mean((2, 3), keepdim=True)))
        return torch.nn.functional.dropout2d(x * c + x * torch.sigmoid(self.s(x)), 0.2)

    models = pair(port, original, a=("Linear", 6, 6), b=("Linear", 6, 6), c=("Linear", 1, 6), s=("Linear", 6, 1))
    proof = prove(*models, numbers(2, 4, 5, 6))
    assert proof.mistakes, str(proof)


def test_what_a_layer_is_called_with_is_wrong_where_it_is_called():
    """And not where the layer is made."""

    def port(self, x):
        steps = paddle.arange(5)
        distances = steps.unsqueeze(0) - steps.unsqueeze(1)
        return self.a(x) + self.e(paddle.clip(distances, -3, 3) + 3).sum(1)

    def original(self, x):
        steps = torch.arange(5)
        distances = steps[:, None] - steps[None]
        return self.a(x) + self.e(distances.clamp(-3, 3) + 3).sum(1)

    proof = prove(*pair(port, original, a=("Linear", 4, 4), e=("Embedding", 7, 4)), numbers(5, 4))
    (mistake,) = proof.mistakes
    assert (mistake.paddle.line, mistake.fix) == (port.__code__.co_firstlineno + 3, None), str(proof)


def test_an_argument_is_written_at_the_line_of_its_call():
    def embedded(t):
        a = t.unsqueeze(1).astype("float32") * paddle.exp(paddle.arange(4, dtype="float32") * -0.7).unsqueeze(0)
        return paddle.stack([a.sin(), a.cos()], axis=-1).flatten(1)

    def port(self, t):
        return self.a(embedded(t))

    def original(self, t):
        a = t[:, None] * torch.exp(torch.arange(4) * -0.7)[None]
        return self.a(torch.cat((a.sin(), a.cos()), dim=-1))

    proof = prove(*pair(port, original, a=("Linear", 8, 16)), np.array([3, 250, 17]))
    (mistake,) = proof.mistakes
    assert mistake.paddle.line == embedded.__code__.co_firstlineno + 2, str(proof)
