"""``make messages``: the sentences of the sources into the catalogues, and the catalogues compiled.

A message is the literal of ``tr("...")`` and ``marked("...")``, and the noun of ``many(number, "...")``; a page's script has
``tr("...")`` as well. What Babel guesses for a new message is never used: it stays untranslated until somebody translates it.
"""

import ast
import io
import re
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from padiff_shim.language import COUNTED, DOMAIN, FOLDER, LANGUAGES

ROOT = Path(__file__).resolve().parent.parent
_SCRIPT = re.compile(r'\btr\(\s*("(?:[^"\\]|\\.)*")')


def messages():
    """(message, whether it is a noun behind a number) -> its places in the sources."""
    places = {}
    for path in sorted([*ROOT.glob("padiff_shim/**/*.py"), *ROOT.glob("patches/**/*.py")]):
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute))):
                continue
            function = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            at = {"tr": 0, "marked": 0, "many": 1}.get(function)
            if at is None or len(node.args) <= at:
                continue
            counted = function == "many"
            for part in ast.walk(node.args[at]):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value:
                    places.setdefault((part.value, counted), []).append((name, node.lineno))
    for path in sorted((ROOT / "padiff_shim/present/page").glob("*.js")):
        for match in _SCRIPT.finditer(path.read_text(encoding="utf-8")):
            places.setdefault((ast.literal_eval(match[1]), False), []).append((path.relative_to(ROOT).as_posix(), 1))
    return places


def template():
    """A catalogue without translations."""
    made = Catalog(project=DOMAIN)
    for (message, counted), where in messages().items():
        files = sorted({(name, 0) for name, _ in where})
        made.add(message, auto_comments=[", ".join(name for name, _ in files)], context=COUNTED if counted else None)
    return made


def path_of(folder):
    """A language's catalogue."""
    return FOLDER / folder / "LC_MESSAGES" / f"{DOMAIN}.po"


def read(folder):
    """The catalogue of a language."""
    with path_of(folder).open("rb") as file:
        return read_po(file, locale=folder, domain=DOMAIN)


def compiled(catalog):
    """The bytes of its .mo file."""
    buffer = io.BytesIO()
    write_mo(buffer, catalog)
    return buffer.getvalue()


def update(folder):
    """Bring a language's files up to date."""
    catalog = read(folder)
    catalog.update(template(), no_fuzzy_matching=True, update_creation_date=False)
    catalog.obsolete.clear()
    with path_of(folder).open("wb") as file:
        write_po(file, catalog, width=130, sort_output=True, no_location=True, omit_header=False)
    path_of(folder).with_suffix(".mo").write_bytes(compiled(read(folder)))
    return [message.id for message in catalog if message.id and not all(strings_of(message))]


def strings_of(message):
    """The translations of a message: one, or one for each plural form."""
    return [message.string] if isinstance(message.string, str) else list(message.string)


if __name__ == "__main__":
    for folder in filter(None, LANGUAGES.values()):
        untranslated = update(folder)
        print(f"{path_of(folder)}: {len(untranslated)} untranslated")
        for message in untranslated:
            print(f"  {message!r}")
