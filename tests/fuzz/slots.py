"""What can stand in a template's slots: a tensor of the program that fits, or a new leaf."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import paddle

from .words import Nothing, broadcast

if TYPE_CHECKING:
    from .generate import Program

SHAPES = ([3, 4], [4], [2, 3, 4], [4, 4], [3, 1], [1, 4], [], [1], [5, 3], [0, 4], [2, 0, 3], [0])
WITH_AXES = tuple(shape for shape in SHAPES if shape)
FILLED = tuple(shape for shape in WITH_AXES if 0 not in shape)
MATRICES = ([3, 4], [4, 4], [2, 3, 4], [1, 4], [4, 1], [5, 3], [0, 4])
SQUARES = ([3, 3], [2, 2], [2, 4, 4], [1, 1], [4, 4])
VECTORS = ([4], [3], [1], [5])
LINES, IMAGES, VOLUMES = (
    ([2, 3, 8], [1, 4, 5], [1, 2, 3]),
    ([2, 3, 5, 6], [1, 4, 4, 4], [2, 2, 3, 3], [1, 1, 4, 4], [2, 6, 4, 3]),
    ([1, 2, 3, 4, 3], [2, 3, 4, 3, 3]),
)
INTEGERS = ("int64", "int64", "int32", "uint8", "int8", "int16")
COMPLEX = ("complex64", "complex128")
EXACT = ("float32", "float32", "float64")  # what factors of matrices take


def floating(tensor: paddle.Tensor) -> bool:
    return tensor.is_floating_point()


def of_rank(*ranks: int) -> Callable[[paddle.Tensor], bool]:
    return lambda tensor: floating(tensor) and tensor.ndim in ranks


def integer(tensor: paddle.Tensor) -> bool:
    return tensor.is_integer()


def named(*names: str) -> Callable[[paddle.Tensor], bool]:
    return lambda tensor: str(tensor.dtype).rpartition(".")[2] in names


def writable(tensor: paddle.Tensor) -> bool:
    """Whether Paddle lets it be written in place, of any kind of number that has fractions."""
    return floating(tensor) and tensor.ndim > 0 and (tensor.stop_gradient or not tensor.is_leaf)


def without_gaps(tensor: paddle.Tensor) -> bool:
    """Whether Paddle lets it be written by tensors without writing outside of its memory (docs/defects.md)."""
    return writable(tensor) and tensor.is_contiguous()


class Kind(NamedTuple):
    """What a letter stands for: which tensors fit, and the shapes and dtypes of a new leaf."""

    fits: Callable[[paddle.Tensor], bool]
    shapes: tuple[list[int], ...]
    dtypes: tuple[str, ...] | None = None  # those of the program
    wanting: bool | None = None  # whether the leaf wants a gradient: either


KINDS = {
    "x": Kind(floating, SHAPES),
    "r": Kind(lambda tensor: floating(tensor) and tensor.ndim >= 1, WITH_AXES),
    "f": Kind(lambda tensor: floating(tensor) and tensor.ndim >= 1 and tensor.size > 0, FILLED),
    "v": Kind(lambda tensor: floating(tensor) and tensor.ndim == 1 and 0 < tensor.size < 7, VECTORS),
    "m": Kind(lambda tensor: floating(tensor) and tensor.ndim >= 2, MATRICES),
    "q": Kind(lambda tensor: named(*EXACT)(tensor) and tensor.ndim >= 2 and tensor.shape[-1] == tensor.shape[-2], SQUARES, EXACT),
    "l": Kind(of_rank(3), LINES),
    "u": Kind(of_rank(4), IMAGES),
    "d": Kind(of_rank(5), VOLUMES),
    "w": Kind(writable, WITH_AXES, wanting=False),
    "g": Kind(without_gaps, WITH_AXES, wanting=False),
    "a": Kind(lambda tensor: True, SHAPES),
    "n": Kind(integer, SHAPES, INTEGERS, wanting=False),
    "b": Kind(named("bool"), SHAPES, ("bool",), wanting=False),
    "c": Kind(named(*COMPLEX), WITH_AXES, COMPLEX),
}
BELOW = re.compile(r"below (\S+) (\[.*\])")


class Slots:
    """The slots of one template, as they are filled."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.names: dict[str, str] = {}  # letter -> tensor
        self.first: str | None = None  # the first float tensor, whose dtype the others share

    def shapes(self) -> dict[str, Any]:
        return {letter: list(self.program.scope[name].shape) for letter, name in self.names.items()}

    def fill(self, slot: str, text: str) -> str:
        """What stands for a slot; letters that it speaks of come from the rest of ``text``, whichever comes first."""
        program = self.program
        if slot == "axis":
            rank = program.scope[self.letter(re.search(r"\{([a-z])\}", text)[1])].ndim  # type: ignore[index]
            return str(program.pick([-1, *range(rank)]))
        if slot in {*KINDS, "y", "s", "k"}:
            return self.letter(slot)
        for letter in re.findall(r"\b[a-z]\b", slot):
            if letter in KINDS:
                self.letter(letter)
        if slot.startswith("="):
            return str(eval(slot[1:].strip(), {}, self.shapes()))
        if below := BELOW.fullmatch(slot):
            limit, shape = (eval(part, {}, self.shapes()) for part in below.groups())
            if limit < 1:
                raise Nothing
            return program.make(shape, "int64", False, below=limit)
        return self.of_shape(eval(slot, {}, self.shapes()))

    def letter(self, letter: str) -> str:
        """The tensor that a letter stands for."""
        if letter not in self.names:
            self.names[letter] = self.chosen(letter)
        return self.names[letter]

    def chosen(self, letter: str) -> str:
        """A tensor for a letter that comes for the first time."""
        program = self.program
        if letter in "ys":
            shape = program.scope[self.letter("x" if "w" not in self.names else "w")].shape
            return self.of_shape(shape) if letter == "s" or program.chance(3) else self.partner(shape)
        if letter == "k":
            whole = program.scope[self.letter("n")]
            return program.make(list(whole.shape), str(whole.dtype).rpartition(".")[2], False)
        kind = KINDS[letter]
        names = program.tensors(kind.fits)
        if names and not program.chance(4):
            name = program.pick(names)
        else:
            dtype = program.pick(kind.dtypes) if kind.dtypes else program.dtype()
            wanting = not program.chance(4) if kind.wanting is None else kind.wanting
            name = program.make(program.pick(kind.shapes), dtype, wanting)
        if self.first is None and floating(program.scope[name]):
            self.first = name
        return name

    def partner(self, shape: list[int]) -> str:
        """A float tensor that broadcasts with a shape."""
        names = self.program.tensors(lambda tensor: floating(tensor) and broadcast(tensor.shape, shape))
        return self.program.pick(names) if names else self.of_shape(shape)

    def of_shape(self, shape: list[int]) -> str:
        """A float tensor of a shape, mostly in the dtype of the first."""
        program = self.program
        if any(size < 0 for size in shape):
            raise Nothing
        dtype = "float32" if self.first is None else str(program.scope[self.first].dtype).rpartition(".")[2]
        dtype = program.dtype() if program.chance(16) else dtype
        names = program.tensors(lambda tensor: named(dtype)(tensor) and list(tensor.shape) == list(shape))
        names = [name for name in names if name not in self.names.values()]
        if names and program.chance(2):
            return program.pick(names)
        return program.make(list(shape), dtype, not program.chance(4))
