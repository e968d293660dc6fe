"""One training step of sixteen models under `padiff_shim.compare("torch")`: what is judged, how, and what is found.

Exit status 1: of a model's elements more than one in a hundred got no verdict.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from tables import explain, models_of, new_table, rows_of

import padiff_shim

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="No ccache found")  # Paddle's advice for compiling; nothing is compiled here
    import torch
    from zoo import PAIRS, pairs

LIMIT = 0.01  # of the elements may be without a verdict
COLUMNS = {
    "judged": "results and gradients that were compared",
    "known": "difference that is documented (docs/defects.md, docs/ops.md)",
    "negligible": "more than an element's own rounding, and rounding beside the tensor as a whole",
    "more": "anything else",
    "no verdict": "share of the elements of float results",
}
MINOR = ("EQUAL", "ROUNDING")


class Row(NamedTuple):
    """What one model showed in one dtype."""

    name: str
    dtype: str
    verdicts: Counter[str]  # what is set apart by its reason, all else by its verdict
    unjudged: float  # share of the elements
    findings: dict[str, int]  # differences beyond rounding, in words: records

    @property
    def more(self) -> int:
        """Results that are neither equal, nor rounding, nor set apart."""
        return sum(count for name, count in self.verdicts.items() if name not in (*MINOR, "known", "negligible"))


def measure(name: str, dtype: str) -> Row:
    """Compare one step of a model."""
    pair = pairs.build(name, dtype)
    with padiff_shim.compare("torch") as run:
        pairs.paddle_step(pair)
    verdicts: Counter[str] = Counter()
    for (_, verdict, _, why), count in run.counts.kinds.items():
        verdicts[verdict if verdict in MINOR else why or verdict] += count
    counts = Counter[str]()
    for finding in run.by_line():
        counts[described(finding.worst, finding.apart)] += finding.records
    coverage = run.coverage()
    return Row(name, dtype, verdicts, 1 - coverage["checked_elements"] / coverage["float_elements"], counts)


def described(record: Any, why: str) -> str:
    """A finding in words: the op, its verdict, and what is known of it."""
    words = [record["op"], record["verdict"], record.get("quirk") or why]
    return " ".join(word for word in words if word)


def shown(rows: list[Row]) -> Table:
    """All rows as one table."""
    table = new_table("one step", "", "judged", "equal", "rounding", "known", "negligible", "more", "no verdict")
    for row in rows:
        counts = (row.verdicts[name] for name in (*MINOR, "known", "negligible"))
        table.add_row(row.name, row.dtype, str(row.verdicts.total()), *map(str, counts), str(row.more), f"{row.unjudged:.2%}")
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options = models_of(parser, PAIRS)
    torch.set_num_threads(1)
    console = Console()
    rows = rows_of(console, options, measure)
    console.print(shown(rows))
    explain(console, COLUMNS)
    places: dict[str, list[str]] = {}
    for row in rows:
        for what, count in row.findings.items():
            places.setdefault(what, []).append(f"{row.name} {row.dtype} ({count})")
    for what, where in sorted(places.items()):
        console.print(f"{what}: {', '.join(where)}", markup=False, highlight=False)
    good = sum(row.unjudged <= LIMIT for row in rows)
    console.print(f"{good} of {len(rows)} rows with a verdict for at least {1 - LIMIT:.0%} of all elements.", highlight=False)
    return 0 if good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
