"""``make docs``: docs/ops.md, docs/defects.md, docs/formulations.md, one line for each entry, and docs/tables.html with a filter.

All is written from the declarations. Figures of formulations are measured as the page is written and differ from machine to
machine; ``--check`` writes nothing, compares everything else, and ends with 1 if a page is out of date.
"""

import argparse
import html
import re
import sys
import textwrap
from pathlib import Path

import sixteen_bit
from formulations import formulations
from formulations.declared import CAUSES
from padiff_shim.patches import _unsubstituted

from padiff_shim.catalogue.defects import defects
from padiff_shim.catalogue.known_differences import shipped
from padiff_shim.catalogue.registry import families, ops
from padiff_shim.optimizers.update import updates
from padiff_shim.patterns import named
from padiff_shim.table.reasons import NO_REFERENCE
from padiff_shim.tested import PADDLES, TORCHES

FOLDER = Path(__file__).resolve().parent.parent / "docs"
DTYPES = ("float32", "bfloat16")
_SHORT = (
    ("paddle._legacy_C_ops.", "legacy "),
    ("paddle.nn.functional.", "F."),
    ("paddle._C_ops.", "_C_ops."),
    ("paddle.Tensor.", "Tensor."),
)
_SEARCH = "All tables with a filter: [tables.html](tables.html), to open in a browser from a checkout."
_OPS = """\
# Ops

{ops} ops in {families} families stand behind {entries} entry points of Paddle; all else [stays native](#what-stays-native).
Written by `make docs` from [patches/](../patches). {search}

- **Reached by**: `F` is `paddle.nn.functional`, `_C_ops` is `paddle._C_ops`, `legacy x` is `paddle._legacy_C_ops.x`; `x_` works
  in place.
- **Gradient**: *none* if Paddle gives the result none; *floats* if whole numbers, which have none, are computed too.
- **Judge**: a name is the op's own rounding model, *generic* a bound that is measured. *exact*: it moves or selects values, and
  results have to be equal. *ties*: several answers may be right ([compare](compare.md#ties)).
- **Differences**: in quotes those that a comparison names; else how Paddle's kernel deviates from the formula.
"""
_OPTIMIZERS = """\
## optimizers

Updates of parameters, in place: [definitions](definitions.md#optimizers).
"""
_SIXTEEN = """\
## In 16 bits on a CPU

Paddle's CPU has few kernels in float16 and bfloat16; in reference mode Torch's answer. The table has {tried} ops that draw no
random numbers, and all run forward and backward in both dtypes, but for {left} (`tests/table/test_halves.py`):
"""
_NATIVE = """\
## What stays native

These run on Paddle's kernel, and a mode counts them with the reason. What is *exact* rounds nothing and is not counted. An
in-place form without a line has the reason of its op. Kernels of gradients (`*_grad`) are not redirected. A name that stands
nowhere on this page: {rest}.
"""
_LEGACY = """\
## What stays native in the legacy form alone
"""
_DEFECTS = f"""\
# Defects of Paddle and Torch

{{count}} faults found with Paddle {PADDLES[-1]} and Torch {TORCHES[-1]}, with {{programs}} programs that show them: written by
`make docs` from [tests/defects/](../tests/defects), and run by `tests/catalogue/test_defects.py`. {_SEARCH}

`padiff_shim.testing.reproducer("relu hides NaN")` returns a program that needs Paddle or Torch with NumPy alone, and ends with 0 if
the fault is absent: send it to their authors as it is. In quotes: the name under which [compare](compare.md) counts it as a known
difference.
"""
_FORMULATIONS = """\
# The same in maths, and other bits

Lines that are the same in maths and differ in bits: {differing} computations in {spellings} spellings. Where the original
writes the one and the port the other, the port is right, and equal bits need the same spelling; [`prove --bits`](prove.md#bits)
names the line. At the end stand {equal} that people take for different, and that [are equal](#equal-bit-for-bit). Written by
`make docs` from [tests/formulations/](../tests/formulations), and run by tests. {search}

- Paddle's line under `reference("torch")` and Torch's line have the same bits, forward and backward, in float32 and bfloat16:
  the differences are those of the spellings. In float64 all lines of a row agree to 1e-11 of the largest element.
- **Figures**: the largest difference from the row's first line in units in the last place (ulp) of the largest element, and the
  share of elements that differ. *zeros*: only the sign of a zero. `=`: equal bits. On random operands{machine}.
- *here*: it depends on the machine's kernels. All else differs on every machine.
"""
_EQUAL = """\
## Equal bit for bit

On every machine, in float32 and bfloat16, forward and backward: nothing has to be rewritten.
"""


def ops_page():
    table = ops()
    entries = {entry.target for op in table.values() for entry in op.entries}
    yield _OPS.format(ops=len(table), families=len(families()), entries=len(entries), search=_SEARCH)
    for name, members in families().items():
        head = ("op", "reached by", "gradient", "judge", "differences and notes")
        yield f"## {name}\n\n" + rows(head, [op_row(table[member]) for member in members])
    yield (
        _OPTIMIZERS
        + "\n"
        + rows(("in `paddle.optimizer`", "reached by", "Torch's", "where the definitions differ"), optimizer_rows())
    )
    groups = {}
    for name, (why, dtypes) in sorted(sixteen_bit.HALVES.items()):
        groups.setdefault(f"{why} ({', '.join(dtypes)})", []).append(name)
    tried = sum(bool(op.samples and not op.random) for op in table.values())
    yield _SIXTEEN.format(tried=tried, left=len(sixteen_bit.HALVES)) + "\n" + rows(("why not", "ops"), listed(groups))
    exact = {"exact: it creates, moves, selects, compares or counts values": [*sorted(_unsubstituted.EXACT)]}
    native = grouped(_unsubstituted.NATIVE)
    for prefix, reason in _unsubstituted.PREFIXES.items():
        native.setdefault(reason.text, []).append(f"{prefix}*")
    yield _NATIVE.format(rest=NO_REFERENCE.text) + "\n" + rows(("why", "names"), listed(exact | native))
    legacy = grouped(_unsubstituted.LEGACY) | {"exact in both forms": [*sorted(_unsubstituted.LEGACY_EXACT)]}
    yield _LEGACY + "\n" + rows(("why", "names"), listed(legacy))


def grouped(reasons):
    """{reason: names}"""
    groups = {}
    for name, reason in sorted(reasons.items()):
        groups.setdefault(reason.text, []).append(name)
    return groups


def listed(groups):
    return [(cell(why), ", ".join(f"`{name}`" for name in names)) for why, names in groups.items()]


def op_row(op):
    reached = dict.fromkeys(f"`{short(entry.target)}`" for entry in op.entries)
    gradient = "floats" if op.integer else "yes" if op.gradient and op.leading else "none"
    definition = '`definitions="torch"` takes Torch\'s own' if op.definition else ""
    return (
        f"`{op.name}`",
        ", ".join(reached),
        gradient,
        op.judge,
        cell("; ".join(filter(None, (*differences(op), op.note, definition)))),
    )


def short(target):
    for prefix, written in _SHORT:
        if target.startswith(prefix):
            return written + target[len(prefix) :]
    return target


def differences(op):
    """The shipped known differences that name the op, then its deviations: those with one reason together."""
    yield from (f'"{known.name}"' for known in shipped() if "*" not in known.op and named(known.op, op.name))
    reasons = {}
    for where, why in op.deviations.items():
        reasons.setdefault(why, []).append(where)
    yield from (f"{', '.join(wheres)}: {why}" for why, wheres in reasons.items())


def optimizer_rows():
    reached = {}
    for target, update in updates().items():
        reached.setdefault(update, []).append(f"`{short('paddle._C_ops.' + target)}`")
    for update, targets in reached.items():
        yield update.optimizer, ", ".join(targets), f"`{update.twin}`" if update.twin else "none", cell(update.differs)


def defects_page():
    every = defects().values()
    yield _DEFECTS.format(count=len(every), programs=sum(1 for defect in every for _ in defect.programs()))
    for section in dict.fromkeys(defect.section for defect in every):
        members = [defect for defect in every if defect.section == section]
        yield f"## {section}\n\n" + rows(("fault", "ops", "seen on", "effect"), map(defect_row, members))


def defect_row(defect):
    known = f' ("{defect.known}")' if defect.known else ""
    program = f"[{cell(defect.name)}](../tests/defects/{defect.file}#L{defect.line})"
    return program + known, cell(defect.op), cell(defect.facts["Seen on"]), cell(defect.facts["Effect"])


def formulations_page(*, measured=True):
    from bits.equal_spellings import EQUAL

    differing = list(formulations().values())
    yield _FORMULATIONS.format(
        differing=len(differing),
        spellings=sum(len(formulation.spellings) for formulation in differing),
        equal=len(EQUAL),
        search=_SEARCH,
        machine=f", one thread, on {machine()}" if measured else "",
    )
    head = ("", "written", "or", *DTYPES, "why", "seen in")
    for cause, title in CAUSES.items():
        members = [formulation for formulation in differing if formulation.cause == cause]
        yield f"## {title}\n\n" + rows(head, [row for member in members for row in formulation_rows(member, measured)])
    yield _EQUAL + "\n" + rows(("", "written", "or", "why"), map(equal_row, EQUAL))


def equal_row(formulation):
    first, *others = (code(spelling.paddle) for spelling in formulation.spellings)
    return f"**{formulation.name}**", first, "<br>or ".join(others), formulation.why


def machine():
    """The processor's name."""
    try:
        model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        model = None
    return model[1].strip() if model else "this machine"


def formulation_rows(formulation, measured):
    figures = {dtype: measure(formulation, dtype) if measured else [] for dtype in DTYPES}
    first, *others = (spelling.paddle for spelling in formulation.spellings)
    for place, other in enumerate(others):
        cells = [figures[dtype][place] if measured else "" for dtype in DTYPES]
        beside = (formulation.why, formulation.seen) if not place else ("", "")
        yield (f"**{formulation.name}**" if not place else "", code(first) if not place else "", code(other), *cells, *beside)


def measure(formulation, dtype):
    """How far each further spelling is from the first."""
    from bits.spelled import apart, ran

    first, *others = ran(formulation, dtype)
    where = " *here*" if dtype in formulation.may_differ else ""
    shown = []
    for other in others:
        parts = zip(("forward", "gradient"), apart(first, other, dtype))
        differing = [f"{name} {size(far)}" for name, far in parts if far.share]
        shown.append("<br>".join(differing) + where if differing else "=")
    return shown


def size(far):
    return (f"{rounded(far.ulp)} ulp" if far.ulp else "zeros") + f", {rounded(100 * far.share)} %"


def rounded(number):
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"


def code(source):
    """Lines of a spelling in a cell."""
    return "<br>".join(f"`{line}`".replace("|", "\\|") for line in source.replace("    ", "\u00a0\u00a0").splitlines())


def cell(words):
    return words.replace("|", "\\|").replace("<", "&lt;")


def rows(head, cells):
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ("---",) * len(head), *cells)) + "\n"


def without_figures(page):
    """A page as ``formulations_page(measured=False)`` gives it."""
    lines = []
    for line in re.sub(r"(On random operands), one thread, on [^\n]*\.", r"\1.", page).splitlines():
        cells = line.split(" | ")
        if len(cells) == 7 and not cells[0].startswith("| ---") and "written" not in cells[1]:
            cells[3:5] = ["", ""]
        lines.append(" | ".join(cells))
    return "\n".join(lines) + "\n"


_PAGE = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>padiff_shim: ops, defects, formulations</title>
<style>
:root { color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif; }
body { max-width: 90rem; margin: 1rem auto; padding: 0 1rem; }
form { position: sticky; top: 0; background: Canvas; padding: .5rem 0; }
input { font: inherit; width: min(30rem, 100%); padding: .4rem; }
div { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .25rem .5rem; border-bottom: 1px solid #8884; }
code { font-size: .9em; overflow-wrap: anywhere; }
td:first-child code { white-space: nowrap; }
td:nth-child(2) { min-width: 12rem; }
[hidden] { display: none !important; }
@media (max-width: 40rem) {
  thead { display: none; }
  tr, td { display: block; padding: .15rem 0; border: 0; }
  tr { padding: .5rem 0; border-bottom: 1px solid #8884; }
  h1, h2 { font-size: 1.1rem; }
}
</style>
<form onsubmit="return false"><input id="words" type="search" aria-label="filter" autofocus placeholder="softmax float64">
<label>all words, in any order; <output id="count"></output></label></form>
"""
_SCRIPT = """\
<script>
const words = document.getElementById("words"), rows = [...document.querySelectorAll("tbody tr")];
const texts = rows.map(row => row.textContent.toLowerCase());
function filter() {
  const asked = words.value.toLowerCase().split(/\\s+/).filter(Boolean);
  rows.forEach((row, place) => { row.hidden = !asked.every(word => texts[place].includes(word)); });
  document.querySelectorAll("section, article").forEach(part => { part.hidden = !part.querySelector("tbody tr:not([hidden])"); });
  document.getElementById("count").textContent = `${rows.filter(row => !row.hidden).length} of ${rows.length} lines`;
}
words.addEventListener("input", filter);
words.value = decodeURIComponent(location.hash.slice(1));
filter();
</script>
"""


def searchable(pages):
    """The tables of Markdown pages as one page with a filter."""
    parts = [_PAGE]
    for page in pages:
        title, *sections = re.split(r"^#+ ", page, flags=re.MULTILINE)[1:] or [""]
        parts.append(f"<article><h1>{html.escape(title.partition(chr(10))[0])}</h1>\n")
        for section in sections:
            lines = [line for line in section.splitlines() if line.startswith("| ")]
            if not lines:
                continue
            head, _, *body = (re.split(r"(?<!\\) \| ", line[2:].removesuffix(" |")) for line in lines)
            last = head
            name = html.escape(section.partition("\n")[0])
            parts.append(f"<section><h2>{name}</h2><div><table><thead>{tagged(head, 'th')}</thead><tbody>\n")
            for cells in body:
                last = [text or above for text, above in zip(cells, last)] if head[0] == "" and not cells[0] else cells
                parts.append(tagged(last, "td") + "\n")
            parts.append("</tbody></table></div></section>\n")
        parts.append("</article>\n")
    return "".join([*parts, _SCRIPT])


def tagged(cells, tag):
    return "<tr>" + "".join(f"<{tag}>{inline(text)}</{tag}>" for text in cells) + "</tr>"


def inline(text):
    """Markdown of a cell as HTML."""
    parts = re.split(r"`([^`]*)`", text.replace("\\|", "|"))
    for place, part in enumerate(parts):
        if place % 2:
            parts[place] = f"<code>{html.escape(part)}</code>"
        else:
            escaped = html.escape(html.unescape(part.replace("<br>", "\n"))).replace("\n", "<br>")
            escaped = re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r'<a href="\2">\1</a>', escaped)
            parts[place] = re.sub(r"(\*\*?)(.+?)\1", r"<b>\2</b>", escaped)
    return "".join(parts)


def written(*, measured):
    """{page: its text}, without docs/tables.html."""
    return {
        FOLDER / "ops.md": "\n".join(ops_page()),
        FOLDER / "defects.md": "\n".join(defects_page()),
        FOLDER / "formulations.md": "\n".join(formulations_page(measured=measured)),
    }


def stale():
    """The pages that are not as they would be written, but for figures."""
    texts = written(measured=False)
    now = {page: page.read_text(encoding="utf-8") if page.is_file() else "" for page in (*texts, FOLDER / "tables.html")}
    yield from (page for page, new in texts.items() if without_figures(now[page]) != without_figures(new))
    if now[FOLDER / "tables.html"] != searchable([now[page] for page in texts]):
        yield FOLDER / "tables.html"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=textwrap.dedent(__doc__))
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is out of date")
    if parser.parse_args(arguments).check:
        old = list(stale())
        for page in old:
            print(f"{page} is out of date: run `make docs`", file=sys.stderr)
        return int(bool(old))
    texts = written(measured=True)
    for page, new in texts.items():
        page.write_text(new, encoding="utf-8")
    (FOLDER / "tables.html").write_text(searchable(texts.values()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
