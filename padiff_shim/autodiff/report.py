"""What a call of ``auto_diff`` prints at its end, and the folder that it writes."""

from __future__ import annotations

import json
import linecache
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..dispatch.call_site import at_line
from ..errors import FileError
from ..modes.environment import versions
from ..present import markdown
from ..present.document import Code, Document, Section, untested_words, version_words
from ..proof.proof import Proof
from ..proof.prove import prove
from ..text import SENTENCE, shown, tr
from .arguments import AutoDiffCall
from .differences import LayerPlace, StageDifference
from .models import Model, log
from .pairs import Pairing
from .running import mean_loss


@dataclass
class Explanation:
    """What :func:`padiff_shim.prove` says of a difference. ``headline``: the proof's, or why there is no proof."""

    proof: Proof | None
    headline: str

    @property
    def right(self) -> bool:
        """Whether the proof shows that the port is right."""
        return bool(self.proof)

    @property
    def lines(self) -> list[str]:
        """The mistakes, each with its line in both programs."""
        lines = []
        for number, mistake in enumerate(self.proof.mistakes if self.proof is not None else (), 1):
            lines.append(f"{number}. {mistake}")
            for side, place in (("paddle", mistake.paddle), ("torch ", mistake.torch)):
                where = f"{at_line(place.file, place.line)}: {place.source}" if place else tr("no counterpart")
                lines.append(f"     {side} {where}")
            if mistake.fix is not None:
                lines.append(f"     {mistake.fix.label:6} {mistake.fix}")
        return lines


def explained(call: AutoDiffCall, pairing: Pairing, difference: StageDifference) -> Explanation:
    """Prove the port with the models' weights as they are now."""
    if call.alike:
        return Explanation(None, tr("both models are of one framework: there is nothing to prove"))
    torch_first = call.models[0].framework == "torch"
    order = (1, 0) if torch_first else (0, 1)
    port, original = (call.models[place].model for place in order)
    inputs = {call.models[place].framework: call.inputs[place] for place in (0, 1)}
    losses = call.losses or (mean_loss, mean_loss)
    paddle_loss, torch_loss = (losses[place] for place in order)
    phase = "forward" if difference.stage == "forward" or call.options.diff_phase == "forward" else "both"
    named: dict[str, Any] = {
        "weights": ("torch->paddle" if torch_first else "paddle->torch") if call.options.auto_init else "as-is",
        "layer_map": pairing.pins or None,
        "seed": call.options.seed,
    }
    if phase == "both" or call.losses:
        named["loss"] = (paddle_loss, torch_loss)
    try:
        proof = prove(port, original, lambda framework: inputs[framework], phase=phase, **named)
    except Exception as error:  # the verdict of the comparison stands without it
        return Explanation(
            None, tr("no proof was possible ({name}: {error})", name=type(error).__name__, error=str(error).splitlines()[0][:300])
        )
    return Explanation(proof, proof.headline)


FILES = ("report.md", "report.json", "proof.html", "base_model.log", "raw_model.log", "grads_diff.log", "weights_diff.log")
_HERE = "    <---  *** HERE ***"


@dataclass
class Report:
    """The outcome of a call. ``reason``: why the call ended before it compared anything."""

    call: AutoDiffCall
    agree: bool = False
    steps: int = 0
    reason: str = ""
    difference: StageDifference | None = None
    explanation: Explanation | None = None
    environment: dict[str, str] = field(default_factory=versions)

    @property
    def proof(self) -> Proof | None:
        """The proof that explains the difference, if there is one."""
        return self.explanation.proof if self.explanation is not None else None


def publish(report: Report) -> None:
    """Print the outcome and write the report folder.

    Raises:
        FileError: the folder cannot be written.
    """
    lines = [*untested_words(report.environment), version_words(report.environment), *_lines(report)]
    for line in lines:
        log(line)
    if report.call.options.report_dir:
        folder = Path(report.call.options.report_dir).absolute()
        write(report, lines, folder)
        log(f"Report: {folder / 'report.md'}")
    log("SUCCESS !!!" if report.agree else "FAILED !!!")


def _lines(report: Report) -> list[str]:
    """The paragraphs that are printed."""
    if report.reason:
        return [report.reason]
    difference = report.difference
    if difference is None:
        return [f"{report.steps} step(s) compared: {', '.join(_stages(report.call))} agree."]
    lines = [
        tr("Diff found in {title} Stage, step {step}", title=difference.stage.title(), step=difference.step),
        tr("    Type of layer is: {base} vs {raw}", base=difference.base.kind, raw=difference.raw.kind),
        f"    Route: {difference.base.route}\n                      {difference.raw.route}",
    ]
    if difference.stage == "forward" and difference.base.route == report.call.models[0].name:
        lines.append(tr("    The layers inside that stand for each other agree: the difference is made between them."))
    lines.append(f"    {shown(difference.text, SENTENCE)}")
    lines += [tr("{weights} weights differ", weights=len(difference.weights))] if len(difference.weights) > 1 else []
    for model, place in zip(report.call.models, (difference.base, difference.raw)):
        if place.stack:
            lines.append(f"{model.framework.title()} stack:\n" + "\n".join(_frames(place)))
    explanation = report.explanation
    if explanation is not None:
        lines.append("Why: " + "\n".join([shown(explanation.headline, SENTENCE), *explanation.lines]))
    return lines


def _stages(call: AutoDiffCall) -> list[str]:
    phase = call.options.diff_phase
    stages = ["forward"] if phase != "backward" else []
    stages += ["loss"] if call.losses and phase != "backward" else []
    stages += ["backward"] if phase != "forward" else []
    return stages + (["weights"] if call.optimizers else [])


def _frames(place: LayerPlace) -> list[str]:
    lines = []
    for site in place.stack:
        lines.append(f"    File {site.file}: {site.line} in {site.function}")
        source = linecache.getline(site.file, site.line).strip()
        lines += [f"        {shown(source)}"] if source else []
    return lines


def write(report: Report, lines: list[str], folder: Path) -> None:
    """Write the folder's files, and remove those of an earlier call that this one does not write.

    Raises:
        FileError: the folder cannot be written.
    """
    contents = {
        "report.md": markdown.render(_document(report, lines)),
        "report.json": json.dumps(to_dict(report), indent=1) + "\n",
        "base_model.log": _tree(report.call.models[0], report.difference.base if report.difference else None),
        "raw_model.log": _tree(report.call.models[1], report.difference.raw if report.difference else None),
    }
    difference = report.difference
    if difference is not None and difference.weights:
        contents["weights_diff.log" if difference.stage == "weights" else "grads_diff.log"] = _weights(report.call, difference)
    if report.proof is not None:
        contents["proof.html"] = report.proof.html()
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
            tr(
                "report_dir= {folder} cannot be written: {strerror} (report_dir=None writes none; {outcome})",
                folder=folder,
                strerror=error.strerror or error,
                outcome=tr("the models agree") if report.agree else tr("the models differ"),
            )
        ) from error


def to_dict(report: Report) -> dict[str, Any]:
    """The outcome as plain data."""
    return {
        "agree": report.agree,
        "steps": report.steps,
        "models": [{"name": model.name, "framework": model.framework} for model in report.call.models],
        "environment": report.environment,
        "options": {name: value for name, value in vars(report.call.options).items() if name != "notes"},
        "notes": list(report.call.options.notes),
        "reason": report.reason,
        "difference": report.difference.to_dict() if report.difference is not None else None,
        "explanation": report.explanation.headline if report.explanation is not None else None,
        "proof": report.proof.to_dict() if report.proof is not None else None,
    }


def _document(report: Report, lines: list[str]) -> Document:
    base, raw = (f"{model.name} ({model.framework})" for model in report.call.models)
    title = (
        tr("{base} and {raw}: agree", base=base, raw=raw) if report.agree else tr("{base} and {raw}: differ", base=base, raw=raw)
    )
    proof = [] if report.proof is None else [Section(report.proof.headline, report.proof.content().parts)]
    return Document(title, [*(Code(line.splitlines()) for line in lines), *proof])


def _weights(call: AutoDiffCall, difference: StageDifference) -> str:
    base, raw = call.models
    what = "value" if difference.stage == "weights" else "gradient"
    head = f"{'=' * 25}\n{what} differs\n"
    return "\n".join(
        f"{head}    {base.name}.{name}\n    {raw.name}.{partner}\n{how}\n" for name, partner, how in difference.weights
    )


def _tree(model: Model, place: LayerPlace | None) -> str:
    """The model's layers as a tree, with the one that differs marked."""
    here = place.route.removeprefix(model.name).lstrip(".") if place is not None else None
    if place is not None and place.kind == "weight":
        here = (here or "").rpartition(".")[0]
    lines = [model.name, "=" * 40]
    for layer_path, layer in model.layers:
        depth = layer_path.count(".") + 1 if layer_path else 0
        name = f"{layer_path.rpartition('.')[2]}: " if layer_path else ""
        lines.append(f"{'    ' * depth}{name}{type(layer).__name__}{_HERE if layer_path == here else ''}")
    return "\n".join(lines) + "\n"
