"""``make messages``: the sentences of the sources into the catalogues, and the catalogues compiled.

A message is the literal of ``tr("...")`` and ``marked("...")``, that of the library's own errors, and the noun of
``many(number, "...")``; a page's script has ``tr("...")`` as well. What Babel guesses for a new message is never used: it stays
untranslated until somebody translates it.
"""

import ast
import builtins
import functools
import re

import parsed
from babel.messages.catalog import Catalog
from babel.messages.mofile import read_mo, write_mo
from babel.messages.pofile import read_po, write_po

from padiff_shim.catalogue.known_differences import shipped
from padiff_shim.catalogue.registry import families, ops
from padiff_shim.language import COUNTED, DOMAIN, FOLDER, LANGUAGES, LOGGED
from padiff_shim.present.html import script_messages

# Function -> which of its arguments is the message.
MARKS = {"tr": 0, "marked": 0, "Waiting": 0, "many": 1, "counted": 0, "logged": 0, "Reason": 1}
# Without it Babel writes names and dates that nobody needs.
_HEADER = r"""# Messages of padiff_shim in {name}.
msgid ""
msgstr ""
"Project-Id-Version: padiff_shim\n"
"POT-Creation-Date: 2026-11-27 00:00+0000\n"
"Language: {folder}\n"
"Plural-Forms: nplurals=1; plural=0;\n"
"Content-Type: text/plain; charset=utf-8\n"
"Content-Transfer-Encoding: 8bit\n"

"""


@functools.cache
def messages():
    """(message, its context or None) -> its places in the sources."""
    places = {}
    for path, nodes in parsed.files().items():
        name = parsed.named(path)
        for node in nodes:
            for text, context in written(node, name):
                places.setdefault((text, context), []).append((name, node.lineno))
    for text, name in declared():
        places.setdefault((text, None), []).append((name, 1))
    for path in sorted((parsed.ROOT / "padiff_shim/present/page").iterdir()):
        texts, nouns = script_messages(path.read_text(encoding="utf-8")) if path.suffix == ".js" else ([], [])
        texts += re.findall(r"\[\[(.+?)\]\]", path.read_text(encoding="utf-8")) if path.suffix == ".html" else []
        for message, context in [*((text, None) for text in texts), *((noun, COUNTED) for noun in nouns)]:
            places.setdefault((message, context), []).append((parsed.named(path), 1))
    return places


def written(node, name):
    """(message, context) of each message of a node of a module."""
    if isinstance(node, (ast.FunctionDef, ast.Assign)):
        yield from ((text, None) for text in described(node))
    if not (isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute))):
        return
    if name.startswith("padiff_shim/cli/"):
        yield from ((text, None) for text in helped(node))
    if name.startswith("patches/"):
        yield from ((text, LOGGED) for text in refused(node))
    function = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
    at = {**MARKS, **({"_of": 1} if name == "padiff_shim/modes/options.py" else {})}.get(function)
    if function.endswith("Error") and not hasattr(builtins, function) and node.args:
        choice = node.args[0] if isinstance(node.args[0], ast.IfExp) else ast.IfExp(None, node.args[0], node.args[0])
        at = 0 if isinstance(choice.body, ast.Constant) and isinstance(choice.orelse, ast.Constant) else None
    if at is None or len(node.args) <= at or isinstance(node.args[at], ast.JoinedStr):
        return
    context = {"many": COUNTED, "counted": COUNTED, "logged": LOGGED, "Reason": LOGGED}.get(function)
    for part in ast.walk(node.args[at]):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value:
            yield part.value, context


def helped(call):
    """Help of commands and options, as click holds it."""
    for keyword in call.keywords:
        if keyword.arg in ("help", "short_help") and isinstance(keyword.value, ast.Constant):
            yield keyword.value.value


def declared():
    """(sentence, file) of declarations that results show: they are data, without a function of the library around each sentence."""
    yield from ((quirk.name, "patches/_known.py") for quirk in shipped())
    for op in ops().values():
        yield from ((text, f"patches/{family_of(op)}.py") for text in (op.note, *op.deviations.values()) if text)


def refused(call):
    """What an op's formula does not take: part of the reason why a call runs natively."""
    kinds = "NotImplementedError", "ValueError"
    if isinstance(call.func, ast.Name) and call.func.id in kinds and call.args and isinstance(call.args[0], ast.Constant):
        yield call.args[0].value


def family_of(op):
    """The module that declares an op."""
    return next(family for family, members in families().items() if op.name in members)


def described(node):
    """The description of a command, and the sentences of its epilog."""
    if isinstance(node, ast.Assign):
        if ast.unparse(node.targets[0]) == "_EPILOG":
            yield from (
                line for line in ast.literal_eval(node.value).split("\n") if line[:1].isalpha() or line.startswith(("`", "  # "))
            )
    elif any(ast.unparse(decorator).startswith(("click.command", "click.group")) for decorator in node.decorator_list):
        yield ast.get_docstring(node)


def template():
    """A catalogue without translations."""
    made = Catalog()
    for message, context in messages():
        made.add(message, context=context)
    return made


def path_of(folder):
    """A language's catalogue."""
    return FOLDER / folder / "LC_MESSAGES" / f"{DOMAIN}.po"


def read(folder):
    """The catalogue of a language."""
    with path_of(folder).open("rb") as file:
        return read_po(file, locale=folder, domain=DOMAIN)


def translations(catalog):
    """(message, context) -> translation."""
    return {(message.id, message.context): message.string for message in catalog if message.id and message.string}


def compiled(folder):
    """The translations in a language's .mo file."""
    with path_of(folder).with_suffix(".mo").open("rb") as file:
        return translations(read_mo(file))


def update(folder):
    """Bring a language's files up to date."""
    catalog = read(folder)
    catalog.update(template(), no_fuzzy_matching=True, update_creation_date=False)
    catalog.obsolete.clear()
    with path_of(folder).open("wb") as file:
        file.write(_HEADER.format(name=catalog.locale.english_name, folder=folder).encode())
        write_po(file, catalog, width=130, sort_output=True, omit_header=True)
    with path_of(folder).with_suffix(".mo").open("wb") as file:
        write_mo(file, read(folder))
    return [message.id for message in catalog if message.id and not message.string]


if __name__ == "__main__":
    for folder in filter(None, LANGUAGES.values()):
        untranslated = update(folder)
        print(f"{path_of(folder)}: {len(untranslated)} untranslated")
        for message in untranslated:
            print(f"  {message!r}")
