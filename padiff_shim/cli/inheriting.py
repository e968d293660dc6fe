"""What a program's ranks are told of the run that they are part of: ``padiff-shim run`` writes it into the environment, and they
read it (``bootstrap/sitecustomize.py``)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import ArgumentError
from ..modes.options import MODES, Options, as_data, from_data, textual
from ..modes.settings import RUN, Setting
from .bootstrap import sitecustomize

_FOLDER = os.path.dirname(os.path.abspath(sitecustomize.__file__))
_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True)
class Inheritance:
    """A run, for its ranks.

    Attributes:
        mode, options, owed: the mode with its options, and what of them was taken from settings: in whichever folder a rank stands.
        command: what the run was started with, for the header of a log.
        notes: the folder where ranks leave word of themselves (:mod:`.notes`).
        inside: what makes the process of the run itself a rank; nothing if it is none.
        version, root, package, module: of this library, and where ranks enter.
    """

    mode: str
    options: dict[str, Any]
    owed: dict[str, list[Any]]
    command: str
    notes: str
    inside: list[str]
    version: str = __version__
    root: str = str(Path(__file__).resolve().parents[2])
    package: str = _PACKAGE
    module: str = f"{__package__}.rank"

    @classmethod
    def of(cls, options: Options, owed: Mapping[str, Setting], command: str, notes: str) -> Inheritance:
        """The run with these options of a mode."""
        mode = next(name for name, kind in MODES.items() if type(options) is kind)
        held = {name: as_data(getattr(options, name)) for name in textual(MODES[mode])}
        settings = {name: [as_data(one.value), one.origin] for name, one in owed.items()}
        return cls(mode, held, settings, command, notes, sitecustomize.rank())

    def export(self) -> None:
        """Put it into this process's environment, for those that it starts."""
        withdraw()
        os.environ[RUN] = json.dumps(asdict(self))
        os.environ["PYTHONPATH"] = os.pathsep.join([_FOLDER, *filter(None, [os.environ.get("PYTHONPATH")])])

    @classmethod
    def taken(cls, data: Mapping[str, Any]) -> Inheritance:
        """What another process exported.

        Raises:
            ArgumentError: another version of this library did.
        """
        if data.get("version") != __version__ or set(data) != {one.name for one in fields(cls)}:
            raise ArgumentError(f"the run is one of padiff_shim {data.get('version')}, and this rank has {__version__}")
        return cls(**data)

    def opened(self) -> Any:
        """The mode; imports Torch."""
        from ..modes.opening import opened

        options = MODES[self.mode](**{name: from_data(value) for name, value in self.options.items()})
        return opened(options, {name: Setting(from_data(value), origin) for name, (value, origin) in self.owed.items()})


def withdraw() -> None:
    """Take what a run exported out of this process's environment: what it starts from now on is started natively."""
    os.environ.pop(RUN, None)
    path = os.environ.get("PYTHONPATH")
    if path is not None:
        rest = [place for place in path.split(os.pathsep) if place != _FOLDER]
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
        if not rest:
            del os.environ["PYTHONPATH"]
