"""The words in which an op is declared. Pure data: no framework is imported here.

An op is its decorated Torch formula::

    @op("x|input axis|dim=-1", inplace=True, legacy=True, model=models.Softmax(), samples=ROWS)
    def softmax(x, axis):
        return torch.softmax(x, axis)

A family is a module of ``patches/``: its ops are the :class:`Op` objects among its names, each under its own name (with a ``_``
behind it where Python has that name already: ``sum_``). Interception, binding, gradients, tests and reports are derived.

Left out, everything has the value of the commonest case: the door is ``paddle._C_ops.<name>`` with the op's own parameters, its
name for autocast that of its legacy form, one tensor, one result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .samples import Bools, Floats, Ints, Sample, each, ranged
from .signature import REQUIRED, parse

__all__ = [
    "Bools", "Entry", "Fault", "Floats", "Ints", "Op", "Sample", "c_op", "each", "function", "legacy_op", "method", "op",
    "operator", "ranged",
]  # fmt: skip

AUTOCAST = "autocast"  # beside names of ops: automatic mixed precision by Torch's lists, with its cache of cast weights


@dataclass(frozen=True)
class Entry:
    """One door by which a Paddle program reaches the op.

    ``target`` is a dotted path: ``paddle._C_ops.matmul`` (a C function), ``paddle.Tensor.__matmul__`` (a descriptor) or
    ``paddle.nn.functional.linear`` (a Python function).
    ``params`` is the door's own signature as ``"x|input y|other transpose_x=False"``: aliases after ``|``, defaults after
    ``=``, in positional order; parameters are matched with the op's by name, so a reflected operator is just ``"y x"``.
    ``inplace`` doors write the result into their first tensor.
    ``numbers`` are parameters that must be Python numbers at this door; a tensor there stays native.
    ``returns_list`` doors hand back ``[result]`` (``_C_ops.einsum``); ``with_mask`` doors, on Paddle 2.6, the result and a mask
    that its own functions drop (``_C_ops.dropout``).
    ``pairs`` doors take the first so many parameters by position, and after them pairs of an attribute's name and its value
    (``paddle._legacy_C_ops``): the last alias is the name there. A parameter that the op does not have may only be its default,
    but for ``reduce_all=True``, which stands for ``axis=None``.
    ``arrange`` turns the door's own arguments, complete and by position, into the op's (an RNN's lists of states and weights).
    ``seen_below``: a Python function whose calls below lead to doors of their own: where the op stays native here, it runs as if
    this door were none. ``mixed_below``: so of operands of several float dtypes alone.
    ``fills``: what is drawn becomes the first parameter's memory, and the door hands back None (initializers).
    ``when`` is one of its parameters and the values of it with which the door leads here: several ops may share such a door.
    ``until``: the target is an older Paddle's name of the op, or has these parameters there alone: it is not this door any more
    where there is a C function named so. ``since``: it is not before there is one.
    A target that the installed Paddle does not have is skipped, except where no door of the op is left.
    """

    target: str
    params: str
    inplace: bool = False
    numbers: tuple[str, ...] = ()
    returns_list: bool = False
    with_mask: bool = False
    pairs: int | None = None
    arrange: Callable[..., tuple[Any, ...]] | None = None
    when: tuple[str, tuple[Any, ...]] | None = None
    seen_below: bool = False
    mixed_below: bool = False
    fills: bool = False
    until: str | None = None
    since: str | None = None

    @property
    def name(self) -> str:
        """The last part of the target, without underscores around it."""
        return self.target.rpartition(".")[2].strip("_")


@dataclass(frozen=True)
class Fault:
    """Another formula than the op's, which a kernel may compute instead.

    ``formula``: called with the op's own formula and its arguments; it raises ``NotImplementedError`` for others than it is about.
    ``precision``: it loses precision and means the same. ``narrow``: it has to be run in the result's dtype to show what is lost.
    """

    formula: Callable[..., Any]
    precision: bool = False
    narrow: bool = False


@dataclass(frozen=True, eq=False)
class Op:
    """A Paddle op and the Torch formula that stands for it; calling it calls the formula. :func:`op` says what the fields mean."""

    name: str
    reference: Callable[..., Any]
    params: str
    entries: tuple[Entry, ...]
    samples: tuple[Sample, ...] = ()
    refusals: tuple[Sample, ...] = ()
    tensors: int = 1
    operands: bool = False
    results: tuple[str, ...] = ("out",)
    writes: Mapping[int, str] = field(default_factory=dict)
    overwrites: tuple[str, ...] = ()
    once: bool = False
    scratch: tuple[str, ...] = ()
    unwritten: tuple[str, ...] = ()
    unset: Mapping[str, str] = field(default_factory=dict)
    integers: tuple[str, ...] = ()
    promote: str = "result"
    integer: bool = False
    elementwise: bool = False
    exact: bool = False
    complex: bool = False
    random: Callable[..., bool] | None = None
    wanting: int | None = None
    avx512: bool = False
    cpu: bool = True
    passes_empty: bool = False
    gradient: bool = True
    copies_result: bool = False
    unread: tuple[str, ...] = ()
    by_layout: bool = False
    layouts: Mapping[str, str] = field(default_factory=dict)
    amp: tuple[str, str] = ("", "")
    products: bool = False
    asked: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    definition: Callable[..., Any] | None = None
    differs: Callable[..., str] | None = None
    remains: Callable[..., str] | None = None
    model: Any = None
    deviations: Mapping[str, str] = field(default_factory=dict)
    faults: Mapping[str, Fault] = field(default_factory=dict)
    ties: Any = None
    steps: bool = False
    oracle: Callable[..., Any] | None = None
    aligned: Callable[..., Sequence[Any]] | None = None
    note: str = ""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.reference(*args, **kwargs)

    @property
    def names(self) -> list[str]:
        """The names of the parameters, in order."""
        return [_name(word) for word in self.params.split()]

    @functools.cached_property
    def unjudged(self) -> frozenset[str]:
        """The names of the results that are not compared."""
        return frozenset((*self.scratch, *self.unwritten))

    @functools.cached_property
    def integer_places(self) -> frozenset[int]:
        """The places of indices, labels, lengths and masks, which samples give as whole numbers: as such they have no gradient."""
        if self.operands:
            return frozenset()
        places = (place for sample in self.samples for place in enumerate(sample.operands))
        sampled = {place for place, operand in places if isinstance(operand, (Ints, Bools))}
        return frozenset(sampled.union(map(self.names.index, self.integers)))

    @functools.cached_property
    def unwritten_places(self) -> frozenset[int]:
        """The places of the :attr:`unwritten` among the results."""
        return frozenset(map(self.results.index, self.unwritten))

    @property
    def judge(self) -> str:
        """What a comparison holds a difference against: ``"exact"``, a model's name, or ``"generic"``; and its ties."""
        if self.random and not self.leading:
            return "not judged"
        named = "exact" if self.exact else f"`{type(self.model).__name__}`" if self.model else "generic"
        return f"{named}, ties" if self.ties else named

    @property
    def leading(self) -> int:
        """How many leading parameters hold tensors: one of a sequence, or :attr:`tensors`."""
        return 1 if self.operands else self.tensors

    def attributes(self, sample: Sample) -> tuple[Any, ...]:
        """The parameters behind the tensors, as a sample gives them; without a value there and a default here they are None."""
        defaults = [(aliases[0], None if default is REQUIRED else default) for aliases, default in parse(self.params)]
        return tuple(sample.attrs.get(name, default) for name, default in defaults[self.leading :])

    def arguments(self, sample: Sample, operands: Sequence[Any]) -> tuple[Any, ...]:
        """All arguments of the formula: ``operands`` (what was made of ``sample.operands``) and the sample's attributes."""
        if self.operands:
            return (list(operands), *self.attributes(sample))
        return (*operands, *[None] * (self.tensors - len(operands)), *self.attributes(sample))


def op(
    params: str,
    *,
    name: str = "",
    c: bool = True,
    inplace: bool = False,
    numbers: tuple[str, ...] = (),
    legacy: bool | str | Sequence[str] = False,
    doors: tuple[Entry, ...] = (),
    amp: str | tuple[str, str] = "",
    **fields: Any,
) -> Callable[[Callable[..., Any]], Op]:
    """The decorator that makes an :class:`Op` of a Torch formula: ``@op(...)``, or ``op(...)(torch.expm1)``.

    The formula takes all of ``params`` by position, tensors as Torch tensors, and returns a tensor, or where Paddle's function
    returns several results a tuple or list of them, as that does (None for one that Paddle leaves empty). It raises
    ``NotImplementedError`` for what it does not cover: such a call runs natively, and its message is the reason that is counted.

    Args:
        params: the signature, ``"x|input axis|dim=-1"``: aliases after ``|``, defaults after ``=``. The tensors come first.
        name: the op's name, if it is not the formula's.
        c: the door ``paddle._C_ops.<name>`` with these parameters. False for an op that has other ``doors`` only.
        inplace: also ``paddle._C_ops.<name>_``, and ``<legacy name>_``, which write the result into their first tensor.
        numbers: parameters that are Python numbers at these doors; a tensor there stays native.
        legacy: doors of ``paddle._legacy_C_ops``. True: the same name and parameters. Else strings (one or several): another name,
            ``"matmul_v2"``, or name and signature, ``"reduce_sum: x axis|dim=[0] keep_dim=False"``, in which the last alias is the
            attribute's name there. Positional are the leading parameters without default, or those before a ``*``.
        doors: more doors, see :func:`c_op`, :func:`operator`, :func:`function`, :func:`method`, :func:`legacy_op`.
        amp: the name (Paddle's legacy one) under which autocast lists the op; a pair if it is another beside a Python number.
            If not given: the first legacy door's, or the op's.

    Further keywords are fields of :class:`Op`:
        samples: arguments to try the op with (:class:`.samples.Sample`).
        refusals: arguments that Paddle refuses; under the shim they raise the same type of error.
        tensors: how many leading parameters are tensors (or numbers in a tensor's place); 1 if not given; 0 for an op that creates
            its result from numbers: ``shape``, ``dtype`` and ``place`` are Torch's for the formula, and ``var``, what it fills.
        operands: the first parameter is a sequence of tensors, and the only one with tensors.
        results: names of the results, ``("out",)`` if not given.
        writes: position of a result -> name of the operand in whose memory it is written (running statistics); where the formula
            has None for it, that operand stays as it is.
        overwrites: operands that Paddle's function spoils on its way to its result: a comparison gives Torch's formula copies.
        once: Paddle's kernel is run as the program calls it, and never again in float64 for a verdict: there it writes outside of
            its memory.
        scratch: results that are not judged: those that no program reads.
        integers: operands that may be whole numbers, and then have no gradient, where no sample gives them as such.
        unset: results that are tensors without memory in Paddle where the formula gives None -> the operand whose shape
            they have; "" where that is [0].
        unwritten: results that nobody but Paddle's own backward reads, and that its kernel leaves unwritten where no backward will:
            they hold whatever lay in memory, and are neither judged nor recorded.
        promote: ``"result"`` casts every tensor to the dtype that the native op returns before the formula runs; ``"none"`` leaves
            dtypes to the formula (layer norm keeps float32 weights beside float16 input; labels stay integers); ``"same"`` casts
            nothing where all float operands share one dtype, and leaves other calls native, without a question about dtypes;
            ``"alike"`` is ``"result"`` where they share one, or have one by autocast, and leaves other calls native (ops whose
            parts each compute in the dtype of their own operands).
        integer: integer and bool results are computed by the formula too; otherwise they stay native, being exact in both.
        elementwise: an element of the result depends on the operands' elements in its place only (asked where an in-place op of
            several tensors has the target as another operand, too).
        exact: the op moves or selects values and rounds nothing: substituted in reference mode, so that Torch's graph goes on
            through it; in compare mode a value that differs is wrong, and gradients are sums of what arrives.
        complex: takes complex operands as well; otherwise such calls stay native.
        random: asked with the op's arguments, as Paddle made the call, whether this call draws random numbers. Such calls are
            substituted in a mode with ``random="torch"`` only. Of them nothing is asked of the native op: Paddle's generator stays
            where it is.
        wanting: place of an operand without whose gradient Paddle's backward ends the process: a proof's native run asks for it.
        avx512: Paddle's CPU kernel ends the process on a processor without AVX-512; there it is asked nothing, not even its dtypes.
        cpu: False where Paddle has kernels of it for other devices only: on a CPU its error is the answer natively, and the formula
            that of reference mode, about which nothing is asked.
        passes_empty: an operand without elements adds nothing to what others give; other calls with one stay native.
        gradient: False where Paddle gives the results no gradient, whatever Torch would.
        copies_result: Torch's backward reads the result where Paddle's does not, so that Paddle, whose program may change it, gets
            a copy.
        unread: operands that Torch's graph keeps although its backward does not read their values, so that they may change.
        by_layout: Torch chooses by the operands' sizes and strides, too, what its backward reads (beyond copying what has strides).
        products: Paddle's function in Python multiplies or convolves inside, by the kernel that ``amp`` names: autocast casts there
            even where all operands are float32.
        layouts: ``{"weight": "transposed"}`` marks the parameter of which the formula wants a contiguous transposed copy.
        asked: parameters of the op that no door has: name -> function of Paddle's own function and of one that makes its tensors,
            called once a process, whose answer is the parameter's value. For what Paddle's versions compute otherwise.
        definition: the formula by Torch's own definition, where Paddle means another by the name; computed in a mode with
            ``definitions="torch"``.
        differs: asked with the formula's arguments; a sentence for the run where Paddle's and Torch's definitions give this call
            another value or gradient, else ``""``.
        remains: the same, asked where ``definition`` is computed: where a Torch twin may have another value all the same.
        model: the op's rounding model (:mod:`padiff_shim.numerics.models`): its bound, its hypotheses and those of its gradients.
        deviations: where native Paddle differs from the formula by more than rounding on the op's own samples: ``"float64"`` (or
            another dtype), ``"gradient"``, or ``"gradient float64"`` -> why. The tests hold those values against Torch's alone.
        faults: what a kernel is known to compute instead: a name -> a :class:`Fault`. For ops without a model; a comparison gives
            the name where that formula, or its gradient, explains the whole tensor.
        ties: where the op has several right answers, and which (:mod:`padiff_shim.numerics.ties`): equal elements of a maximum, the
            kink of an absolute value, half of a whole number. Of such a difference a comparison says TIE.
        steps: its result jumps where an operand passes some point (``floor``, ``argmax``): differences before it are amplified
            there, and reports say so.
        oracle: what the op means, as a Torch formula of its parameters, where Torch's own kernel computes something else: a
            comparison holds both kernels against it.
        aligned: of results that the op leaves free in part (an order, signs, a basis): called with the formula's results and with
            others of the same call, gives the former as near to the latter as the op's meaning allows. Comparisons ask it
            before they judge.
        note: one sentence where Paddle's meaning is not that of the Torch function of that name; for docs/ops.md.

    Raises:
        ValueError: at once, naming the op, for a legacy string that is none.
    """

    def declare(formula: Callable[..., Any]) -> Op:
        called = name or formula.__name__.strip("_")
        count = fields.get("tensors", 1)  # of an op with operands=True: 1, the sequence
        forms = [called] if legacy is True else [legacy] if isinstance(legacy, str) else list(legacy or ())
        entries = [c_op(called, params, numbers=numbers)] if c else []
        old = [_legacy(form, params, count, numbers) for form in forms]
        entries += [*doors, *old]
        if inplace:
            entries += [_twin(entry) for entry in (*entries[:1], *old)]
        listed = amp or (old[0].name if old else called)
        names = (listed, "") if isinstance(listed, str) else listed
        return Op(called, formula, params, tuple(entries), amp=names, **fields)

    return declare


def c_op(name: str, params: str, **options: Any) -> Entry:
    """The door ``paddle._C_ops.<name>``."""
    return Entry(f"paddle._C_ops.{name}", params, **options)


def legacy_op(name: str, params: str, *, tensors: int = 1, **options: Any) -> Entry:
    """The door ``paddle._legacy_C_ops.<name>``: ``tensors`` by position, then attributes as pairs of name and value."""
    return Entry(f"paddle._legacy_C_ops.{name}", params, pairs=tensors, **options)


def operator(symbol: str, params: str = "x y") -> Entry:
    """The door ``paddle.Tensor.__<symbol>__``."""
    return Entry(f"paddle.Tensor.__{symbol}__", params)


def method(name: str, params: str, **options: Any) -> Entry:
    """The door ``paddle.Tensor.<name>``."""
    return Entry(f"paddle.Tensor.{name}", params, **options)


def function(target: str, params: str, **options: Any) -> Entry:
    """The door of a Python function of Paddle, by its full name: for what can no longer be known at the C function below."""
    return Entry(target, params, **options)


def _name(word: str) -> str:
    return word.partition("=")[0].partition("|")[0]


def _legacy(form: str, params: str, tensors: int, numbers: tuple[str, ...]) -> Entry:
    """A door of the legacy form by its name, or by name and signature."""
    called, colon, signature = (part.strip() for part in form.partition(":"))
    if not called.isidentifier() or (colon and not signature):
        raise ValueError(f"{form!r} is no legacy form: 'name' or 'name: parameters'")
    words = signature.split()
    if not colon:  # the op's own parameters by their own names
        words = [_name(word) + "".join(word.partition("=")[1:]) for word in params.split()]
    elif "*" in words:
        tensors = words.index("*")
        words.remove("*")
    else:
        tensors = next((place for place, word in enumerate(words) if "=" in word), len(words))
    attributes = {_name(word) for word in words[tensors:]}
    own_numbers = tuple(number for number in numbers if number in attributes)
    return legacy_op(called, " ".join(words), tensors=tensors, numbers=own_numbers)


def _twin(entry: Entry) -> Entry:
    """The in-place form of a door."""
    return Entry(f"{entry.target}_", entry.params, inplace=True, numbers=entry.numbers, pairs=entry.pairs)
