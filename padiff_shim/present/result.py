"""What every result that people read has: text, Markdown and a page, all of one document."""

from __future__ import annotations

from . import html, markdown, text
from .document import Document


class Presented:
    """A result that has a :meth:`document`, and is printed, and written as Markdown, from it."""

    def document(self) -> Document:
        """All that there is to say."""
        raise NotImplementedError

    def text(self, width: int | None = None, *, colour: bool = False) -> str:
        """For a terminal.

        Args:
            width: in columns; default the terminal's.
            colour: with ANSI sequences.
        """
        return text.render(self.document(), width, colour=colour)

    def to_markdown(self) -> str:
        """For an issue or a pull request."""
        return markdown.render(self.document())

    def page(self) -> str:
        """One page that needs nothing beside it, as HTML."""
        return html.render(self.document())

    def __str__(self) -> str:
        return self.text()
