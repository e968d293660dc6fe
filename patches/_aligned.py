"""Results of factorisations, brought to the free choices of other results: the order of eigenvalues, signs and phases of vectors.

For ``op(aligned=...)``: each function takes the results of the op's formula and others of the same call, and gives the former as
near to the latter as the op's meaning allows. What it does to them is an index, a sign or a rotation: gradients pass through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

Results = Sequence[Any]


def eigenvalues(results: Results, like: Results) -> tuple[Any, ...]:
    """``eigvals``: in the order of the others."""
    return (_ordered(results[0], _order(results[0], like[0])),)


def eigenpairs(results: Results, like: Results) -> tuple[Any, ...]:
    """``eig``: values and their vectors in the order of the others, vectors with their phases."""
    order = _order(results[0], like[0])
    vectors = _ordered(results[1], order)
    return _ordered(results[0], order), vectors * _phases(vectors, like[1])


def eigenvectors(results: Results, like: Results) -> tuple[Any, ...]:
    """``eigh``, whose values ascend: vectors with the phases of the others."""
    return results[0], results[1] * _phases(results[1], like[1])


def singular(results: Results, like: Results) -> tuple[Any, ...]:
    """``svd``: a left vector and its right one have one phase; those of no singular value, or of 0, are any of their space."""
    u, s, vh = results
    # Of each matrix the number of singular values that are more than rounding in ``dtype``
    ranks = (s > torch.finfo(like[1].dtype).eps * max(u.shape[-2], vh.shape[-1]) * s[..., :1]).sum(-1)
    if (ranks != ranks.flatten()[:1]).any():
        parts = [singular(*pair) for pair in zip(zip(*results), zip(*like))]
        return tuple(map(torch.stack, zip(*parts)))
    count = int(ranks.flatten()[0]) if ranks.numel() else 0
    left, right = _products(u, like[0])[..., :count], _products(vh.mT.conj(), like[2].mT.conj())[..., :count]
    phases = _unit(left + right).unsqueeze(-2)
    u = torch.cat([u[..., :count] * phases, _turned(u[..., count:], like[0][..., count:])], -1)
    rows = _turned(vh[..., count:, :].mT, like[2][..., count:, :].mT).mT
    return u, s, torch.cat([vh[..., :count, :] * phases.mT.conj(), rows], -2)


def triangular(results: Results, like: Results) -> tuple[Any, ...]:
    """``qr``: a column and the row of the triangle that goes with it have one phase; further columns are any of their space."""
    q, r = results
    if not q.numel():
        return q, r * _unit((r.conj() * like[1]).sum(-1, keepdim=True))
    count = min(q.shape[-2], r.shape[-1])
    phases = _unit(_products(q, like[0])[..., :count]).unsqueeze(-2)
    q = torch.cat([q[..., :count] * phases, _turned(q[..., count:], like[0][..., count:])], -1)
    return q, torch.cat([r[..., :count, :] * phases.mT.conj(), r[..., count:, :]], -2)


def _products(vectors: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Of each column with the other one."""
    return (vectors.detach().conj() * others.to(vectors.dtype)).sum(-2)


def _unit(numbers: torch.Tensor) -> torch.Tensor:
    """Their signs, or phases; 1 for what has none."""
    signs = torch.sgn(numbers.detach())
    return torch.where(signs.isfinite() & (signs != 0), signs, torch.ones_like(signs))


def _phases(vectors: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    return _unit(_products(vectors, others)).unsqueeze(-2)


def _turned(vectors: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Another orthonormal basis of the space that columns span: the one that is nearest to other columns (Procrustes)."""
    if not vectors.shape[-1] or not vectors.isfinite().all() or not others.isfinite().all():
        return vectors
    left, _, right = torch.linalg.svd(vectors.detach().mT.conj() @ others.to(vectors.dtype), full_matrices=False)
    return vectors @ (left @ right)


def _ordered(tensor: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Along the last axis."""
    return tensor.gather(-1, (order if tensor.ndim == order.ndim else order.unsqueeze(-2)).expand(tensor.shape))


def _order(values: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """The places of values whose distances to the other ones add up to the least."""
    rows, wanted = (tensor.detach().to(torch.complex128).reshape(-1, tensor.shape[-1]) for tensor in (values, others))
    orders = [_assigned((target[:, None] - row).abs().cpu().numpy()) for row, target in zip(rows, wanted)]
    places = torch.from_numpy(np.array(orders, np.int64)).reshape(values.shape)
    return places.to(values.device)


def _assigned(distances: np.ndarray) -> np.ndarray:
    """For each row a column of its own, with the least sum: shortest augmenting paths, begun from each row's nearest column.

    R. Jonker and A. Volgenant, Computing 38 (1987).
    """
    size = len(distances)
    if not np.isfinite(distances).all():
        return np.arange(size)
    rows, columns = distances.min(1, initial=np.inf), np.zeros(size)
    owner = np.full(size, -1)  # of a column: the row that has it
    for row, nearest in enumerate(distances.argmin(1) if size else ()):
        if owner[nearest] < 0:
            owner[nearest] = row
    for row in np.setdiff1d(np.arange(size), owner):
        _augment(distances, int(row), rows, columns, owner)
    columns_of = np.empty(size, np.int64)
    columns_of[owner] = np.arange(size)
    return columns_of


def _augment(distances: np.ndarray, row: int, rows: np.ndarray, columns: np.ndarray, owner: np.ndarray) -> None:
    """Give a row a column, along the shortest path of exchanges; ``rows``, ``columns``: the dual prices."""
    size = len(distances)
    length, before = np.full(size, np.inf), np.full(size, -1)  # of the way to a column, and the row that it comes from
    done = np.zeros(size, bool)
    here, reached = row, 0.0
    while True:
        step = reached + distances[here] - rows[here] - columns
        nearer = ~done & (step < length)
        length[nearer], before[nearer] = step[nearer], here
        last = int(np.where(done, np.inf, length).argmin())
        reached, done[last] = length[last], True
        if owner[last] < 0:
            break
        here = int(owner[last])
    passed = np.flatnonzero(done)
    rows[row] += reached
    for column in passed:
        if column != last:
            rows[owner[column]] += reached - length[column]
        columns[column] -= reached - length[column]
    while True:
        giver = int(before[last])
        owner[last], last = giver, int(np.flatnonzero(owner == giver)[0]) if giver != row else -1
        if last < 0:
            break
