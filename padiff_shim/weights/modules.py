"""Layers and modules read into trees."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from .kinds import RECURRENT, holds_in_out, kind_of, layout_of
from .layouts import AS_IS, FLAT, TRANSPOSED, narrow
from .names import joined, role
from .tensors import weight_of
from .tree import Node, Side, Slot, Weight

IGNORED = ("num_batches_tracked",)  # Torch's counter, which Paddle's BatchNorm does not have
_FIELDS = {
    "torch": ("_modules", "_non_persistent_buffers_set"),
    "paddle": ("_sub_layers", "_non_persistable_buffer_names_set"),
}


class _Reader:
    """One walk through a model."""

    def __init__(self, framework: str) -> None:
        self.framework = framework
        self.children, self.passing = _FIELDS[framework]
        self.tensors: dict[str, Any] = {}
        self.objects: dict[str, Any] = {}
        self.seen: set[int] = set()

    def weight(self, name: str, tensor: Any, buffer: bool = False) -> Weight:
        """The description of a tensor, which is kept under that name."""
        self.tensors[name] = tensor
        return weight_of(name, tensor, self.framework, buffer)

    def own(self, layer: Any) -> Iterator[tuple[str, Any, bool]]:
        """(name, tensor, whether it is a buffer) of a layer's own weights: what its ``state_dict`` holds."""
        for name, tensor in layer._parameters.items():
            if tensor is not None and not (self.framework == "paddle" and _is_constant(layer, name)):
                yield name, tensor, False
        for name, tensor in layer._buffers.items():
            if tensor is not None and name not in getattr(layer, self.passing) and name not in IGNORED:
                yield name, tensor, True

    def sublayers(self, layer: Any) -> Iterator[tuple[str, Any]]:
        return ((name, child) for name, child in getattr(layer, self.children).items() if child is not None)

    def read(self, layer: Any, path: str = "", above: tuple[int, ...] = ()) -> Node:
        """The tree of a layer."""
        kind = kind_of(layer, self.framework)
        node = Node(path, type(layer).__name__, kind, again=id(layer) in self.seen)
        self.seen.add(id(layer))
        self.objects[path] = layer
        if kind in (*RECURRENT, "wrapped cell") and self.recurrent(layer, node):
            return node
        for slot in self.slots(layer, path, kind):
            (node.extras if slot.weight is not None and slot.weight.optional else node.slots).append(slot)
        if kind == "attention":
            split_projections(node)
        for name, child in self.sublayers(layer):
            if id(child) not in (*above, id(layer)) and name != "parametrizations":
                node.children.append(self.read(child, joined(path, name), (*above, id(layer))))
        return node

    def slots(self, layer: Any, path: str, kind: str) -> Iterator[Slot]:
        in_out = kind == "linear" and holds_in_out(layer, self.framework)
        roles = _normed(layer, in_out)
        parametrized = _parametrized(layer, roles) if "parametrizations" in getattr(layer, self.children) else ()
        for name, tensor, buffer in (*self.own(layer), *parametrized):
            weight = self.weight(joined(path, name), tensor, buffer)
            what = roles.get(name) or (name if kind == "attention" else role(name))
            yield slot_of(weight, what, kind, layout_of(kind, what, weight.shape, in_out))
        if kind == "batch norm" and self.framework == "torch" and layer.running_mean is None:
            for what in ("running_mean", "running_var"):  # Paddle always has them
                yield Slot(what, None, (layer.num_features,))

    def recurrent(self, layer: Any, node: Node) -> bool:
        """Fill the node of a recurrent layer, its cells included; False if its cells are not the framework's own."""
        if self.framework == "torch" or not hasattr(layer, "_sub_layers") or not layer._sub_layers:
            cells = [("", layer, "")]
        else:
            cells = list(_cells(layer))
        kinds = {kind_of(cell, self.framework) for _, cell, _ in cells}
        if len(kinds) != 1 or not kinds <= set(RECURRENT):
            return False
        node.kind = kinds.pop()
        names = {id(tensor): name for name, tensor in layer._parameters.items()}
        for inner, cell, suffix in cells:
            for name, tensor, _ in self.own(cell):
                known = names.get(id(tensor)) or joined(inner, name)
                weight = self.weight(joined(node.path, known), tensor)
                # The zeros that stand for a bias that was switched off are the cell's only.
                constant = name.startswith("bias") and bool(names) and id(tensor) not in names
                node.slots.append(_recurrent_slot(weight, name, suffix, 0.0 if constant else None))
            if self.framework == "torch":
                node.slots.extend(_absent_biases(node, layer))
        return True


def read_module(module: Any, framework: str) -> Side:
    """The tree of a ``torch.nn.Module`` or ``paddle.nn.Layer``."""
    reader = _Reader(framework)
    root = reader.read(module)
    return Side(framework, root, reader.tensors, reader.objects)


def slot_of(weight: Weight, what: str, kind: str, layout: str) -> Slot:
    """The slot of a weight in a layer of a known or unknown kind."""
    shape = weight.shape
    if layout == TRANSPOSED:
        shape = shape[::-1]
    elif layout == FLAT:
        shape = (math.prod(shape),)
    return Slot(what, weight, shape, layout, settled=bool(kind) or len(shape) == 1)


def split_projections(node: Node) -> None:
    """Give the fused projections of Torch's attention as layers of their own: q, k and v."""
    slots = {slot.role: slot for slot in node.slots}
    found = {letter: Node(joined(node.path, f"{letter}_proj"), "", "linear", virtual=True) for letter in "qkv"}
    taken = []
    for what in ("weight", "bias"):
        fused = slots.get(f"in_proj_{what}")
        for place, (letter, child) in enumerate(found.items()):
            alone = slots.get(f"{letter}_proj_{what}")
            if alone is not None:
                child.slots.append(alone._replace(role=what, settled=True))
                taken.append(alone.role)
            elif fused is not None:
                size = fused.shape[0] // 3
                child.slots.append(fused.at(narrow(0, place * size, (place + 1) * size))._replace(role=what, settled=True))
                taken.append(fused.role)
    node.slots = [slot for slot in node.slots if slot.role not in taken]
    node.children += [child for child in found.values() if child.slots]


def _is_constant(layer: Any, name: str) -> bool:
    """Whether a weight only stands for one that was switched off: 2.6's GroupNorm(weight_attr=False) holds ones."""
    return name in ("weight", "bias") and getattr(layer, f"_{name}_attr", None) is False


def _normed(layer: Any, in_out: bool) -> dict[str, str]:
    """{name of a weight: role} of what weight_norm and spectral_norm made of a layer's weight."""
    found: dict[str, str] = {}
    for hook in layer._forward_pre_hooks.values():
        kind, name = type(hook).__name__, getattr(hook, "name", None)
        if kind == "WeightNorm":
            found |= {f"{name}_g": _magnitude(hook.dim, in_out), f"{name}_v": "direction"}
        elif kind == "SpectralNorm":
            found |= {f"{name}_orig": "original", f"{name}_u": "spectral u", f"{name}_v": "spectral v"}
    return found


def _magnitude(dim: int | None, in_out: bool) -> str:
    """The role of weight_norm's magnitude: of another axis it is another thing."""
    if dim is None or dim == -1:
        return "magnitude"
    return f"magnitude of axis {1 - dim if in_out else dim}"


def _parametrized(layer: Any, roles: dict[str, str]) -> list[tuple[str, Any, bool]]:
    """(name, tensor, whether it is a buffer) of what ``torch.nn.utils.parametrizations`` holds; their roles are added."""
    found = []
    for target, steps in layer.parametrizations.items():
        base = f"parametrizations.{target}"
        kinds = [type(step).__name__ for step in steps]
        if kinds == ["_WeightNorm"]:
            roles |= {f"{base}.original0": _magnitude(steps[0].dim, False), f"{base}.original1": "direction"}
        elif kinds == ["_SpectralNorm"]:
            roles |= {f"{base}.original": "original", f"{base}.0._u": "spectral u", f"{base}.0._v": "spectral v"}
        found += [(f"{base}.{name}", tensor, False) for name, tensor in steps.named_parameters()]
        found += [(f"{base}.{name}", tensor, True) for name, tensor in steps.named_buffers()]
    return found


def _cells(layer: Any) -> Iterator[tuple[str, Any, str]]:
    """(path, cell, suffix of its weights in Torch) of Paddle's recurrent layers, and of RNN and BiRNN around cells."""
    stacked = {name: child for name, child in layer._sub_layers.items() if name.isdigit()}
    for place, (name, inner) in enumerate(stacked.items() or [("", layer)]):
        if hasattr(inner, "cell_fw"):
            yield joined(name, "cell_fw"), inner.cell_fw, f"_l{place}"
            yield joined(name, "cell_bw"), inner.cell_bw, f"_l{place}_reverse"
        else:
            yield joined(name, "cell"), getattr(inner, "cell", None), f"_l{place}"


def _recurrent_slot(weight: Weight, name: str, suffix: str, neutral: float | None) -> Slot:
    """The slot of a cell's weight; a cell alone is a layer of one."""
    if name == "weight_ho":  # Paddle's projection of the hidden state is [hidden, projected]
        return Slot(f"weight_hr{suffix}", weight, weight.shape[::-1], TRANSPOSED)
    what = name if suffix or "_l" in name else f"{name}_l0"
    return Slot(what + suffix, weight, weight.shape, AS_IS, neutral=neutral)


def _absent_biases(node: Node, layer: Any) -> Iterator[Slot]:
    """Zeros in place of the biases that a recurrent layer of Torch was made without: Paddle's always has them."""
    if not layer.bias:
        for slot in list(node.slots):
            if slot.role.startswith("weight_ih"):
                for what in ("bias_ih", "bias_hh"):
                    yield Slot(slot.role.replace("weight_ih", what), None, (slot.shape[0],), fill=0.0)
