"""What a run has found, in words."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

Record = dict[str, Any]


def summary(records: list[Record]) -> str:
    """Counts, and each kind of failure with its smallest program."""
    counts: Counter[str] = Counter({"programs": len(records)})
    kinds: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        counts.update({"lines": record["lines"], **record["counts"]})
        if "failure" in record:
            kinds[record["failure"]["kind"]].append(record)
    lines = [f"{count:6}  {reason}" for reason, count in sorted(counts.items())]
    for kind, those in sorted(kinds.items(), key=lambda item: -len(item[1])):
        first = min(those, key=lambda record: len(record["failure"]["program"]))
        numbers = ", ".join(str(record["program"]) for record in those[:8])
        failure = first["failure"]
        lines += ["", f"{len(those)} x {kind} (programs {numbers})", *(f"    {line}" for line in failure["program"])]
        lines += [f"  - {text[:300]}" for text in failure["texts"][:3]]
    return "\n".join(lines)
