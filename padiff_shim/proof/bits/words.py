"""Calls of Torch's kernels as expressions of Paddle's."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
import torch

from ..arguments import TO_THE_END, shown, shown_item
from ..trace import FUSED_ATTENTION, Step, TraceCall, TraceOperand, Value
from .vocabulary import Match, phrases

PRODUCTS = frozenset({"mm", "bmm", "addmm"})  # of stacked matrices, too, in Paddle
_SPLITTING = frozenset({"split", "split_with_sizes"})
_LISTING = _SPLITTING | {"unbind", "topk"}  # what gives several results in Paddle, too
_MOST_NUMBERS = 64  # of a constant that is written as numbers
DTYPES = {torch.float32: "float32", torch.float64: "float64", torch.bfloat16: "bfloat16", torch.float16: "float16"}


class Untranslatable(Exception):
    """A call that has no words here."""


def _binary(sign: str) -> Callable[[list[str], Mapping[str, Any]], str]:
    def write(operands: list[str], attributes: Mapping[str, Any]) -> str:
        if attributes.get("alpha", 1) != 1 or attributes.get("rounding_mode"):
            raise Untranslatable("alpha")
        number = next((_number(attributes[name]) for name in ("self", "other", "exponent") if name in attributes), "")
        parts = [number, operands[0]] if "self" in attributes else [*operands, number]
        return f"({parts[0]} {sign} {parts[1]})"

    return write


def _number(value: Any) -> str:
    text = shown(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else repr(value)
    return f"({text})" if "**" in text or text.startswith("-") else text


def _norm(operands: list[str], attributes: Mapping[str, Any]) -> str:
    order, axes = _number(attributes.get("ord", 2)), attributes.get("dim")
    if not axes:
        return f"paddle.linalg.norm({operands[0]}.flatten(), {order})"
    axis, keepdim = axes[0] if len(axes) == 1 else axes, ", keepdim=True" if attributes.get("keepdim") else ""
    return f"paddle.linalg.norm({operands[0]}, {order}, {axis}{keepdim})"


def _first_of(name: str, operands: list[str], attributes: Mapping[str, Any]) -> str:
    """``paddle.argmax`` and ``paddle.argmin``."""
    return f"paddle.{name}({operands[0]}, {attributes.get('dim')}{', keepdim=True' * bool(attributes.get('keepdim'))})"


def _max_pool(operands: list[str], attributes: Mapping[str, Any]) -> str:
    if set(attributes.get("dilation", [1])) != {1}:
        raise Untranslatable("dilation")
    words = [f"{attributes[name]}" for name in ("kernel_size", "stride", "padding")]
    return f"F.max_pool2d({', '.join([*operands, *words])}{', ceil_mode=True' * bool(attributes.get('ceil_mode'))})"


def _at_axis(axis: int, item: str) -> str:
    """An index with something at one axis."""
    return ", ".join([":"] * axis + [item] if axis >= 0 else ["...", item] + [":"] * (-1 - axis))


def _slice(words: Mapping[str, Any]) -> str:
    start, end, step = words.get("start"), words.get("end"), words.get("step", 1)
    return shown_item(slice(start or None, None if end == TO_THE_END else end, None if step == 1 else step))


def _bounds(words: Mapping[str, Any]) -> list[str]:
    """Where a count begins, ends, and its steps, without what is so by default."""
    start, end, step = words.get("start", 0), words["end"], words.get("step", 1)
    return [str(start)] * (start != 0 or step != 1) + [str(end)] + [str(step)] * (step != 1)


def _filled(name: str, _: list[str], attributes: Mapping[str, Any]) -> str:
    return f"paddle.{name}({attributes['size']})"


def _attention(operands: list[str], attributes: Mapping[str, Any]) -> str:
    words = [f"{text}.transpose([0, 2, 1, 3])" for text in operands[:3]]
    words += [f"attn_mask={text}" for text in operands[3:]] + ["is_causal=True"] * bool(attributes.get("is_causal"))
    words += [f"scale={_number(scale)}"] if (scale := attributes.get("scale")) is not None else []
    return f"F.scaled_dot_product_attention({', '.join(words)}).transpose([0, 2, 1, 3])"


_LONGEST = 600  # letters of an expression: a loop's would double with each round in which a value is read twice
_RESIZED = (("nearest", 1), ("nearest", 2), ("nearest", 3), ("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3))


def _resized(mode: str, operands: list[str], attributes: Mapping[str, Any]) -> str:
    corners = ", align_corners=True" * bool(attributes.get("align_corners"))
    return f"F.interpolate({operands[0]}, {attributes['output_size']}, mode='{mode}'{corners})"


def _batch_norm(operands: list[str], attributes: Mapping[str, Any]) -> str:
    """In evaluation: ``x``, weights or none, and running statistics."""
    if attributes["training"]:
        raise Untranslatable("statistics of the batch")
    words = [operands[0], *operands[-2:], *operands[1:-2]]
    return f"F.batch_norm({', '.join(words)}, epsilon={_number(attributes['eps'])})"


_SIGNS: dict[str, Callable[[list[str], Mapping[str, Any]], str]] = {
    "add": _binary("+"), "sub": _binary("-"), "mul": _binary("*"), "div": _binary("/"), "pow": _binary("**"),
    "eq": _binary("=="), "gt": _binary(">"), "lt": _binary("<"), "ge": _binary(">="), "le": _binary("<="), "ne": _binary("!="),
    "rsub": lambda operands, attributes: f"({_number(attributes['other'])} - {operands[0]})",
    "linalg_vector_norm": _norm,  # Paddle's functions choose its axes themselves
    "polar": lambda operands, _: f"paddle.polar({', '.join(operands)})",
    "complex": lambda operands, _: f"paddle.complex({', '.join(operands)})",
    "select": lambda operands, words: f"{operands[0]}[{_at_axis(words['dim'], str(words['index']))}]",
    "slice": lambda operands, words: f"{operands[0]}[{_at_axis(words['dim'], _slice(words))}]",
    "max_pool2d_with_indices": _max_pool,
    "native_batch_norm": _batch_norm,
    "clone": lambda operands, _: operands[0],
    **{name: functools.partial(_first_of, name) for name in ("argmax", "argmin")},
    "_conj": lambda operands, _: f"paddle.conj({operands[0]})",
    "neg": lambda operands, _: f"(-{operands[0]})",
    "bitwise_not": lambda operands, _: f"paddle.logical_not({operands[0]})",
    "arange": lambda _, words: f"paddle.arange({', '.join(_bounds(words))})",
    "linspace": lambda _, words: f"paddle.linspace({words['start']}, {words['end']}, {words['steps']})",
    "eye": lambda _, words: f"paddle.eye({words['n']})",
    "full": lambda _, words: f"paddle.full({words['size']}, {_number(words['fill_value'])})",
    **{name: functools.partial(_filled, name) for name in ("ones", "zeros")},
    "index": lambda operands, _: f"{operands[0]}[{', '.join(operands[1:])}]",
    "addcmul": lambda operands, attributes: f"({operands[0]} + {_number(attributes['value'])} * {operands[1]} * {operands[2]})",
    "addcdiv": lambda operands, attributes: f"({operands[0]} + {_number(attributes['value'])} * {operands[1]} / {operands[2]})",
    **dict.fromkeys(("mm", "bmm"), lambda operands, _: f"paddle.matmul({', '.join(operands)})"),
    **{f"upsample_{mode}{axes}d": functools.partial(_resized, mode) for mode, axes in _RESIZED},
}  # fmt: skip


class CallWords:
    """Writes calls in Paddle's words; who inherits it says what an operand is called.

    Args:
        labels: of what the port has as parameters.
    """

    def __init__(self, labels: Set[str] = frozenset()) -> None:
        self._labels = labels
        self._texts_of: dict[TraceCall, str] = {}
        self.untold = ""  # the first of what has no words here

    def _operand(self, call: TraceCall, operand: TraceOperand) -> str:
        """An operand of a call: a value of the port's, or an expression of values."""
        raise NotImplementedError

    def _is_parameter(self, value: Value) -> bool:
        """Whether a value is one of the port's parameters."""
        return value.label in self._labels

    def _texts(self, call: TraceCall) -> Iterator[str]:
        """A call as an expression, in each way in which the table of ops has words for it and those before it."""
        matches = [match for phrase in phrases(call) if (match := phrase.matched(call)) is not None]
        several = [functools.partial(self._phrased, match) for match in matches if len(match.phrase.kernels) > 1]
        single = [functools.partial(self._phrased, match) for match in matches if len(match.phrase.kernels) == 1]
        for write in (*several, functools.partial(self._signed, call), *single):
            try:
                yield write()
            except Untranslatable as error:
                self.untold = self.untold or str(error)
            except (KeyError, IndexError, TypeError):  # of arguments that its words do not foresee
                self.untold = self.untold or call.name

    def _written(self, call: TraceCall) -> str:
        """The first of these."""
        if call not in self._texts_of:
            self._texts_of[call] = next(self._texts(call), "")
        if not 0 < len(self._texts_of[call]) < _LONGEST:
            raise Untranslatable(call.name)
        return self._texts_of[call]

    def _result(self, value: Value) -> str:
        """What a call has made, which may be one of several results."""
        assert value.node is not None
        text, place = self._written(value.node), value.node.values.index(value)
        if value.node.name in _LISTING:
            return f"{text}[{place}]"
        if place:
            raise Untranslatable("one of several results")
        return text

    def _phrased(self, match: Match) -> str:
        """A call of Paddle's API."""
        defaults, words = match.phrase.defaults, dict[str, str]()
        for name, operands in match.operands.items():
            texts = [self._operand(*operand) for operand in operands]
            words[name] = f"[{', '.join(texts)}]" if match.phrase.whole else texts[0]
        for name, value in match.settings():
            if name not in defaults or defaults[name] != value:
                words[name] = repr(value) if not isinstance(value, float) else shown(value)
        if words.get("correction") in ("0", "1"):  # older versions have the word unbiased alone
            words["unbiased"] = str(words.pop("correction") == "1")
        if match.phrase.function == "F.layer_norm":
            shape = repr(list(match.calls[0].attributes["normalized_shape"]))
            words["normalized_shape"] = f"{words['weight']}.shape" if words.get("weight", "(").isidentifier() else shape
        names, text = list(defaults), list[str]()
        for place, name in enumerate(names):
            if name in words:
                bare = place == len(text) and (name in match.operands or place < 3)
                text.append(words[name] if bare else f"{name}={words[name]}")
        return f"{match.phrase.function}({', '.join(text)})"

    def _signed(self, call: TraceCall) -> str:
        """A call by operators, casts and products, which people write without a name."""
        if call.name in ("_to_copy", "copy", "to"):
            dtype = DTYPES.get(call.result.tensor.dtype)
            if dtype is None:
                raise Untranslatable(call.name)
            return f'{self._operand(call, call.operands[-1])}.astype("{dtype}")'
        if call.name == "addmm" and call.operands[2].value.node is None:
            bias, rows, weight = (self._operand(call, operand) for operand in call.operands)
            return f"F.linear({rows}, {weight}, {bias})"
        if call.name in _SPLITTING:
            axis = call.attributes["dim"]
            lengths = [value.tensor.shape[axis] for value in call.results]
            parts = len(lengths) if len(set(lengths)) == 1 else lengths
            return f"paddle.split({self._operand(call, call.operands[0])}, {parts}, {axis})"
        write = _attention if FUSED_ATTENTION in call.name else _SIGNS.get(call.name)
        if write is None:
            raise Untranslatable(call.name)
        operands = [self._operand(call, operand) for operand in call.operands]
        if call.name == "mm" and self._is_parameter(call.operands[1].value):
            return f"F.linear({', '.join(operands)})"
        return write(operands, call.attributes)

    def _paired(self, text: str, held: torch.Tensor, wanted: torch.Tensor, call: TraceCall, way: Sequence[Step] = ()) -> str:
        """A value in the arrangement in which a call is given it, and as complex numbers, or pairs, as it is given them.

        ``way``: the steps to it of the program that makes the call, from the first arrangement.
        """
        if held.is_complex() is wanted.is_complex():
            turned = any(step.order for step in way) and call.name not in ("mm", "addmm")
            steps = _steps_between(held, wanted, way, call) if turned else None
            return self.shaped(text, held, wanted, call) if steps is None else text + steps
        pair = torch.empty((*(wanted if wanted.is_complex() else held).shape, 2))
        if wanted.is_complex():
            return f"paddle.as_complex({self.shaped(text, held, pair, call)})"
        return self.shaped(f"paddle.as_real({text})", pair, wanted, call)

    @staticmethod
    def shaped(text: str, held: torch.Tensor, wanted: torch.Tensor, call: TraceCall | None = None) -> str:
        """A value in the arrangement in which a call is given it."""
        if held.shape == wanted.shape:
            return text
        name = "" if call is None else call.name
        if name in PRODUCTS and held.shape[-2:] == wanted.shape[-2:]:
            return text  # a product of stacked matrices keeps their axes
        if name in ("mm", "addmm") and wanted.dim() == 2 and held.shape[-1:] == wanted.shape[-1:]:
            return text  # and so does one of rows
        if name in PRODUCTS and held.dim() > 2 and held.shape[:-3:-1] == wanted.shape[-2:]:
            axes = [*range(held.dim() - 2), held.dim() - 1, held.dim() - 2]
            dense = ".contiguous()" * (wanted.is_contiguous() and not held.permute(axes).is_contiguous())
            return f"{text}.transpose({axes}){dense}"
        for place in range(wanted.dim()):
            if held.dim() + 1 == wanted.dim() and wanted.shape == (*held.shape[:place], 1, *held.shape[place:]):
                return f"{text}.unsqueeze({place - wanted.dim()})"
            if held.dim() == wanted.dim() + 1 and held.shape == (*wanted.shape[:place], 1, *wanted.shape[place:]):
                return f"{text}.squeeze({place - held.dim()})"
        if held.dim() == wanted.dim() <= 5:
            for order in itertools.permutations(range(held.dim())):
                if held.permute(order).shape == wanted.shape:
                    return f"{text}.t()" if order == (1, 0) else f"{text}.transpose({list(order)})"
        return f"{text}.reshape({list(wanted.shape)})"

    @staticmethod
    def _cast(text: str, held: torch.Tensor, wanted: torch.Tensor) -> str:
        """Casts that keep every value are no calls of a trace."""
        if held.dtype == wanted.dtype or not wanted.is_floating_point() or held.is_complex():
            return text
        return f'{text}.astype("{DTYPES[wanted.dtype]}")'


def _steps_between(held: torch.Tensor, wanted: torch.Tensor, way: Sequence[Step], call: TraceCall) -> str | None:
    """Of some steps the last ones, which lay a value out as it is wanted; a product of stacked matrices keeps their axes."""
    for begin in reversed(range(len(way) + 1)):
        shapes, laid = [held.shape], held
        with contextlib.suppress(RuntimeError):  # these elements have other axes
            for step in way[begin:]:
                laid = step.applied(laid)
                shapes.append(laid.shape)
            if laid.numel() == wanted.numel() and laid.squeeze().shape == wanted.squeeze().shape:
                same = torch.allclose(laid.reshape(wanted.shape).double(), wanted.double(), 1e-2, 1e-3)
                stacked = call.name == "bmm" and len(shapes) > 1 and shapes[-2][-2:] == wanted.shape[-2:]
                axes = f".reshape({list(wanted.shape)})" * (laid.shape != wanted.shape)
                dense = ".contiguous()" * (wanted.is_contiguous() and not laid.is_contiguous())
                if same:
                    return "".join(f".{step}" for step in way[begin : len(way) - stacked]) + axes + dense
    return None


def literal(tensor: torch.Tensor) -> str:
    """A constant that no call has made, as numbers."""
    dtype = str(tensor.dtype).rpartition(".")[2]
    if tensor.numel() and bool((tensor == tensor.reshape(-1)[0]).all()):
        return f'paddle.full({list(tensor.shape)}, {tensor.reshape(-1)[0].item()!r}, "{dtype}")'
    if tensor.numel() > _MOST_NUMBERS or tensor.is_complex():
        raise Untranslatable("a constant of many numbers")
    shown = np.vectorize(float)(tensor.numpy().astype(str)).tolist() if tensor.dtype is torch.float32 else tensor.tolist()
    return f'paddle.to_tensor({shown}, "{dtype}")'
