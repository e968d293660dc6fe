"""Models, modules and state dicts of either framework read into trees."""

from __future__ import annotations

import math
import os
import re
import weakref
from collections.abc import Iterator, Mapping as Dict
from typing import Any

import numpy as np
import paddle
import torch

from ..arguments import no_model, path as checked_path
from ..errors import ArgumentError, described
from ..frameworks.memory import dtype_of, to_torch
from ..text import tr
from .files import read_file, refuse_dicts_within
from .tree import (
    AS_IS,
    FLAT,
    OTHER,
    TRANSPOSED,
    LayerNode,
    Shape,
    Slot,
    Weight,
    WeightSide,
    joined,
    last_name,
    narrow,
    parent,
    role,
)


def framework_of(tensor: Any) -> str | None:
    """``"torch"``, ``"paddle"`` or ``"numpy"``; None for anything else."""
    if isinstance(tensor, torch.Tensor):
        return "torch"
    if isinstance(tensor, paddle.Tensor):
        return "paddle"
    return "numpy" if isinstance(tensor, np.ndarray) else None


def weight_of(name: str, tensor: Any, framework: str, buffer: bool = False) -> Weight:
    """The description of a parameter, buffer or entry of a state dict."""
    # Raise for a tensor that holds no plain values of its own
    why = None
    if isinstance(tensor, torch.Tensor):
        if tensor.is_meta:
            why = tr("lies on the meta device: it has no values")
        elif isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
            why = tr("is not initialised yet: run the lazy module once")
        elif tensor.is_quantized or tensor.layout is not torch.strided:
            why = tr("is quantized or sparse")
        elif type(tensor) not in _PLAIN and hasattr(tensor, "device_mesh"):
            why = tr("is distributed")
    elif isinstance(tensor, paddle.Tensor):
        if getattr(tensor, "is_dist", bool)():
            why = tr("is distributed")
        elif tensor.is_sparse() or tensor.is_selected_rows():
            why = tr("is sparse")
        elif not tensor._is_initialized() and math.prod(tensor.shape):
            why = tr("is not initialised yet")
        elif not (tensor.place.is_cpu_place() or tensor.place.is_gpu_place()):
            why = tr("lies on {place}, which Torch does not reach: move the layer to the CPU", place=tensor.place)
    elif not isinstance(tensor, np.ndarray):
        why = tr("is a {type}, not a tensor", type=type(tensor).__name__)
    if why:
        raise ArgumentError("weight {name} {why}", name=repr(name), why=why)
    trainable = tensor.requires_grad if isinstance(tensor, torch.Tensor) else not getattr(tensor, "stop_gradient", True)
    return Weight(name, tuple(map(int, tensor.shape)), dtype_name(tensor), buffer, bool(trainable), _memory(tensor))


def dtype_name(tensor: Any) -> str:
    """The dtype's name, the same in both frameworks. NumPy has no bfloat16; its uint16 stands for it, as in Paddle."""
    name = dtype_of(tensor.dtype)
    return "bfloat16" if name == "uint16" and isinstance(tensor, np.ndarray) else name


_PLAIN = (torch.nn.Parameter, torch.Tensor)


def _memory(tensor: Any) -> Any:
    """A key that is equal for two names of one tensor: its place and layout in memory."""
    if not math.prod(tensor.shape):
        return id(tensor)
    if isinstance(tensor, np.ndarray):
        return tensor.__array_interface__["data"][0], tensor.shape, tensor.strides
    strides = tensor.stride() if isinstance(tensor, torch.Tensor) else tuple(tensor.strides)
    return tensor.data_ptr(), tuple(tensor.shape), tuple(strides)


def view(tensor: Any) -> torch.Tensor:
    """The memory of a tensor or array as a Torch tensor without a graph."""
    if isinstance(tensor, torch.Tensor):
        return tensor.detach()
    if isinstance(tensor, np.ndarray):
        shared = torch.from_numpy(tensor) if tensor.flags.writeable else torch.from_numpy(tensor.copy())
        return shared.view(torch.bfloat16) if tensor.dtype == np.uint16 else shared
    return to_torch(tensor)


def synchronise() -> None:
    """Wait for both frameworks' devices, so that either may read the other's results."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    if paddle.is_compiled_with_cuda() and paddle.device.cuda.device_count():
        paddle.device.cuda.synchronize()


# The kinds of layers that both frameworks have: names of classes -> kind.

_TORCH = {
    "Linear": "linear", "Bilinear": "bilinear", "Embedding": "embedding", "EmbeddingBag": "embedding",
    "_ConvTransposeNd": "transposed convolution", "_ConvNd": "convolution", "_BatchNorm": "batch norm",
    "_InstanceNorm": "norm", "LayerNorm": "norm", "GroupNorm": "norm", "RMSNorm": "norm", "PReLU": "prelu",
    "LSTM": "lstm", "GRU": "gru", "RNN": "rnn", "LSTMCell": "lstm", "GRUCell": "gru", "RNNCell": "rnn",
    "MultiheadAttention": "attention", "Sequential": "sequence",
    "ModuleList": "list", "ModuleDict": "list", "ParameterList": "list", "ParameterDict": "list",
}  # fmt: skip
_PADDLE = {
    "Linear": "linear", "ColumnParallelLinear": "linear", "RowParallelLinear": "linear", "FusedLinear": "linear",
    "Bilinear": "bilinear", "Embedding": "embedding", "VocabParallelEmbedding": "embedding",
    "Conv1D": "convolution", "Conv2D": "convolution", "Conv3D": "convolution",
    "Conv1DTranspose": "transposed convolution", "Conv2DTranspose": "transposed convolution",
    "Conv3DTranspose": "transposed convolution",
    "BatchNorm": "batch norm", "_BatchNormBase": "batch norm", "_InstanceNormBase": "norm", "LayerNorm": "norm",
    "GroupNorm": "norm", "RMSNorm": "norm", "PReLU": "prelu",
    "LSTM": "lstm", "GRU": "gru", "SimpleRNN": "rnn", "LSTMCell": "lstm", "GRUCell": "gru", "SimpleRNNCell": "rnn",
    "RNN": "wrapped cell", "BiRNN": "wrapped cell",
    "MultiHeadAttention": "attention", "MultiheadAttention": "attention", "Sequential": "sequence",
    "LayerList": "list", "LayerDict": "list", "ParameterList": "list", "ParameterDict": "list",
}  # fmt: skip
KINDS = {"torch": _TORCH, "paddle": _PADDLE}

# Both frameworks stack the gates of these in one order (LSTM: i f g o; GRU: r z n), and have two biases.
RECURRENT = ("lstm", "gru", "rnn")
# Roles that hold the matrix of a layer, also after weight_norm or spectral_norm has decomposed it.
MATRICES = ("weight", "direction", "original")


def kind_of(layer: Any, framework: str) -> str:
    """The kind of a layer; "" if neither its class nor one of its bases is the framework's own."""
    kind = type(layer)
    known = _KNOWN[framework].get(kind)
    if known is None:
        bases = (base.__name__ for base in kind.__mro__ if base.__module__.partition(".")[0] == framework)
        known = _KNOWN[framework][kind] = next((KINDS[framework][name] for name in bases if name in KINDS[framework]), "")
    if known or framework != "torch" or kind.__name__ != "Conv1D":
        return known
    return "linear" if getattr(getattr(layer, "weight", None), "ndim", 0) == 2 else ""  # that of transformers' GPT-2


_KNOWN: dict[str, weakref.WeakKeyDictionary[type, str]] = {framework: weakref.WeakKeyDictionary() for framework in KINDS}


def holds_in_out(layer: Any, framework: str) -> bool:
    """Whether a linear layer holds its weight as [in, out]: Paddle's do, and of Torch's the ``Conv1D`` of transformers."""
    if framework == "torch":
        return type(layer).__name__ == "Conv1D"
    if type(layer).__module__.startswith("paddle.compat"):
        return False
    return not getattr(layer, "transpose_weight", False)


def layout_of(kind: str, role: str, shape: Shape, in_out: bool) -> str:
    """How a layer of that kind holds the weight of that role."""
    if kind == "linear" and role in MATRICES and in_out:
        return TRANSPOSED
    # LayerNorm([2, 4]) is [8] in Paddle, Bilinear's bias [1, n], the magnitude of weight_norm [n, 1] in Torch.
    flat = kind in ("norm", "prelu") or role.startswith("magnitude") or (kind, role) == ("bilinear", "bias")
    return FLAT if flat and len(shape) != 1 else AS_IS


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
        """The description of a tensor; the tensor is stored under that name."""
        self.tensors[name] = tensor
        return weight_of(name, tensor, self.framework, buffer)

    def own(self, layer: Any) -> Iterator[tuple[str, Any, bool]]:
        """(name, tensor, whether it is a buffer) of a layer's own weights: what its ``state_dict`` holds."""
        for name, tensor in layer._parameters.items():
            # A weight of 2.6's GroupNorm(weight_attr=False) only stands for a disabled one: it holds ones.
            disabled = self.framework == "paddle" and name in ("weight", "bias") and getattr(layer, f"_{name}_attr", None) is False
            if tensor is not None and not disabled:
                yield name, tensor, False
        for name, tensor in layer._buffers.items():
            if tensor is not None and name not in getattr(layer, self.passing) and name not in IGNORED:
                yield name, tensor, True

    def sublayers(self, layer: Any) -> Iterator[tuple[str, Any]]:
        return ((name, child) for name, child in getattr(layer, self.children).items() if child is not None)

    def read(self, layer: Any, path: str = "", above: tuple[int, ...] = ()) -> LayerNode:
        """The tree of a layer."""
        kind = kind_of(layer, self.framework)
        node = LayerNode(path, type(layer).__name__, kind, again=id(layer) in self.seen)
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

    def recurrent(self, layer: Any, node: LayerNode) -> bool:
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
                # Only the cell has the zeros that stand for a disabled bias.
                constant = name.startswith("bias") and bool(names) and id(tensor) not in names
                node.slots.append(_recurrent_slot(weight, name, suffix, 0.0 if constant else None))
            if self.framework == "torch" and not layer.bias:  # zeros in place of the biases, which Paddle's always has
                inputs = [slot for slot in node.slots if slot.role.startswith("weight_ih")]
                roles = [(slot, slot.role.replace("weight_ih", what)) for slot in inputs for what in ("bias_ih", "bias_hh")]
                node.slots += [Slot(what, None, (slot.shape[0],), fill=0.0) for slot, what in roles]
        return True


def read_module(module: Any, framework: str) -> WeightSide:
    """The tree of a ``torch.nn.Module`` or ``paddle.nn.Layer``."""
    reader = _Reader(framework)
    root = reader.read(module)
    return WeightSide(framework, root, reader.tensors, reader.objects)


def slot_of(weight: Weight, what: str, kind: str, layout: str) -> Slot:
    """The slot of a weight in a layer of a known or unknown kind."""
    shape = weight.shape
    if layout == TRANSPOSED:
        shape = shape[::-1]
    elif layout == FLAT:
        shape = (math.prod(shape),)
    return Slot(what, weight, shape, layout, settled=bool(kind) or len(shape) == 1)


def split_projections(node: LayerNode) -> None:
    """Give the fused projections of Torch's attention as layers of their own: q, k and v."""
    slots = {slot.role: slot for slot in node.slots}
    projections = {letter: LayerNode(joined(node.path, f"{letter}_proj"), "", "linear", virtual=True) for letter in "qkv"}
    taken = []
    for what in ("weight", "bias"):
        fused = slots.get(f"in_proj_{what}")
        for place, (letter, child) in enumerate(projections.items()):
            alone = slots.get(f"{letter}_proj_{what}")
            if alone is not None:
                child.slots.append(alone._replace(role=what, settled=True))
                taken.append(alone.role)
            elif fused is not None:
                size = fused.shape[0] // 3
                child.slots.append(fused.at(narrow(0, place * size, (place + 1) * size))._replace(role=what, settled=True))
                taken.append(fused.role)
    node.slots = [slot for slot in node.slots if slot.role not in taken]
    node.children += [child for child in projections.values() if child.slots]


def _normed(layer: Any, in_out: bool) -> dict[str, str]:
    """{name of a weight: role} of the weights into which weight_norm and spectral_norm decompose a layer's weight."""
    roles: dict[str, str] = {}
    for hook in layer._forward_pre_hooks.values():
        kind, name = type(hook).__name__, getattr(hook, "name", None)
        if kind == "WeightNorm":
            roles |= {f"{name}_g": _magnitude(hook.dim, in_out), f"{name}_v": "direction"}
        elif kind == "SpectralNorm":
            roles |= {f"{name}_orig": "original", f"{name}_u": "spectral u", f"{name}_v": "spectral v"}
    return roles


def _magnitude(dim: int | None, in_out: bool) -> str:
    """The role of weight_norm's magnitude: of another axis it is another thing."""
    if dim is None or dim == -1:
        return "magnitude"
    return f"magnitude of axis {1 - dim if in_out else dim}"


def _parametrized(layer: Any, roles: dict[str, str]) -> list[tuple[str, Any, bool]]:
    """(name, tensor, whether it is a buffer) of the weights in ``torch.nn.utils.parametrizations``; adds their roles."""
    entries = []
    for target, steps in layer.parametrizations.items():
        base = f"parametrizations.{target}"
        kinds = [type(step).__name__ for step in steps]
        if kinds == ["_WeightNorm"]:
            roles |= {f"{base}.original0": _magnitude(steps[0].dim, False), f"{base}.original1": "direction"}
        elif kinds == ["_SpectralNorm"]:
            roles |= {f"{base}.original": "original", f"{base}.0._u": "spectral u", f"{base}.0._v": "spectral v"}
        entries += [(f"{base}.{name}", tensor, False) for name, tensor in steps.named_parameters()]
        entries += [(f"{base}.{name}", tensor, True) for name, tensor in steps.named_buffers()]
    return entries


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


# A state dict has names and shapes, but no types: the partner's layer tells how a matrix lies.

LONGEST, DEEPEST = 1000, 100  # of a name: its letters, and its dots, for each of which a layer is made
_CELL = re.compile(r"(?:(?P<layer>.*)\.)?cell(?P<way>_fw|_bw)?\.(?P<what>(weight|bias)_[ih][ho])")
_OF_A_CELL = re.compile(r"(weight|bias)_[ih]h")
_PARAMETRIZED = re.compile(r"(?:(?P<layer>.*)\.)?parametrizations\.(?P<name>\w+)\.(?P<what>original[01]?|0\._[uv])")
_ROLES = {
    "original0": "magnitude", "original1": "direction", "original": "original", "0._u": "spectral u", "0._v": "spectral v",
    "weight_g": "magnitude", "weight_orig": "original", "weight_u": "spectral u",
}  # fmt: skip


def framework_of_state(state: Dict[str, Any], hint: str | None, arrays: bool = False) -> str:
    """The framework whose names and layouts a state dict has; for arrays their names tell it, or ``hint``."""
    refuse_dicts_within(state, tr("the state dict"))
    frameworks = set() if arrays else _frameworks(state)
    if len(frameworks) == 1 and None not in frameworks:
        return str(frameworks.pop())
    if frameworks:
        raise ArgumentError(
            "a state dict holds tensors of one framework, or arrays; got {frameworks}", frameworks=sorted(map(str, frameworks))
        )
    ends = {last_name(name) for name in state}
    if ends & {"_mean", "_variance"}:
        return "paddle"
    if ends & {"running_mean", "num_batches_tracked", "in_proj_weight"} or hint is None:
        return "torch"
    return hint


def _frameworks(state: Dict[str, Any]) -> set[str | None]:
    return {framework_of(tensor) for tensor in state.values()} - {"numpy"}


def read_state(state: Dict[str, Any], hint: str | None = None, file: bool = False, written: str | None = None) -> WeightSide:
    """The tree of a state dict, from its dotted names.

    Args:
        state: tensors of one framework or arrays, by name.
        hint: the framework of a dict that holds arrays and whose names do not tell.
        file: whether it is that of a file, whose tensors are those of its reader.
        written: the framework that the file says.
    """
    for name in state:
        if not isinstance(name, str):
            raise ArgumentError("the names of a state dict are strings, got {name}", name=described(name))
        if len(name) > LONGEST or name.count(".") > DEEPEST:
            raise ArgumentError(
                "the names of a state dict have up to {longest:,} letters and {deepest} dots, got {name} with {dots:,} dots",
                longest=LONGEST,
                deepest=DEEPEST,
                name=described(name),
                dots=name.count("."),
            )
    framework = written or framework_of_state(state, hint, file)
    nodes = {"": LayerNode("")}
    roles: dict[str, set[str]] = {}
    for name in state:
        if last_name(name) not in IGNORED:
            _add(nodes, roles, state, name, framework)
    for node in nodes.values():
        if any(slot.role.startswith("in_proj_") or slot.role == "q_proj_weight" for slot in node.slots):
            node.kind = "attention"
            split_projections(node)
    certain = bool(written) if file else bool(_frameworks(state))
    return WeightSide(framework, nodes[""], dict(state), certain=certain)


def _add(nodes: dict[str, LayerNode], roles: dict[str, set[str]], state: Dict[str, Any], name: str, framework: str) -> None:
    """Put one entry into its place in the tree."""
    tensor = state[name]
    path, what = _place(name, state)
    node = _node(nodes, path)
    if what in roles.setdefault(path, set()):
        return  # Paddle lists a cell's weights under the layer's names and again under the cell's
    roles[path].add(what)
    dtype = str(getattr(tensor, "dtype", ""))
    # Nothing says what is a parameter: whole numbers are not.
    weight = weight_of(name, tensor, framework, buffer=not ("float" in dtype or "complex" in dtype or dtype == "uint16"))
    slot = slot_of(weight, what, "", AS_IS)
    linear = AS_IS if framework == "torch" else TRANSPOSED
    (node.extras if weight.optional else node.slots).append(slot._replace(linear=linear))


def _place(name: str, state: Dict[str, Any]) -> tuple[str, str]:
    """(path of the layer, role) of an entry: those of cells and parametrizations belong to the layer around them."""
    if cell := _CELL.fullmatch(name):
        layer, place = cell["layer"] or "", 0
        if last_name(layer).isdigit() and joined(parent(layer), f"weight_ih_l{last_name(layer)}") in state:
            layer, place = parent(layer), int(last_name(layer))  # a level of a stack, whose weights have names of their own as well
        suffix = f"_l{place}" + ("_reverse" if cell["way"] == "_bw" else "")
        return layer, cell["what"].replace("_ho", "_hr") + suffix
    if _OF_A_CELL.fullmatch(last_name(name)):
        return parent(name), f"{last_name(name)}_l0"
    if parametrized := _PARAMETRIZED.fullmatch(name):
        return parametrized["layer"] or "", _ROLES[parametrized["what"]]
    return parent(name), _ROLES.get(last_name(name), last_name(name) if "proj" in last_name(name) else role(last_name(name)))


def _node(nodes: dict[str, LayerNode], path: str) -> LayerNode:
    """The node of that path, made with those above it where they are missing."""
    if path not in nodes:
        above = _node(nodes, parent(path))
        nodes[path] = LayerNode(joined(path))
        above.children.append(nodes[path])
    return nodes[path]


def sides_of(src: Any, dst: Any) -> tuple[WeightSide, WeightSide]:
    """(Torch's side, Paddle's) of two models in any order."""
    first, second = read_both(src, dst)
    return (first, second) if first.framework == "torch" else (second, first)


def read_both(src: Any, dst: Any, writes: bool = False) -> tuple[WeightSide, WeightSide]:
    """Both models as trees.

    Args:
        src, dst: modules, layers, state dicts or paths; or trees, as which they are returned.
        writes: whether ``dst`` will be written into.

    Raises:
        ArgumentError: an argument that is none of these, or both of one framework.
    """
    hints = _known_framework(src), _known_framework(dst)
    source = _side("src", src, hints[1])
    target = _side("dst", dst, source.framework, writes)
    if source.framework == target.framework:
        raise ArgumentError(
            "src and dst are both {framework}'s; between models of one framework load_state_dict (Torch) and "
            "set_state_dict (Paddle) do it",
            framework=source.framework.title(),
        )
    return source, target


def _known_framework(model: Any) -> str | None:
    """The framework of a module, a layer, or the tensors of a dict; None if there is none."""
    if isinstance(model, WeightSide):
        return model.framework
    if isinstance(model, torch.nn.Module):
        return "torch"
    if isinstance(model, paddle.nn.Layer):
        return "paddle"
    if isinstance(model, Dict) and any(isinstance(value, (torch.Tensor, paddle.Tensor)) for value in model.values()):
        return framework_of_state(model, None)
    return None


def _side(argument: str, model: Any, other: str | None, writes: bool = False) -> WeightSide:
    """One of the two models as a tree; ``other``: the other model's framework, if it is known."""
    if isinstance(model, WeightSide):
        return model
    hint = OTHER.get(other or "")
    if isinstance(model, (torch.nn.Module, paddle.nn.Layer)):
        return read_module(model, "torch" if isinstance(model, torch.nn.Module) else "paddle")
    if isinstance(model, Dict):
        return read_state(model, hint)
    if isinstance(model, (str, os.PathLike)):
        if writes:
            raise ArgumentError("dst= is a model or state dict that is written into; save it as a file afterwards")
        state, framework = read_file(checked_path(argument, model))
        side = read_state(state, hint, True, framework)
        side.ordered = not str(model).endswith(".safetensors")
        return side
    raise ArgumentError(
        "{argument}= is a torch.nn.Module, a paddle.nn.Layer, a state dict or the path of one, got {model}",
        argument=argument,
        model=no_model(model),
    )
