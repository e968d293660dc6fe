"""The catalogue holds every message, and a result is read in either language."""

import ast
import json
import pickle
import re
import string

import messages
import parsed
import pytest
from rich.cells import cell_len

from padiff_shim.errors import PadiffShimError, UnknownNameError
from padiff_shim.language import COUNTED, Sentence, joined
from padiff_shim.present.document import Column, Document, Items, ListItem, Paragraph, Table
from padiff_shim.present.result import Presented
from padiff_shim.text import english, from_log, many, reader, tr


def fields(message):
    return sorted({name for _, name, _, _ in string.Formatter().parse(message) if name is not None})


@pytest.fixture(scope="module")
def chinese():
    return messages.read("zh_CN")


def test_every_message_is_translated(chinese):
    """`python tests/messages.py` (make messages) brings the catalogue up to date; the translations are written by hand."""
    missing, strange = [], []
    for (message, context), places in messages.messages().items():
        entry = chinese.get(message, context)
        if entry is None or not entry.string:
            missing.append((message, places[0]))
        elif context != COUNTED and "{" in message and fields(entry.string) != fields(message):
            strange.append((message, entry.string))
    assert not missing, missing
    assert not strange, strange


def test_catalogue_holds_no_message_of_former_times(chinese):
    known = set(messages.messages())
    former = [entry.id for entry in chinese if entry.id and (entry.id, entry.context) not in known]
    assert not former, "run `make messages`"


def test_compiled_catalogue_is_of_this_source(chinese):
    assert messages.compiled("zh_CN") == messages.translations(chinese), "run `make messages`"


def test_specifications_of_figures_are_those_of_the_message(chinese):
    wrong = []
    for entry in chinese:
        if entry.id and not entry.context and "{" in entry.id:
            source, translation = (set(string.Formatter().parse(text)) for text in (entry.id, entry.string))
            if {part[1:] for part in source} - {part[1:] for part in translation} - {(None, None, None)}:
                wrong.append((entry.id, entry.string))
    assert not wrong, wrong


class Sample(Presented):
    def __init__(self):
        self.environment = {}

    def content(self):
        rows = [[tr("reproducer"), "1.5"], [tr("largest difference"), "20"], ["paddle.nn", "300"]]
        items = Items([ListItem(many(2, "call"), tr("kernel"), "good")], marks=True)
        long = joined("; ", [tr("On Torch's kernels {name} is the first that differs.", name=f"blocks.{n}") for n in range(9)])
        return Document(
            tr("Worst calls"), [Table([Column(tr("name")), Column(tr("largest"), right=True)], rows), items, Paragraph(long)]
        )


def test_a_result_is_read_in_either_language(monkeypatch):
    result = Sample()
    assert "Worst calls" in result.text(lang="en")
    assert "最差的调用" in result.text(lang="zh")
    assert str(result) == result.text(lang="en")
    assert "✓ 内核：2 次调用" in result.text(lang="zh")
    monkeypatch.setenv("PADIFF_SHIM_LANG", "zh")
    assert str(result) == result.text(lang="zh")
    assert "复现脚本" in result.markdown()
    assert '<html lang="zh-CN">' in result.html()
    assert '<html lang="en">' in result.html(lang="en")
    with pytest.raises(UnknownNameError, match="lang 'fr'"):
        result.text(lang="fr")


@pytest.mark.parametrize("width", [40, 60, 100])
def test_tables_and_lines_keep_their_width_in_chinese(width):
    lines = Sample().text(width, lang="zh").splitlines()
    table = [line for line in lines if set(line) & set("┏┃┡│└")]
    assert len(table) == 7
    assert len({cell_len(line) for line in table}) == 1
    assert max(map(cell_len, lines)) <= width
    assert not [line for line in lines if re.match(r"\s*[，。；：、）]", line)]


@pytest.mark.parametrize(
    ("variables", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C.UTF-8"}, "en"),
        ({"LC_MESSAGES": "zh_TW", "LANG": "en_US.UTF-8"}, "zh"),
        ({"LANG": "C", "LANGUAGE": "zh"}, "en"),
        ({"LANG": "de_DE.UTF-8", "LANGUAGE": "de:zh_CN:en"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "PADIFF_SHIM_LANG": "en"}, "en"),
        ({"PADIFF_SHIM_LANG": "zh"}, "zh"),
    ],
)
def test_environment_says_the_language(variables, language, monkeypatch):
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG", "PADIFF_SHIM_LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(tr("Worst calls")) == {"en": "Worst calls", "zh": "最差的调用"}[language]


def test_unknown_language_of_the_environment_is_announced(monkeypatch):
    monkeypatch.setenv("PADIFF_SHIM_LANG", "xx")
    with pytest.warns(UserWarning, match="PADIFF_SHIM_LANG=xx"):
        assert str(tr("Worst calls")) == "Worst calls"


def test_a_sentence_is_english_to_programs(monkeypatch):
    monkeypatch.setenv("PADIFF_SHIM_LANG", "zh")
    sentence = tr("{count:,} more are not shown", count=2000)
    assert sentence == "2,000 more are not shown"
    assert json.loads(json.dumps({"note": sentence})) == {"note": "2,000 more are not shown"}
    assert f"{sentence}" == str(sentence) == "另有 2,000 条未显示"
    again = pickle.loads(pickle.dumps(sentence))
    assert isinstance(again, Sentence)
    assert str(again) == str(sentence)
    assert again == english(sentence)
    assert str("a " + sentence) == "a 另有 2,000 条未显示"
    with reader("en"):
        assert str(again) == "2,000 more are not shown"
        assert type(tr("Worst calls")) is str


def test_the_page_of_a_comparison_has_its_words():
    from padiff_shim.report.compare_page import render

    english, chinese = (_page(render, lang) for lang in ("en", "zh"))
    assert '<html lang="zh-CN">' in chinese
    assert "[[" not in chinese.partition("<script")[0]
    assert "先看什么" in chinese
    texts, nouns = _words(chinese)
    assert len(texts) > 150
    assert {text for text, translation in texts.items() if text == translation} <= {"Tensor", "rank {0}"}
    assert nouns["record"] == "条记录"
    assert _words(english) == ({}, {})


def _page(render, lang):
    with reader(lang):
        return render({"environment": {}}, [], {})


def _words(page):
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])
    return data["messages"], data["nouns"]


@pytest.mark.parametrize(
    ("text", "translation"),
    [
        ("argument 'x' is missing", "缺少参数 'x'"),
        (
            "paddle: no order of summation explains it; error 5.06e+03 rounding units, 1.9e+02 of the probabilistic and "
            "1.5e+02 of the any-order bound",
            "paddle: 没有求和顺序能解释；误差 5.06e+03 个舍入单位，为概率误差界的 1.9e+02 倍，任意求和顺序误差界的 1.5e+02 倍",
        ),
        ("a word of nobody: nothing", "a word of nobody: nothing"),
        ("", ""),
    ],
)
def test_what_a_log_says_is_read_in_either_language(text, translation):
    with reader("zh"):
        assert from_log(text) == translation
    with reader("en"):
        assert from_log(text) == text


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        (joined(" and ", [many(15, "weight"), many(1, "input")]), "15 个权重和 1 个输入"),
        (joined(" ", [tr("{more}.", more=tr("others cause it as well")), tr("{more}.", more="2")]), "其他部分也会造成。2。"),
        (tr("{what}, {site}", what=tr(" in layer {layer}", layer="down"), site="port.py:7"), "，在层 down 中，port.py:7"),
        (joined(": ", [tr("note"), "a  b"]), "记录项：a  b"),
    ],
)
def test_spaces_in_chinese_stand_beside_latin_words_alone(sentence, shown, monkeypatch):
    monkeypatch.setenv("PADIFF_SHIM_LANG", "zh")
    assert str(sentence) == shown


def test_print_shows_the_reader_what_str_returns():
    """`print` writes what `__str__` returns as it stands: a sentence would be written in English."""
    wrong = []
    for path, nodes in parsed.files("padiff_shim").items():
        for function in nodes:
            if isinstance(function, ast.FunctionDef) and function.name == "__str__":
                returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
                calls = {value.func.id for value in returned if isinstance(value, ast.Call) and isinstance(value.func, ast.Name)}
                wrong += [f"{path.name}:{function.lineno}"] * bool(calls & {"tr", "joined", "listed", "many"})
    assert not wrong, wrong


def raised():
    """(file, line, class, its first argument) of each error that the sources make."""
    for path, nodes in parsed.files("padiff_shim").items():
        for call in nodes:
            if isinstance(call, ast.Call) and call.args and isinstance(call.func, (ast.Name, ast.Attribute)):
                kind = call.func.id if isinstance(call.func, ast.Name) else call.func.attr
                yield parsed.named(path).removeprefix("padiff_shim/"), call.lineno, kind, call.args[0]


def words(node):
    """English words that stand in an expression as they are, and not inside a call such as ``tr``."""
    if isinstance(node, ast.JoinedStr):
        return [word for part in node.values for word in words(part)]
    if isinstance(node, ast.Constant):
        return re.findall("[A-Za-z]{2,}", node.value) if isinstance(node.value, str) else []
    branches = {ast.IfExp: ("body", "orelse"), ast.BinOp: ("left", "right")}.get(type(node), ())
    return [word for branch in branches for word in words(getattr(node, branch))]


# Errors that no user meets: those of declarations, whose authors read English, those that stand for Paddle's or Python's own, and
# those of code that is copied into scripts.
INTERNAL = (
    "auditing/cases.py",
    "catalogue/",
    "numerics/",
    "optimizers/",
    "runlog/inputs.py",
    "substitution/",
    "table/",
    "tape/backward.py",
)


def test_errors_are_messages():
    """An error's text is a sentence of the catalogue: the literal of the library's own, ``tr("...")`` of others."""
    library = {kind.__name__ for kind in descendants(PadiffShimError)}
    english = [
        f"{file}:{line}"
        for file, line, kind, text in raised()
        if words(text)
        and (
            (kind in library and not isinstance(text, (ast.Constant, ast.IfExp)))
            or kind in ("UsageError", "UnpicklingError", "unreadable")
            or (kind in ("ValueError", "TypeError") and not file.startswith(INTERNAL))
        )
    ]
    assert not english, english
    assert {"ArgumentError", "FileError", "TransferError"} <= library


def descendants(kind):
    return {kind}.union(*map(descendants, kind.__subclasses__()))
