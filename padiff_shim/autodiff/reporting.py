"""What a call prints at its end, and the folder that it leaves."""

from __future__ import annotations

import json
import linecache
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import FileError
from ..text import SENTENCE, shown
from .calling import Call
from .explaining import Explanation
from .finding import Difference, Place
from .models import Model
from .printing import log
from .running import Pass

FILES = ("report.md", "report.json", "proof.html", "base_model.log", "raw_model.log", "grads_diff.log", "weights_diff.log")
_HERE = "    <---  *** HERE ***"


@dataclass
class Report:
    """The outcome of a call. ``reason``: why it ended before anything was compared."""

    call: Call
    agree: bool = False
    steps: int = 0
    reason: str = ""
    difference: Difference | None = None
    explanation: Explanation | None = None
    passes: tuple[Pass, Pass] | None = None

    @property
    def folder(self) -> Path | None:
        name = self.call.options.report_dir
        return Path(name).absolute() if name else None


def reported(report: Report) -> None:
    """Print the outcome and write the report folder.

    Raises:
        FileError: the folder cannot be written.
    """
    lines = _lines(report)
    for line in lines:
        log(line)
    folder = report.folder
    if folder is not None:
        write(report, lines, folder)
        log(f"Report: {folder / 'report.md'}")
    log("SUCCESS !!!" if report.agree else "FAILED !!!")


def _lines(report: Report) -> list[str]:
    """What is printed, paragraph by paragraph."""
    if report.reason:
        return [report.reason]
    found = report.difference
    if found is None:
        return [f"{report.steps} step(s) compared: {', '.join(_stages(report.call))} agree."]
    lines = [
        f"Diff found in {found.stage.title()} Stage, step {found.step}",
        f"    Type of layer is: {found.base.kind} vs {found.raw.kind}",
        f"    Route: {found.base.route}\n                      {found.raw.route}",
    ]
    if found.stage == "forward" and found.base.route == report.call.models[0].name:
        lines.append("    The layers inside that stand for each other agree: the difference is made between them.")
    lines += [
        f"    {shown(found.text, SENTENCE)}",
    ]
    lines += [f"{len(found.weights)} weights differ"] if len(found.weights) > 1 else []
    for model, place in zip(report.call.models, (found.base, found.raw)):
        if place.stack:
            lines.append(f"{model.framework.title()} stack:\n" + "\n".join(_frames(place)))
    explanation = report.explanation
    if explanation is not None:
        lines.append("Why: " + "\n".join([shown(explanation.headline, SENTENCE), *explanation.lines]))
    return lines


def _stages(call: Call) -> list[str]:
    phase = call.options.diff_phase
    found = ["forward"] if phase != "backward" else []
    found += ["loss"] if call.losses and phase != "backward" else []
    found += ["backward"] if phase != "forward" else []
    return found + (["weights"] if call.optimizers else [])


def _frames(place: Place) -> list[str]:
    found = []
    for site in place.stack:
        found.append(f"    File {site.file}: {site.line} in {site.function}")
        source = linecache.getline(site.file, site.line).strip()
        found += [f"        {shown(source)}"] if source else []
    return found


def write(report: Report, lines: list[str], folder: Path) -> None:
    """Write the folder's files; those of an earlier call are replaced, and removed where there is nothing to say.

    Raises:
        FileError: it cannot be written.
    """
    contents = {
        "report.md": _markdown(report, lines),
        "report.json": json.dumps(as_dict(report), indent=1) + "\n",
        "base_model.log": _tree(report.call.models[0], report.difference.base if report.difference else None),
        "raw_model.log": _tree(report.call.models[1], report.difference.raw if report.difference else None),
    }
    found = report.difference
    if found is not None and found.weights:
        contents["weights_diff.log" if found.stage == "weights" else "grads_diff.log"] = _weights(report.call, found)
    if report.explanation is not None and report.explanation.proof is not None:
        contents["proof.html"] = report.explanation.proof.to_html()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            target = folder / name
            if name in contents:
                partial = folder / f".{name}.{os.getpid()}"
                partial.write_text(contents[name], encoding="utf-8")
                partial.replace(target)
            else:
                target.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(
            f"report_dir= {folder} cannot be written: {error.strerror or error} (report_dir=None writes none; the models "
            f"{'agree' if report.agree else 'differ'})"
        ) from error


def as_dict(report: Report) -> dict[str, Any]:
    """The outcome in plain types."""
    proof = report.explanation.proof if report.explanation is not None else None
    return {
        "agree": report.agree,
        "steps": report.steps,
        "models": [{"name": model.name, "framework": model.framework} for model in report.call.models],
        "options": {name: value for name, value in vars(report.call.options).items() if name != "notes"},
        "notes": list(report.call.options.notes),
        "reason": report.reason,
        "difference": report.difference.as_dict() if report.difference is not None else None,
        "explanation": report.explanation.headline if report.explanation is not None else None,
        "proof": proof.as_dict() if proof is not None else None,
    }


def _markdown(report: Report, lines: list[str]) -> str:
    base, raw = report.call.models
    title = f"# {base.name} ({base.framework}) and {raw.name} ({raw.framework}): {'agree' if report.agree else 'differ'}"
    body = [f"```\n{line}\n```" for line in lines]
    proof = report.explanation.proof if report.explanation is not None else None
    return "\n\n".join([title, *body, *([proof.to_markdown()] if proof is not None else [])]) + "\n"


def _weights(call: Call, found: Difference) -> str:
    base, raw = call.models
    what = "value" if found.stage == "weights" else "gradient"
    head = f"{'=' * 25}\n{what} differs\n"
    blocks = [f"{head}    {base.name}.{one}\n    {raw.name}.{other}\n{how}\n" for one, other, how in found.weights]
    return "\n".join(blocks)


def _tree(model: Model, place: Place | None) -> str:
    """The model's layers as a tree, with the one that differs marked."""
    here = place.route.removeprefix(model.name).lstrip(".") if place is not None else None
    if place is not None and place.kind == "weight":
        here = (here or "").rpartition(".")[0]
    lines = [model.name, "=" * 40]
    for path, layer in model.layers:
        depth = path.count(".") + 1 if path else 0
        name = f"{path.rpartition('.')[2]}: " if path else ""
        lines.append(f"{'    ' * depth}{name}{type(layer).__name__}{_HERE if path == here else ''}")
    return "\n".join(lines) + "\n"
