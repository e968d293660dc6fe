"""What a factorisation leaves free (an order, signs, phases, a basis) is no difference; everything else of it is one."""

from itertools import permutations

import numpy as np
import paddle
import pytest
import torch
from padiff_shim.patches import _aligned

import padiff_shim
from padiff_shim.catalogue.registry import ops
from padiff_shim.verdicts import Side, Verdict

INNOCENT = (Verdict.EQUAL, Verdict.ROUNDING)
DTYPES = [torch.float64, torch.complex128]


def matrix(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def phases(*shape, dtype, seed=1):
    return torch.sgn(matrix(*shape, dtype=dtype, seed=seed))


def rotation(size, dtype):
    return torch.linalg.qr(matrix(size, size, dtype=dtype, seed=2)).Q


def reordered(x):
    values, vectors = torch.linalg.eig(x)
    order = torch.randperm(x.shape[-1], generator=torch.Generator().manual_seed(3))
    turned = vectors[..., order] * phases(x.shape[-1], dtype=vectors.dtype)
    return (values, vectors), (values[..., order], turned), lambda w, v: v * w.unsqueeze(-2) - x.to(v.dtype) @ v


def eigenvectors(x):
    x = x + x.mT.conj()
    values, vectors = torch.linalg.eigh(x)
    return (values, vectors), (values, vectors * phases(x.shape[-1], dtype=x.dtype)), lambda w, v: v * w.unsqueeze(-2) - x @ v


def singular(x):
    u, s, vh = torch.linalg.svd(x, full_matrices=True)
    count, turns = s.shape[-1], phases(s.shape[-1], dtype=x.dtype)
    left = torch.cat([u[..., :count] * turns, u[..., count:] @ rotation(u.shape[-1] - count, x.dtype)], -1)
    right = torch.cat(
        [turns.conj().unsqueeze(-1) * vh[..., :count, :], rotation(vh.shape[-1] - count, x.dtype) @ vh[..., count:, :]], -2
    )
    return (u, s, vh), (left, s, right), lambda u, s, vh: (u[..., :count] * s.unsqueeze(-2)) @ vh[..., :count, :] - x


def triangular(x):
    q, r = torch.linalg.qr(x, mode="complete")
    count = min(x.shape[-2:])
    turns = phases(count, dtype=x.dtype)
    other = torch.cat([q[..., :count] * turns, q[..., count:] @ rotation(q.shape[-1] - count, x.dtype)], -1)
    rows = torch.cat([turns.conj().unsqueeze(-1) * r[..., :count, :], r[..., count:, :]], -2)
    return (q, r), (other, rows), lambda q, r: q @ r - x


# By function: what makes (results, others of the same matrix, what is 0 of both), and shapes.
FORMS = {
    "eigenpairs": (reordered, [(5, 5), (2, 3, 4, 4)]),
    "eigenvectors": (eigenvectors, [(5, 5), (2, 3, 4, 4)]),
    "singular": (singular, [(5, 3), (3, 5), (2, 4, 4)]),
    "triangular": (triangular, [(5, 3), (3, 5), (2, 4, 4)]),
}
CASES = [pytest.param(name, shape, id=f"{name} {shape}") for name, (_, shapes) in FORMS.items() for shape in shapes]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "shape"), CASES)
def test_other_results_of_one_matrix_are_brought_together(name, shape, dtype):
    results, others, nothing = FORMS[name][0](matrix(*shape, dtype=dtype))
    torch.testing.assert_close(nothing(*others), torch.zeros_like(nothing(*others)))  # they are results as well
    aligned = getattr(_aligned, name)(results, others)
    for own, other in zip(aligned, others):
        torch.testing.assert_close(own, other)


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_of_no_singular_value_are_any_of_their_space(dtype):
    """Of matrices of several ranks: on either side by themselves."""
    x = matrix(3, 5, 4, dtype=dtype)
    x[1, :, 1:] = x[1, :, :1]
    x[2] = 0.0
    (u, s, vh), (left, _, right), nothing = singular(x)
    for place, rank in ((1, 1), (2, 0)):
        left[place, :, rank:4] = left[place, :, rank:4] @ rotation(4 - rank, dtype)
        right[place, rank:] = -right[place, rank:]
    aligned = _aligned.singular((u, s, vh), (left, s, right))
    torch.testing.assert_close(nothing(left, s, right), torch.zeros_like(x))
    for own, other in zip(aligned, (left, s, right)):
        torch.testing.assert_close(own, other)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "shape"), CASES)
def test_what_is_brought_together_is_still_a_result(name, shape, dtype):
    """Also where the others are none: nothing of them is taken over."""
    results, others, nothing = FORMS[name][0](matrix(*shape, dtype=dtype))
    wrong = [other + matrix(*other.shape, dtype=dtype, seed=4).to(other.dtype) for other in others]
    rest = nothing(*getattr(_aligned, name)(results, wrong))
    torch.testing.assert_close(rest, torch.zeros_like(rest))


@pytest.mark.parametrize("others", [torch.nan, torch.inf])
@pytest.mark.parametrize(("name", "shape"), CASES)
def test_others_without_numbers_change_nothing_but_places(name, shape, others):
    results, like, nothing = FORMS[name][0](matrix(*shape))
    rest = nothing(*getattr(_aligned, name)(results, [torch.full_like(result, others) for result in like]))
    torch.testing.assert_close(rest, torch.zeros_like(rest))


@pytest.mark.parametrize("size", [1, 2, 3, 8, 40])
def test_the_order_is_the_one_with_the_least_distances(size):
    """Against all orders of few values; of many, against the order that they come from."""
    values = matrix(2, size, dtype=torch.complex128)
    order = np.stack([np.random.default_rng(row).permutation(size) for row in range(2)])
    mixed = values.gather(-1, torch.from_numpy(order))
    torch.testing.assert_close(_aligned.eigenvalues([values], [mixed + 1e-9])[0], mixed, rtol=0, atol=0)
    if size <= 3:
        far = matrix(2, size, dtype=torch.complex128, seed=5)
        ordered = _aligned.eigenvalues([values], [far])[0]
        least = [min(float((row[list(p)] - to).abs().sum()) for p in permutations(range(size))) for row, to in zip(values, far)]
        np.testing.assert_allclose((ordered - far).abs().sum(-1).numpy(), least)


# --- in a comparison ------------------------------------------------------------------------------------------------------


def tensor(*shape, dtype="float64", seed=0, grad=True, symmetric=False):
    values = np.random.default_rng(seed).uniform(-2, 2, shape)
    leaf = paddle.to_tensor((values + np.swapaxes(values, -1, -2) if symmetric else values).astype(dtype))
    leaf.stop_gradient = not grad
    return leaf


def test_eigenvalues_in_another_order_are_no_difference():
    verdicts = set()
    for seed in range(40):
        x = paddle.to_tensor(np.random.default_rng(seed).uniform(-2, 2, (4, 4)) + 5 * np.eye(4))
        with padiff_shim.compare("torch", progress=False) as run:
            paddle.linalg.eigvals(x)
        verdicts |= {call.verdict for call in run.calls}
    assert verdicts <= set(INNOCENT)


CALLS = {
    "eigvals": lambda: paddle.linalg.eigvals(tensor(5, 5)),
    "eig": lambda: paddle.linalg.eig(tensor(5, 5, grad=False)),
    "eigh": lambda: paddle.linalg.eigh(tensor(5, 5, symmetric=True)),
    "svd": lambda: paddle.linalg.svd(tensor(5, 3)),
    "qr": lambda: paddle.linalg.qr(tensor(5, 3)),
}


def test_every_op_whose_results_are_free_in_part_is_tried():
    assert set(CALLS) == {name for name, op in ops().items() if op.aligned is not None}


@pytest.mark.rows(5)
@pytest.mark.parametrize("side", ["paddle", "torch"])
@pytest.mark.parametrize("op", CALLS)
def test_a_fault_is_found_and_its_side_named(op, side):
    def change(out, *_):
        changed = out.clone()
        changed.view(-1)[0] *= 1.001
        return changed

    with padiff_shim.testing.planted(op, change, side=side), padiff_shim.compare("torch") as run:
        CALLS[op]()
    worst = run.calls[0]
    assert worst.verdict.severity > Verdict.UNVERIFIED.severity, str(worst)
    assert worst.side is Side(side), str(worst)


@pytest.mark.parametrize("side", ["paddle", "torch"])
@pytest.mark.parametrize("op", ["svd", "qr"])
def test_a_sign_of_one_factor_alone_is_found(op, side):
    """Both factors change their signs, or none."""

    def change(out, *_):
        changed = out.clone()
        changed[..., 0] *= -1
        return changed

    with padiff_shim.testing.planted(op, change, side=side), padiff_shim.compare("torch") as run:
        CALLS[op]()
    accused = [record for record in run.calls if record.verdict not in INNOCENT]
    assert accused, [str(record) for record in run.calls]


LOSSES = {
    "eigh": lambda x: (paddle.linalg.eigh(x + x.transpose([1, 0]))[1] ** 3).sum(),
    "svd": lambda x: sum((factor**3).sum() for factor in paddle.linalg.svd(x)),
    "qr": lambda x: sum((factor**3).sum() for factor in paddle.linalg.qr(x)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", LOSSES)
def test_gradients_of_what_is_free_are_compared(op, dtype):
    x = tensor(4, 4, dtype=dtype)
    with padiff_shim.compare("torch") as run:
        LOSSES[op](x).backward()
    judged = run.calls.filter(op=op, phase="backward")
    assert judged, [str(record) for record in run.calls]
    assert {record.verdict for record in judged} <= set(INNOCENT), [str(record) for record in judged]
