"""What every result that people read has: text, Markdown, a page and an excerpt for notebooks, all of one document."""

from __future__ import annotations

from ..text import reader
from . import excerpt, html, markdown, text
from .annotations import Annotation
from .document import Document


class Presented:
    """A result that has a :meth:`document`, and is printed, and written as Markdown, from it.

    ``lang`` of its methods is the language, ``"en"`` or ``"zh"``; default: as ``PADIFF_SHIM_LANG`` or the locale say.
    """

    _lang: str | None = None

    def speak(self, lang: str | None) -> None:
        """Choose the language in which this result is shown where no ``lang`` is passed.

        Raises:
            UnknownNameError: another language than ``"en"`` and ``"zh"``.
        """
        with reader(lang):
            self._lang = lang

    def document(self) -> Document:
        """All that there is to say."""
        raise NotImplementedError

    def annotations(self) -> list[Annotation]:
        """Its findings at lines of source, the most serious first, for tools that show them there."""
        return []

    def text(self, width: int | None = None, *, colour: bool = False, lang: str | None = None) -> str:
        """For a terminal.

        Args:
            width: in columns; default the terminal's.
            colour: with ANSI sequences.
            lang: ``"en"`` or ``"zh"``.

        Raises:
            UnknownNameError: another language.
        """
        with reader(lang or self._lang):
            return text.render(self.document(), width, colour=colour)

    def to_markdown(self, *, lang: str | None = None) -> str:
        """For an issue or a pull request, in the language ``lang``."""
        with reader(lang or self._lang):
            return markdown.render(self.document())

    def page(self, *, lang: str | None = None) -> str:
        """One page that needs nothing beside it, as HTML, in the language ``lang``."""
        with reader(lang or self._lang):
            return html.render(self.document())

    def notebook_page(self) -> str:
        """The page that a notebook stores with the cell."""
        return self.page()

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """Below a notebook's cell."""
        return excerpt.render(self.document(), self.notebook_page())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """What IPython shows where it shows no HTML, instead of the fields of a dataclass."""
        return {"text/plain": self.text()}
