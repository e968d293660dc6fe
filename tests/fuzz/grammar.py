"""How often each kind of line is drawn."""

from __future__ import annotations

from . import calls, nested
from .state import (
    autocast,
    backward,
    hook,
    housekeeping,
    inplace,
    partial_gradient,
    pylayer,
    recomputed,
    retained,
    setitem,
    toggle,
    update,
    without_gradient,
    write,
)
from .values import (
    binary,
    cast,
    gram,
    linear,
    memory,
    move,
    normalise,
    number,
    positive,
    power,
    product,
    reduction,
    through_layer,
    unary,
    view,
)

GRAMMAR = (
    *(unary,) * 3,
    positive,
    *(binary,) * 5,
    *(number,) * 2,
    power,
    *(product,) * 3,
    gram,
    *(linear,) * 2,
    *(through_layer,) * 2,
    *(normalise,) * 2,
    *(reduction,) * 3,
    *(view,) * 5,
    *(move,) * 2,
    cast,
    memory,
    *(inplace,) * 3,
    *(setitem,) * 2,
    write,
    toggle,
    *(hook,) * 2,
    retained,
    pylayer,
    recomputed,
    without_gradient,
    autocast,
    *(backward,) * 5,
    *(partial_gradient,) * 2,
    housekeeping,
    update,
)

# With more of what runs within a backward.
NESTED = (*GRAMMAR, nested.asking, nested.layers, *(nested.recomputed,) * 2, nested.computing_hook, nested.second)

# Every API of the tables, among lines that change tensors and follow gradients.
BROAD = (
    *(calls.templated,) * 40,
    *(calls.layer_again,) * 2,
    calls.optimised,
    calls.stepped,
    calls.scaled,
    calls.applied,
    calls.transformed_gradient,
    *(backward,) * 6,
    *(partial_gradient,) * 2,
    hook,
    retained,
    toggle,
    inplace,
    setitem,
    housekeeping,
)
