"""What a name says: the same layer is ``query`` in one model and ``q_proj`` in another."""

from __future__ import annotations

import functools
import re

# Words for one thing; the first stands for all.
_SYNONYMS = (
    "q query queries qproj wq",
    "k key keys kproj wk",
    "v value values vproj wv",
    "out output o wo",
    "attn attention attend",
    "embedding embeddings embed emb embeds",
    "word words token tokens wte tok",
    "position positions positional pos wpe",
    "norm layernorm ln bn batchnorm rmsnorm groupnorm gn instancenorm normalization",
    "linear dense fc lin",
    "mlp ffn feedforward ff",
    "cross crossattn multihead",
    "downsample shortcut",
    "head classifier cls",
    "encoder enc",
    "decoder dec",
)
_SAME = {word: line.split()[0] for line in _SYNONYMS for word in line.split()}
# Words that any layer may have.
_GENERIC = frozenset(
    [
        "linear",
        "proj",
        "projection",
        "layer",
        "layers",
        "norm",
        "conv",
        "conv1d",
        "weight",
        "module",
        "block",
        "blocks",
        "list",
        "to",
        "the",
        "sub",
        "my",
        "w",
    ]
)

# The roles of weights in a layer, in Torch's words.
_ROLES = {
    "gamma": "weight",
    "scale": "weight",
    "_weight": "weight",
    "beta": "bias",
    "_bias": "bias",
    "_mean": "running_mean",
    "moving_mean": "running_mean",
    "_variance": "running_var",
    "moving_variance": "running_var",
}

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def role(name: str) -> str:
    """The canonical role of a weight of that name in its layer."""
    return _ROLES.get(name, name)


@functools.lru_cache(maxsize=10_000)
def words(name: str) -> tuple[str, ...]:
    """The words of a dotted name, each in the one form that stands for it; numbers are words."""
    return tuple(_SAME.get(word.lower(), word.lower()) for word in _WORD.findall(name))


def telling(name: str) -> frozenset[str]:
    """The words of a name that tell its layer from others; numbers, which tell of order only, do not."""
    return frozenset(word for word in words(name) if word not in _GENERIC and not word.isdigit())


def plain(name: str) -> tuple[str, ...]:
    """The telling words of a weight's full name, with its numbers and its role: ``h.0.up.bias`` and ``w0_up_b`` say the same.

    Nothing if it tells numbers and a role alone.
    """
    path, last = parent(name), leaf(name)
    found = [word for word in words(path) if word not in _GENERIC]
    found += [_LETTERS.get(word, word) for word in words(_ROLES.get(last, last))]
    found = [word for word in found if word not in _GENERIC]
    return tuple(found) if any(word != "bias" and not word.isdigit() for word in found) else ()


# Roles of weights at the end of a name; that of a matrix goes without saying.
_LETTERS = {"b": "bias", "beta": "bias", "g": "weight", "gamma": "weight", "scale": "weight", "kernel": "weight"}


def starred(name: str) -> str:
    """A name as a pattern for the same of all layers: with a ``*`` for each number."""
    return ".".join("*" if word.isdigit() else word for word in name.split("."))


def relative(path: str, scope: str) -> str:
    """The part of a path below ``scope``."""
    return path[len(scope) + 1 :] if scope and path.startswith(f"{scope}.") else path


def parent(name: str) -> str:
    return name.rpartition(".")[0]


def leaf(name: str) -> str:
    return name.rpartition(".")[2]


def joined(*parts: str) -> str:
    return ".".join(filter(None, parts))
