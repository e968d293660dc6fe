"""A difference between a program under the shim and natively, and the lines that it comes from."""

from __future__ import annotations

import ast
import re
from collections import Counter
from typing import NamedTuple

import numpy as np

STRANGE = {"nan": np.nan, "inf": np.inf, "nanj": complex(0.0, np.nan), "infj": complex(0.0, np.inf)}  # as Python writes them
Errors = list[tuple[int, str, str]]  # (line, type, text)


class Difference(NamedTuple):
    """A difference, and where it was seen."""

    text: str
    lines: list[str]
    exact: bool  # compare mode alone
    changing: bool = False  # modes open and close in the middle
    others: tuple[str, ...] = ()  # all that differs

    @property
    def made(self) -> str:
        """The line that made the variable that differs."""
        return self.maker(self.text.partition(":")[0].partition(".")[0])

    def maker(self, name: str) -> str:
        """The line that made a variable."""
        return next((line for line in self.lines if re.match(rf"(with .*?: )?(\w+, )*{name}(, \w+)* = ", line)), "")

    @property
    def origins(self) -> list[str]:
        """The lines that made the variable that differs, and what it was made of."""
        lines = [self.made]
        for line in lines:
            lines += [more for name in re.findall(r"\bt\d+\b", line) if (more := self.maker(name)) not in (*lines, "")]
        return lines

    @property
    def stepped(self) -> bool:
        """Whether values differ, where gradients have become values."""
        return self.has("o.step()") and ".value:" in self.text

    @property
    def after_an_error(self) -> bool:
        """Whether gradients differ, or what was made of them."""
        return ".grad" in self.text or self.text.startswith("seen[") or self.made_of_gradients or self.stepped

    @property
    def made_of_gradients(self) -> bool:
        """Whether what differs was computed from gradients."""
        return any(".grad" in line for line in self.origins)

    @property
    def errors(self) -> Errors:
        """The errors here, without those of lines that miss what an earlier one has not made."""
        return [error for error in errors_in(self.text) if error[1] != "NameError"]

    def has(self, *parts: str) -> bool:
        """Whether one line of the program holds all of these."""
        return any(all(part in line for part in parts) for line in self.lines)

    def has_in_order(self, *wanted: tuple[str, ...]) -> bool:
        """Whether there are lines, one behind the other, that each hold one of these."""
        rest = iter(self.lines)
        return all(any(any(part in line for part in parts) for line in rest) for parts in wanted)


def errors_in(text: str) -> Errors:
    """The errors that a difference tells of, of lines that raise none natively."""
    return ast.literal_eval(text.partition(", here ")[2]) if text.startswith("errors: natively [], here ") else []


def way(text: str) -> str:
    """In which way a difference shows, whatever the variables and the lines are called."""
    if text.startswith("accused: "):
        parts = re.match(r"accused: #\d+ (\S+) (\S+)[^|]*\| (\w+)[^|\[]*(\[\w+\])?", text)
        return f"accused {' '.join(filter(None, parts.groups()))}" if parts else text
    if text.startswith("errors: "):
        natively, _, here = text.partition(", here ")
        kinds = [re.findall(r"\(\d+, '(\w+)'", side) for side in (natively, here)]
        return f"errors: natively {only(kinds[0], kinds[1])}, here {only(kinds[1], kinds[0])}"
    name, _, rest = text.partition(": ")
    if rest.startswith("only") or name == "left behind":
        return rest if rest.startswith("only") else name
    key = name.partition(".")[2].rpartition(".")[2] or name
    return f"{key} of None" if "natively None" in rest or rest.endswith("here None") else key


def only(errors: list[str], others: list[str]) -> str:
    """The kinds of errors that the other side has not so often."""
    return " ".join(sorted((Counter(errors) - Counter(others)).elements())) or "none"


def of_numbers(text: str) -> bool:
    """Whether a difference is one of numbers in a value or a gradient."""
    return way(text) in ("value", "grad")


def apart(text: str) -> float:
    """The largest relative difference of two arrays that a difference shows; 0 where it shows none, infinite if not of numbers."""
    arrays = arrays_in(text)
    if arrays is None:
        return np.inf if of_numbers(text) and "natively" in text else 0.0
    ours, theirs = arrays
    with np.errstate(invalid="ignore"):
        ratio = np.nanmax(np.abs(ours - theirs), initial=0.0) / max(np.nanmax(np.abs(ours), initial=0.0), 1e-300)
    return float(np.nan_to_num(ratio, nan=np.inf))


def of_strange_numbers(text: str) -> bool:
    """Whether two arrays differ only where one of them is NaN or infinite."""
    arrays = arrays_in(text)
    if arrays is None:
        return False
    both = np.isfinite(arrays[0]) & np.isfinite(arrays[1])
    return not both.all() and bool(np.allclose(arrays[0][both], arrays[1][both], rtol=1e-3))


def arrays_in(text: str) -> tuple[np.ndarray, np.ndarray] | None:
    """The arrays of numbers that a difference shows, natively and here; None unless there are two of one shape."""
    sides = re.fullmatch(r"\S+(?: \S+)?: (?:other bits: )?natively (.*), here (.*)", text)
    if not sides or not of_numbers(text):
        return None
    try:
        ours, theirs = (np.array(eval(side, STRANGE)) for side in sides.groups())
    except (SyntaxError, NameError, TypeError):
        return None
    numbers = not {ours.dtype.kind, theirs.dtype.kind} & set("bOU")
    return (ours, theirs) if numbers and ours.shape == theirs.shape else None
