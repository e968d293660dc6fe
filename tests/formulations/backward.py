"""Accumulation in the backward: by which ways, and in which order, a gradient comes back."""

from __future__ import annotations

from padiff_shim.proof.bits.formulation import BACKWARD, FORWARD, GRADIENT
from padiff_shim.table.samples import Bools, Ints, Sample

from .declared import Declared, declaring

declare = declaring(BACKWARD)

FORMULATIONS: tuple[Declared, ...] = (
    declare(
        "three readers of a tensor",
        "x u v w",
        "x * u, x * v, x * w",
        "y = x.clone()\ny * u, y * v, x * w",
        differs={"float32": GRADIENT, "bfloat16": GRADIENT},
    ).because(
        "the copy's two gradients are added first: (b + c) + a in place of (a + b) + c",
        "PaddleFleet against Megatron-LM: three clones of a tensor",
    ),
    declare(
        "order of three readers",
        "x u v w",
        "a = x * u\nb = x * v\nc = x * w\na, b, c",
        "c = x * w\nb = x * v\na = x * u\na, b, c",
        differs={"float32": GRADIENT, "bfloat16": GRADIENT},
    ).because("a gradient of several readers is added up from the last call to the first", "PaddleFleet against Megatron-LM"),
    declare(
        "residual read from the norm's side",
        "x w u v",
        "h = F.layer_norm(x, w.shape, w)\nx + h * u + h * v",
        "h = F.layer_norm(x, w.shape, w)\nx + h * (u + v)",
        samples=(Sample((33, 57), (57,), (33, 57), (33, 57)), Sample((5, 7), (7,), (5, 7), (5, 7))),
    ).because("two gradients are added and rounded before the norm's backward, or the factors are", "parallel blocks of Falcon"),
    declare(
        "scatter-add or gather and sum",
        "y r",
        "y[paddle.argsort(r)].reshape([-1, 4, y.shape[-1]]).sum(1)",
        (
            "t = paddle.argsort(paddle.argsort(r)) // 4\n"
            "paddle.scatter_nd_add(paddle.zeros([y.shape[0] // 4, y.shape[1]], y.dtype), t.unsqueeze(-1), y)",
            "t = torch.argsort(torch.argsort(r)) // 4\n"
            "torch.index_put(torch.zeros(y.shape[0] // 4, y.shape[1], dtype=y.dtype), [t], y, accumulate=True)",
        ),
        "t = paddle.argsort(paddle.argsort(r)) // 4\n"
        "paddle.index_add(paddle.zeros([y.shape[0] // 4, y.shape[1]], y.dtype), t, 0, y)",
        samples=(Sample((132, 57), Ints((132,), 0, 2**31)), Sample((20, 7), Ints((20,), 0, 2**31))),
        differs={"bfloat16": FORWARD},
        may_differ={"float32": FORWARD},
    ).because(
        "additions to one row come in the rows' order and may be rounded to 16 bits one by one; a sum keeps float32",
        "PaddleFormers nn/moe/moe_alltoall_layer.py; TransformerEngine #1336",
    ),
    declare(
        "rows added at indices",
        "x t y",
        ("paddle.scatter_nd_add(x, t.unsqueeze(-1), y)", "torch.index_put(x, [t], y, accumulate=True)"),
        "paddle.index_add(x, t, 0, y)",
        (
            "paddle.put_along_axis(x, t.unsqueeze(-1).expand(y.shape), y, 0, reduce='add', broadcast=False)",
            "torch.scatter_add(x, 0, t.unsqueeze(-1).expand(y.shape), y)",
        ),
        samples=(Sample((33, 57), Ints((132,), 0, 33), (132, 57)), Sample((5, 7), Ints((20,), 0, 5), (20, 7))),
        differs={"bfloat16": FORWARD},
    ).because(
        "additions to one row are rounded to 16 bits one by one, or kept in float32",
        "PaddleFormers nn/moe/moe_alltoall_layer.py and nn/moe_deepep/moe_communication.py; TransformerEngine #1336",
    ),
    declare(
        "experts added up one after another",
        "y",
        "y.sum(0)",
        "out = paddle.zeros_like(y[0])\n"
        "i = paddle.arange(y.shape[1])\n"
        "for e in range(4):\n"
        "    out = paddle.index_add(out, i, 0, y[e])\n"
        "out",
        'out = paddle.zeros_like(y[0], dtype="float32")\n'
        "for e in range(4):\n"
        '    out = out + y[e].astype("float32")\n'
        "out.astype(y.dtype)",
        samples=(Sample((4, 33, 57)), Sample((4, 5, 7))),
        differs={"bfloat16": FORWARD},
    ).because(
        "each addition is rounded to 16 bits, or all are added in float32",
        "transformers models/mixtral; PaddleFormers nn/experts.py; Megatron-LM #6458",
    ),
    declare(
        "rows taken several times",
        "x i",
        "paddle.index_select(x, i, 0)",
        "x[i]",
        "F.embedding(i, x)",
        ("paddle.gather(x, i)", "torch.index_select(x, 0, i)"),
        samples=(Sample((8, 57), Ints((132,), 0, 8)), Sample((3, 7), Ints((20,), 0, 3))),
        differs={"bfloat16": GRADIENT},
    ).because("the gradients of one row are added up in 16 bits one by one, or in float32", "embedding against indexing in ports"),
    declare(
        "rows by a product with one-hot rows",
        "x i",
        "F.embedding(i, x)",
        "paddle.matmul(F.one_hot(i, x.shape[0]).astype(x.dtype), x)",
        samples=(Sample((8, 57), Ints((132,), 0, 8)), Sample((3, 7), Ints((20,), 0, 3))),
        differs={"bfloat16": GRADIENT},
    ).because(
        "a product adds up the gradients of one row in float32, an embedding in 16 bits", "vocab-parallel embeddings of JAX ports"
    ),
    declare(
        "take_along_axis or gather_nd",
        "x i",
        (
            "paddle.take_along_axis(x, i.unsqueeze(-1).expand([i.shape[0], x.shape[1]]), 0, broadcast=False)",
            "torch.gather(x, 0, i.unsqueeze(-1).expand(-1, x.shape[1]))",
        ),
        ("paddle.gather_nd(x, i.unsqueeze(-1))", "x[i]"),
        "paddle.index_select(x, i, 0)",
        samples=(Sample((8, 57), Ints((132,), 0, 8)), Sample((3, 7), Ints((20,), 0, 3))),
        differs={"bfloat16": GRADIENT},
    ).because(
        "the backward of one is a scatter-add in 16 bits, of the other an indexed addition in float32",
        "PaddleFormers nn/moe_deepep/moe_gate.py",
    ),
    declare(
        "repeated key heads",
        "k",
        "b, h, s, d = k.shape\nk.unsqueeze(2).expand([b, h, 4, s, d]).reshape([b, 4 * h, s, d])",
        "paddle.repeat_interleave(k, 4, 1)",
        "b, h, s, d = k.shape\npaddle.stack([k] * 4, 2).reshape([b, 4 * h, s, d])",
        samples=(Sample((2, 3, 33, 24)), Sample((1, 2, 5, 8))),
        differs={"bfloat16": GRADIENT},
    ).because(
        "a sum over the copies keeps float32, several readers are added in 16 bits one by one",
        "PaddleFormers nn/attention/utils.py (repeat_kv)",
    ),
    declare(
        "key heads repeated before or behind the rotation",
        "k c s",
        "a, b = k.chunk(2, -1)\npaddle.concat([k * c + paddle.concat([-b, a], -1) * s] * 4, 0)",
        "k = paddle.concat([k] * 4, 0)\na, b = k.chunk(2, -1)\nk * c + paddle.concat([-b, a], -1) * s",
        samples=(Sample((3, 33, 24), (33, 24), (33, 24)), Sample((2, 5, 8), (5, 8), (5, 8))),
        differs={"float32": GRADIENT, "bfloat16": GRADIENT},
    ).because(
        "gradients of the copies are added before the rotation's backward or behind it",
        "PaddleFormers transformers/deepseek_v3/modeling.py:716",
    ),
    declare(
        "branch computed again",
        "x w u v",
        "h = F.silu(paddle.matmul(x, w))\nh * u, h * v",
        "F.silu(paddle.matmul(x, w)) * u, F.silu(paddle.matmul(x, w)) * v",
        samples=(Sample((33, 80), (80, 57), (33, 57), (33, 57)), Sample((5, 8), (8, 7), (5, 7), (5, 7))),
        differs={"float32": GRADIENT, "bfloat16": GRADIENT},
    ).because(
        "the branch's backward runs once on the sum of two gradients, or twice",
        "an auxiliary loss that is computed again: PaddleFleet against Megatron-LM",
    ),
    declare("sum of products with one operand", "x u v", "x * u + x * v", "x * (u + v)").because(
        "a sum is rounded before the product, or two products before the sum",
        "attention with two position terms (DeBERTa, Transformer-XL)",
    ),
    declare(
        "broadcast scale, stacked",
        "x w",
        "x * w",
        "x * paddle.stack([w] * x.shape[0])",
        samples=(Sample((33, 57), (57,)), Sample((5, 7), (7,))),
        differs={"bfloat16": GRADIENT},
        may_differ={"float32": GRADIENT},
    ).because("a reduction keeps float32, readers of a tensor are added one by one", "repeated parameters in scanned layers"),
    declare(
        "masked product or choice",
        "x m",
        "paddle.where(m, x, paddle.zeros_like(x))",
        "x * m.astype(x.dtype)",
        samples=(Sample((33, 57), Bools((33, 57))), Sample((5, 7), Bools((5, 7)))),
    ).because("a product with zero keeps the sign of what is masked: 0.0 and -0.0", "loss masks in PaddleFormers nn/criterion"),
    declare(
        "losses added up in another order",
        "x u v w",
        "(x * u).mean() + (x * v).mean() + (x * w).mean()",
        "(x * w).mean() + ((x * v).mean() + (x * u).mean())",
        differs={"float32": GRADIENT, "bfloat16": GRADIENT},
    ).because(
        "the gradients of three readers are added in another order",
        "auxiliary losses of a router: PaddleFormers nn/moe_deepep/moe_loss.py",
    ),
)
