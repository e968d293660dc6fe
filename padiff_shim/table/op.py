"""The words in which an op is declared. Pure data: no framework is imported here.

An op is its decorated Torch formula::

    @op("x|input axis|dim=-1", inplace=True, legacy=True, model=models.Softmax(), samples=ROWS)
    def softmax(x, axis):
        return torch.softmax(x, axis)

A family is a module of ``patches/``: its ops are the :class:`Op` objects among its names, each under its own name (with a ``_``
behind it where Python has that name already: ``sum_``). Interception, binding, gradients, tests and reports are derived.

Left out, a word has the value of the commonest case: the entry point is ``paddle._C_ops.<name>`` with the op's own parameters, its
name for autocast that of its legacy form, one tensor, one result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..language import marked
from .samples import Bools, Floats, Ints, Sample, each, ranged
from .signature import REQUIRED, parse

__all__ = [
    "Bools", "Definition", "Entry", "Fault", "Floats", "Ints", "KernelLimits", "Op", "Sample", "c_op", "each",
    "function", "legacy_op", "method", "op", "operator", "ranged",
]  # fmt: skip

Formula = Callable[..., Any]  # of Torch: an op's parameters -> its results

_EXACT, _GENERIC, _TIES, _UNJUDGED = marked("exact"), marked("generic"), marked("ties"), marked("not judged")
AUTOCAST = "autocast"  # beside names of ops: automatic mixed precision by Torch's lists, with its cache of cast weights


@dataclass(frozen=True)
class Entry:
    """An entry point of an op: where a Paddle program calls it. One that the installed Paddle does not have is skipped."""

    target: str
    """Its dotted path: ``paddle._C_ops.matmul`` (a C function), ``paddle.Tensor.__matmul__`` (a descriptor) or
    ``paddle.nn.functional.linear`` (a Python function)."""
    params: str
    """Its own signature, ``"x|input y|other transpose_x=False"``: aliases after ``|``, defaults after ``=``, in positional
    order. Parameters are matched with the op's by name, so a reflected operator is just ``"y x"``."""
    inplace: bool = False
    """It writes the result into its first tensor."""
    numbers: tuple[str, ...] = ()
    """Parameters that must be Python numbers here; a tensor in their place stays native."""
    returns_list: bool = False
    """It hands back ``[result]`` (``_C_ops.einsum``)."""
    with_mask: bool = False
    """On Paddle 2.6 it hands back the result and a mask, which Paddle's own functions drop (``_C_ops.dropout``)."""
    pairs: int | None = None
    """It takes the first so many parameters by position, and after them pairs of an attribute's name and its value
    (``paddle._legacy_C_ops``): the last alias is the name there. A parameter that the op does not have may only be its default,
    but for ``reduce_all=True``, which stands for ``axis=None``."""
    arrange: Callable[..., tuple[Any, ...]] | None = None
    """Turns its own arguments, complete and by position, into the op's (an RNN's lists of states and weights)."""
    when: tuple[str, tuple[Any, ...]] | None = None
    """One of its parameters, and the values of it with which a call is one of this op: several ops may share an entry point."""
    seen_below: bool = False
    """A Python function whose calls below have entry points of their own: where the op stays native here, it is not
    intercepted."""
    mixed_below: bool = False
    """The same for operands of several float dtypes alone."""
    fills: bool = False
    """What is drawn becomes the first parameter's memory, and None is handed back (initializers)."""
    until: str | None = None
    """The target is an older Paddle's name of the op, or has these parameters there alone: it is this entry point only where no
    C function has this name."""
    since: str | None = None
    """It is this entry point only where a C function has this name."""

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


@dataclass(frozen=True)
class KernelLimits:
    """What has to be known of Paddle's kernel before it is run.

    ``cpu=False``: Paddle has it for other devices only. On a CPU it raises; in reference mode the formula answers, and nothing is
    asked about it.
    ``avx512``: on a CPU without AVX-512 it ends the process; there it never runs, not even to learn its dtypes.
    ``once``: it is run as the program calls it, and never again in float64 for a verdict: there it writes outside of its memory.
    ``wanting``: the place of an operand without whose gradient its backward ends the process: a proof's native run asks for it.
    """

    cpu: bool = True
    avx512: bool = False
    once: bool = False
    wanting: int | None = None


class Definition(NamedTuple):
    """An op by Torch's own definition, computed in a mode with ``definitions="torch"``.

    ``differs``: as :attr:`Op.differs`, where a Torch twin may have another value all the same.
    """

    formula: Formula
    differs: Callable[..., str] | None = None

    def __call__(self, *args: Any) -> Any:
        return self.formula(*args)


@dataclass(frozen=True, eq=False)
class Op:
    """A Paddle op and the Torch formula that stands for it; calling it calls the formula.

    Attributes:
        name: the op's name, under which runs count its calls.
        reference: the Torch formula.
        params: the signature, as in :func:`op`.
        entries: where Paddle programs call the op.
        amp: the names under which autocast lists the op, the second beside a Python number.

    What stands below each other field says what it means; all may be left out, as keywords of :func:`op`.

    >>> double = op("x", name="double", samples=(Sample((3,)),))(lambda x: x + x)
    >>> double(21), double.names, double.entries[0].target
    (42, ['x'], 'paddle._C_ops.double')
    """

    name: str
    reference: Formula
    params: str
    entries: tuple[Entry, ...]
    amp: tuple[str, str] = ("", "")
    samples: tuple[Sample, ...] = ()
    """Arguments to try the op with."""
    refusals: tuple[Sample, ...] = ()
    """Arguments that Paddle refuses; under the shim they raise the same type of error."""
    tensors: int = 1
    """How many leading parameters are tensors (or numbers in a tensor's place); if left out, those that the formula declares as
    tensors, or 1 where it declares none. 0 for an op that creates its result from numbers: ``shape``, ``dtype`` and ``place`` are
    Torch's for the formula, and ``var``, what it fills."""
    operands: bool = False
    """The first parameter is a sequence of tensors, and the only one with tensors."""
    results: tuple[str, ...] = ("out",)
    """Names of the results; ``("out",)`` if left out."""
    writes: Mapping[int, str] = field(default_factory=dict)
    """Position of a result -> name of the operand in whose memory it is written (running statistics). Where the formula has
    None for it, that operand stays as it is."""
    overwrites: tuple[str, ...] = ()
    """Operands that Paddle's function spoils on its way to its result: a comparison gives Torch's formula copies."""
    scratch: tuple[str, ...] = ()
    """Results that are not judged: those that no program reads."""
    unwritten: tuple[str, ...] = ()
    """Results that nobody but Paddle's own backward reads, and that its kernel leaves unwritten where no backward will: they
    hold whatever lay in memory, and are neither judged nor recorded."""
    unset: Mapping[str, str] = field(default_factory=dict)
    """Results that are tensors without memory in Paddle where the formula gives None -> the operand whose shape they have; ""
    where that is [0]."""
    integers: tuple[str, ...] = ()
    """Operands that may be whole numbers, and then have no gradient, where no sample gives them as such."""
    promote: str = "result"
    """``"result"``, if left out: every tensor is cast to the dtype that the native op returns before the formula runs.
    ``"none"`` leaves dtypes to the formula (layer norm keeps float32 weights beside float16 input; labels stay integers).
    ``"same"`` casts nothing where all float operands share one dtype, and leaves other calls native, without a question about
    dtypes. ``"alike"`` is ``"result"`` where they share one, or have one by autocast, and leaves other calls native (ops whose
    parts each compute in the dtype of their own operands)."""
    integer: bool = False
    """Integer and bool results are computed by the formula too; otherwise they stay native, being exact in both."""
    elementwise: bool = False
    """An element of the result depends on the operands' elements in its place only (asked where an in-place op of several
    tensors has the target as another operand, too)."""
    exact: bool = False
    """The op moves or selects values and rounds nothing: substituted in reference mode, so that Torch's graph goes on through
    it; in compare mode a value that differs is wrong, and gradients are sums of what arrives."""
    complex: bool = False
    """It takes complex operands as well; otherwise such calls stay native."""
    random: Callable[..., bool] | None = None
    """Called with the op's arguments, as Paddle made the call: whether this call draws random numbers. Such calls are
    substituted in a mode with ``random="torch"`` only. The native op never runs to learn about them: Paddle's generator stays
    where it is."""
    limits: KernelLimits = KernelLimits()
    """What Paddle's kernel does not stand."""
    passes_empty: bool = False
    """An operand without elements adds nothing to what others give; other calls with one stay native."""
    gradient: bool = True
    """False where Paddle gives the results no gradient, whatever Torch would."""
    copies_result: bool = False
    """Torch's backward reads the result where Paddle's does not. The program may change it, so Torch's graph keeps a copy."""
    unread: tuple[str, ...] = ()
    """Operands that Torch's graph keeps although its backward does not read their values, so that they may change."""
    by_layout: bool = False
    """Torch chooses by the operands' sizes and strides, too, what its backward reads (beyond copying what has strides)."""
    layouts: Mapping[str, str] = field(default_factory=dict)
    """``{"weight": "transposed"}`` marks the parameter of which the formula wants a contiguous transposed copy."""
    products: bool = False
    """Paddle's function in Python multiplies or convolves inside, by the kernel that ``amp`` names: autocast casts there even
    where all operands are float32."""
    probes: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Parameters of the op that no entry point has: name -> function of Paddle's own function and of one that makes its
    tensors, called once a process, whose answer is the parameter's value. For what Paddle's versions compute otherwise."""
    definition: Definition | None = None
    """The op by Torch's own definition, where Paddle means another by the name."""
    differs: Callable[..., str] | None = None
    """Called with the formula's arguments; a sentence for the run where Paddle's and Torch's definitions give this call another
    value or gradient, else ``""``."""
    model: Any = None
    """The op's rounding model (:mod:`padiff_shim.numerics.models`): its bound, its hypotheses and those of its gradients."""
    deviations: Mapping[str, str] = field(default_factory=dict)
    """Where native Paddle differs from the formula by more than rounding on the op's own samples: ``"float64"`` (or another
    dtype), ``"gradient"``, or ``"gradient float64"`` -> why. The tests hold those values against Torch's alone."""
    faults: Mapping[str, Fault] = field(default_factory=dict)
    """What a kernel is known to compute instead: a name -> a :class:`Fault`. For ops without a model; a comparison gives the
    name where that formula, or its gradient, explains the whole tensor."""
    ties: Any = None
    """Where the op has several right answers, and which (:mod:`padiff_shim.numerics.ties`): equal elements of a maximum, the
    kink of an absolute value, half of a whole number. Of such a difference a comparison says TIE."""
    steps: bool = False
    """Its result jumps where an operand passes some point (``floor``, ``argmax``): differences before it are amplified there,
    and reports say so."""
    oracle: Formula | None = None
    """What the op means, as a Torch formula of its parameters, where Torch's own kernel computes something else: a comparison
    holds both kernels against it."""
    aligned: Callable[..., Sequence[Any]] | None = None
    """Of results that the op leaves free in part (an order, signs, a basis): called with the formula's results and with others
    of the same call, gives the former as near to the latter as the op's meaning allows. Comparisons call it before they
    judge."""
    note: str = ""
    """One sentence where Paddle's meaning is not that of the Torch function of that name; for docs/ops.md."""

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
            return _UNJUDGED
        named = _EXACT if self.exact else f"`{type(self.model).__name__}`" if self.model else _GENERIC
        return f"{named}, {_TIES}" if self.ties else named

    @functools.cached_property
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
    python: str = "",
    inplace: bool = False,
    numbers: tuple[str, ...] = (),
    legacy: bool | str | Sequence[str] = False,
    more_entries: tuple[Entry, ...] = (),
    amp: str | tuple[str, str] = "",
    **fields: Any,
) -> Callable[[Formula], Op]:
    """The decorator that makes an :class:`Op` of a Torch formula: ``@op(...)``, or ``op(...)(torch.expm1)``.

    The formula takes all of ``params`` by position, tensors as Torch tensors, and returns a tensor, or where Paddle's function
    returns several results a tuple or list of them, as that does (None for one that Paddle leaves empty). It raises
    ``NotImplementedError`` for what it does not cover: such a call runs natively, and its message is the reason that is counted.

    Args:
        params: the signature, ``"x|input axis|dim=-1"``: aliases after ``|``, defaults after ``=``. The tensors come first.
        name: the op's name, if it is not the formula's.
        c: the entry point ``paddle._C_ops.<name>`` with these parameters. False for an op that has other ``more_entries`` only.
        python: in its place, a Python function of Paddle with these parameters, by its full name.
        inplace: also ``paddle._C_ops.<name>_``, and ``<legacy name>_``, which write the result into their first tensor.
        numbers: parameters that are Python numbers at these entry points; a tensor there stays native.
        legacy: entry points of ``paddle._legacy_C_ops``. True: the same name and parameters. Else strings (one or several): another
            name, ``"matmul_v2"``, or name and signature, ``"reduce_sum: x axis|dim=[0] keep_dim=False"``, in which the last alias
            is the attribute's name there. Positional are the leading parameters without default, or those before a ``*``.
        more_entries: more entry points, see :func:`c_op`, :func:`operator`, :func:`function`, :func:`method`, :func:`legacy_op`.
        amp: the name (Paddle's legacy one) under which autocast lists the op; a pair if it is another beside a Python number.
            If left out: the first legacy entry point's, or the op's.
        fields: those of :class:`Op`.

    Raises:
        ValueError: at once, naming the op, for a legacy string that is none.

    >>> @op("x axis|dim=-1", legacy=True, samples=(Sample((3, 4)), Sample((3, 4), axis=0)))
    ... def flip(x, axis):
    ...     return x.flip(axis)
    >>> flip.name, [entry.target for entry in flip.entries]
    ('flip', ['paddle._C_ops.flip', 'paddle._legacy_C_ops.flip'])
    """

    def declare(formula: Formula) -> Op:
        called = name or formula.__name__.strip("_")
        # How many leading parameters a formula declares as tensors; 1 of one that declares none, or a sequence of them
        code = getattr(formula, "__code__", None)
        names = () if code is None else code.co_varnames[: code.co_argcount]
        declared = ["Tensor" in str(formula.__annotations__.get(name)) for name in names]
        tensors = fields.setdefault("tensors", max(1, (*declared, False).index(False)))
        forms = [called] if legacy is True else [legacy] if isinstance(legacy, str) else list(legacy or ())
        entries = [function(python, params)] if python else [c_op(called, params, numbers=numbers)] if c else []
        old = [_legacy(form, params, tensors, numbers) for form in forms]
        entries += [*more_entries, *old]
        if inplace:
            entries += [
                Entry(f"{entry.target}_", entry.params, inplace=True, numbers=entry.numbers, pairs=entry.pairs)
                for entry in (*entries[:1], *old)
            ]
        listed = amp or (old[0].name if old else called)
        return Op(called, formula, params, tuple(entries), (listed, "") if isinstance(listed, str) else listed, **fields)

    return declare


def c_op(name: str, params: str, **options: Any) -> Entry:
    """The entry point ``paddle._C_ops.<name>``."""
    return Entry(f"paddle._C_ops.{name}", params, **options)


def legacy_op(name: str, params: str, *, tensors: int = 1, **options: Any) -> Entry:
    """The entry point ``paddle._legacy_C_ops.<name>``: ``tensors`` by position, then attributes as pairs of name and value."""
    return Entry(f"paddle._legacy_C_ops.{name}", params, pairs=tensors, **options)


def operator(symbol: str, params: str = "x y") -> Entry:
    """The entry point ``paddle.Tensor.__<symbol>__``."""
    return Entry(f"paddle.Tensor.__{symbol}__", params)


def method(name: str, params: str, **options: Any) -> Entry:
    """The entry point ``paddle.Tensor.<name>``."""
    return Entry(f"paddle.Tensor.{name}", params, **options)


def function(target: str, params: str, **options: Any) -> Entry:
    """A Python function of Paddle, by its full name, for what the C function below can no longer know."""
    return Entry(target, params, **options)


def _name(word: str) -> str:
    return word.partition("=")[0].partition("|")[0]


def _legacy(form: str, params: str, tensors: int, numbers: tuple[str, ...]) -> Entry:
    """An entry point of the legacy form by its name, or by name and signature."""
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
