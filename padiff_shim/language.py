"""Languages of readers: sentences that hold their message and their fields, and are translated when they are shown.

A sentence *is* its English text: so it compares, is sorted, is written as JSON and is sent to other processes, whatever language
the reader has. ``str``, ``print`` and f-strings show it in the reader's language, which is the first of the innermost
:func:`language`, ``PADIFF_SHIM_LANG``, and the locale (``LC_ALL``, ``LC_MESSAGES``, ``LANG``; then ``LANGUAGE``). ``str.join``,
slices, a file's ``write`` and methods such as ``replace`` see English: :func:`joined` joins sentences, and ``print`` writes them.
Where a document is built for a reader, inside :func:`language`, a new sentence is plain text at once.

The catalogue is ``locale/zh_CN/LC_MESSAGES/padiff_shim.po``; ``make messages`` brings it up to date with the sources.
"""

from __future__ import annotations

import gettext
import os
import re
import string
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from functools import lru_cache, reduce
from numbers import Integral, Real
from pathlib import Path

FOLDER, DOMAIN = Path(__file__).with_name("locale"), "padiff_shim"
LANGUAGES = {"en": "", "zh": "zh_CN"}  # as lang= and --lang take them -> folder of the catalogue
LANGUAGE_VARIABLE = "PADIFF_SHIM_LANG"
COUNTED, LOGGED = "counted", "logged"  # contexts of nouns behind a number, and of what logs say
_LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set counts
_FIGURE = r"[-+.\de]+%?|inf|nan"  # as a format writes a number
_HAN = re.compile("[\u3400-\u9fff]")
_WIDE_SIGNS = re.compile("[\u3001-\u301f\uff01-\uff0f\uff1a-\uff1f]")  # punctuation that is two columns wide
_language: ContextVar[str] = ContextVar("padiff_shim_language", default="")


class Sentence(str):
    """English text that ``str`` and f-strings show in the reader's language.

    Attributes:
        message: the text with its fields' names in braces.
        fields: their values: text, numbers and sentences.
    """

    __slots__ = ("fields", "message")
    message: str
    fields: Mapping[str, object]

    def __str__(self) -> str:
        catalogue = _catalogue(current())
        return self._shown(catalogue) if catalogue is not None else str.__str__(self)

    def _shown(self, catalogue: gettext.NullTranslations) -> str:
        text = catalogue.gettext(self.message) if self.message else ""
        return _filled(text, self.fields) if self.fields else text

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __add__(self, other: str) -> str:
        return joined("", (self, other)) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: str) -> str:
        return joined("", (other, self)) if isinstance(other, str) else NotImplemented

    def __reduce__(self) -> tuple[object, ...]:
        return _made, (type(self), str.__str__(self), self.message, dict(self.fields))

    def __deepcopy__(self, memo: object) -> Sentence:
        return self


class _Counted(Sentence):
    """A number with a noun."""

    __slots__ = ()

    def _shown(self, catalogue: gettext.NullTranslations) -> str:
        return f"{self.fields['number']:,} {catalogue.pgettext(COUNTED, self.message)}"


class _Joined(Sentence):
    """Several texts behind each other; the message is what stands between them."""

    __slots__ = ()

    def _shown(self, catalogue: gettext.NullTranslations) -> str:
        separator = catalogue.gettext(self.message) if self.message else ""
        first, *further = map(str, self.fields.values()) if self.fields else ("",)
        return reduce(lambda text, part: _beside(_beside(text, separator), part), further, first)


def _filled(text: str, fields: Mapping[str, object]) -> str:
    """``text.format(**fields)`` with the spaces of Chinese around the fields."""
    filled, formatter = "", string.Formatter()
    for words, field, spec, conversion in formatter.parse(text):
        filled = _beside(filled, words)
        if field is not None:
            value = formatter.convert_field(formatter.get_field(field, (), fields)[0], conversion)
            filled = _beside(filled, format(value, spec or ""))
    return filled


def _beside(left: str, right: str) -> str:
    """Two texts behind each other: a space between a Chinese and a Latin word, none beside Chinese punctuation and between Chinese
    words. More than one space is meant as it is, and so are line breaks."""
    start, end = left.removesuffix(" "), right.removeprefix(" ")
    if not start or not end or start[-1].isspace() or end[0].isspace():
        return left + right
    wide = _WIDE_SIGNS.match(start[-1]), _WIDE_SIGNS.match(end[0])
    words = _HAN.match(start[-1]), _HAN.match(end[0])
    if not any((*wide, *words)):
        return left + right
    latin = start[-1].isascii() and start[-1].isalnum(), end[0].isascii() and end[0].isalnum()
    if not any(wide) and any(latin):
        return f"{start} {end}"
    return start + end if any(wide) or all(words) else left + right


def _made(kind: type[Sentence], english: str, message: str, fields: Mapping[str, object]) -> Sentence:
    sentence = str.__new__(kind, english)
    sentence.message, sentence.fields = message, fields
    return sentence


def _settled(sentence: Sentence) -> str:
    """Plain text while a document is built for a reader, so that whatever is done to it there is done in the reader's language."""
    return str(sentence) if _language.get() else sentence


def tr(message: str, /, **fields: object) -> str:
    """A sentence with its fields: ``tr("{count:,} more", count=2000)`` is ``"2,000 more"``, in the reader's language.

    Args:
        message: the English text, a literal, with the fields' names in braces; what stands in a field is not read again.
        fields: numbers and sentences are kept as they are, everything else as its text.
    """
    if not fields:
        return _settled(_made(Sentence, message, message, {}))
    values = {name: _field(value) for name, value in fields.items()}
    return _settled(_made(Sentence, message.format(**{name: english(value) for name, value in values.items()}), message, values))


def many(number: int, noun: str, plural: str = "") -> str:
    """``number`` with a noun: ``"1 call"``, ``"2,000 calls"``; ``plural``: of nouns that do not take an s at their end alone."""
    text = f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
    return _settled(_made(_Counted, text, noun, {"number": int(number)}))


def joined(separator: str, texts: Iterable[object]) -> str:
    """``separator.join(texts)`` that can be translated as its parts can."""
    parts = [_field(text) for text in texts]
    text = separator.join(str(english(part)) for part in parts)
    return _settled(_made(_Joined, text, separator, {str(place): part for place, part in enumerate(parts)}))


def marked(message: str) -> str:
    """``message`` as it is: marks a word of a closed set for the catalogue, where it is defined; ``tr`` gets it later."""
    return message


def fields_of(sentence: str) -> dict[str, object]:
    """The fields of a sentence by their names."""
    return dict(sentence.fields) if isinstance(sentence, Sentence) else {}


def with_fields(sentence: str, **fields: object) -> str:
    """A sentence with other values in some of its fields."""
    assert isinstance(sentence, Sentence)
    return tr(sentence.message, **{**sentence.fields, **fields})


SEPARATORS = marked(", "), marked("; "), marked(": "), marked(" and "), marked(" or ")  # of joined()


def counted(noun: str) -> str:
    """``noun`` as it is: marks a word of a closed set that :func:`many` counts."""
    return noun


def logged(message: str, /, **fields: object) -> str:
    """English text for a log or a recording, a literal with named fields; :func:`from_log` shows it to readers."""
    return message.format(**{name: english(value) for name, value in fields.items()}) if fields else message


_SIDES = "paddle", "torch", "both", logged("paddle and torch")  # before a reason


def from_log(text: str) -> str:
    """A text of a log in the reader's language, by the message that it was made of; unknown text as it is.

    >>> from padiff_shim.language import from_log, language
    >>> with language("zh"):
    ...     from_log("no tensor operand"), from_log("operand of type list")
    ('没有 Tensor 操作数', 'list 类型的操作数')
    """
    if isinstance(text, Sentence):
        return str(text)
    return _read(current(), text) if text else text


@lru_cache(maxsize=4096)
def _read(name: str, text: str) -> str:
    catalogue = _catalogue(name)
    if catalogue is None:
        return text
    whole = catalogue.pgettext(LOGGED, text)
    if whole != text:
        return whole
    for pattern, translation in _templates(name):
        if match := pattern.fullmatch(text):
            return translation.format(**{field: _read(name, value) for field, value in match.groupdict().items()})
    head, semicolon, rest = text.partition("; ")  # two messages behind each other
    if semicolon and rest:
        return f"{_read(name, head)}{catalogue.gettext('; ')}{_read(name, rest)}"
    head, colon, rest = text.partition(": ")  # a side and a message
    return f"{_read(name, head)}: {_read(name, rest)}" if colon and head in _SIDES else text


@lru_cache(maxsize=4)
def _templates(name: str) -> list[tuple[re.Pattern[str], str]]:
    """Patterns of the messages of logs that have fields, those with most words first, and their translations."""
    catalogue = _catalogue(name)
    messages: dict[str, str] = getattr(catalogue, "_catalog", {})
    templates = []
    for key, translation in messages.items():
        context, _, message = str(key).partition("\x04")
        parts = list(string.Formatter().parse(message)) if context == LOGGED and "{" in message else []
        names = [field for _, field, _, _ in parts if field]
        if len(names) == len(set(names)) > 0:
            pattern = "".join(
                re.escape(words) + (f"(?P<{field}>{_FIGURE if spec else '.+?'})" if field else "")
                for words, field, spec, _ in parts
            )
            words = sum(len(words) for words, _, _, _ in parts)
            templates.append((words, re.compile(pattern, re.DOTALL), re.sub(r"\{(\w+)[^{}]*\}", r"{\1}", translation)))
    return [(pattern, translation) for _, pattern, translation in sorted(templates, key=lambda template: -template[0])]


def english(value: object) -> object:
    """The English of a sentence; anything else as it is."""
    return str.__str__(value) if isinstance(value, Sentence) else value


def _field(value: object) -> object:
    """A field: never an object that may hold tensors. An error: its message."""
    if isinstance(value, Exception) and len(value.args) == 1 and isinstance(value.args[0], Sentence):
        value = value.args[0]
    if isinstance(value, Sentence) or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Integral) and not isinstance(value, (bool, Enum)):
        return int(value)
    return float(value) if isinstance(value, Real) and not isinstance(value, (bool, Enum)) else str(value)


@contextmanager
def language(name: str) -> Iterator[None]:
    """For building and showing a document: this thread's or task's sentences are plain text in this language meanwhile; ``""``: in
    :func:`current`."""
    token = _language.set(name or current())
    try:
        yield
    finally:
        _language.reset(token)


def current() -> str:
    """The reader's language, one of :data:`LANGUAGES`."""
    return _language.get() or _of_environment()


def _of_environment() -> str:
    word = os.environ.get(LANGUAGE_VARIABLE, "")
    if word:
        known = _named(word)
        if not known:
            _unknown(word)
        return known or "en"
    locale = next(filter(None, map(os.environ.get, _LOCALE)), "C")
    if locale.split(".")[0] in ("C", "POSIX"):  # there LANGUAGE does not count, as for every program
        return "en"
    words = (os.environ.get("LANGUAGE") or locale).split(":")
    return next(filter(None, map(_named, words)), "en")


def _named(word: str) -> str:
    """``"zh"`` for ``"zh_CN.UTF-8"``; empty for a language that has no catalogue."""
    name = word[:2].lower()
    return name if name in LANGUAGES and not word[2:3].isalpha() else ""


@lru_cache(maxsize=8)
def _unknown(word: str) -> None:
    warnings.warn(f"{LANGUAGE_VARIABLE}={word}: accepted are {', '.join(LANGUAGES)}; English is shown", stacklevel=2)


@lru_cache(maxsize=4)
def _catalogue(name: str) -> gettext.NullTranslations | None:
    """The translations of a language; None for English."""
    folder = LANGUAGES[name]
    return gettext.translation(DOMAIN, FOLDER, [folder]) if folder else None
