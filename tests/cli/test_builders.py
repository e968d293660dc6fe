"""Models that a command line names, with arguments and configs."""

import json

import pytest

from padiff_shim.cli.main import main
from padiff_shim.cli.models import Builders, model_inputs, named_object
from padiff_shim.errors import ArgumentError, FileError

MODELS = """
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from elsewhere import OtherConfig


@dataclass
class NetConfig:
    width: int = 4
    layers: int = 1


class LibraryConfig:
    @classmethod
    def from_dict(cls, values):
        config = cls()
        vars(config).update(values)
        return config


class Annotated:
    def __init__(self, scale: float = 1.0, args: Optional[NetConfig] = None):
        self.config = args


class OfLibrary:
    config_class = LibraryConfig

    def __init__(self, config, *inputs, extra=1, **kwargs):
        self.config, self.extra = config, extra


class Plain:
    def __init__(self, settings: "OtherConfig"):
        self.config = settings


class Names:
    def __init__(self, config: SimpleNamespace):
        self.config = config


def build(layers, bias=True, act="gelu"):
    return layers, bias, act


def anything(**words):
    return words


def batch(size=3):
    return [0.0] * size


class Layer:
    parameters = ()


made = Layer()
"""


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "config.json").write_text(json.dumps({"width": 8, "layers": 2, "model_type": "net", "_name": "x"}))
    (tmp_path / "nested.json").write_text(json.dumps({"parts": [{"width": 8}], "layer": 2}))
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "broken.json").write_text("{")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(word, *arguments, config=(), argument="PADDLE"):
    return Builders(arguments, config).made(word, argument)


@pytest.mark.parametrize(
    ("word", "arguments", "layers", "bias", "act"),
    [
        ("models.py:build?layers=2&bias=false", [], 2, False, "gelu"),
        ("models.py:build?layers=2&bias=False&act=None", [], 2, False, None),
        ("models.py:build", ["layers=[1, 2]", "act=C:\\relu=a&b"], [1, 2], True, "C:\\relu=a&b"),
        ("models.py:build?act=relu6", ["layers=1", "paddle.layers=2", 'paddle.act="3"', "torch.bias=0"], 2, True, "relu6"),
    ],
)
def test_arguments(word, arguments, layers, bias, act):
    assert made(word, *arguments) == (layers, bias, act)


def test_arguments_of_one_model():
    builders = Builders(["layers=1", "torch.bias=false"], ())
    assert builders.made("models.py:build", "--paddle") == (1, True, "gelu")
    assert builders.made("models.py:build", "--torch") == (1, False, "gelu")
    assert made("models.py:anything", "what=ever") == {"what": "ever"}
    assert type(made("models.py:made", "torch.layers=1")).__name__ == "Layer"


@pytest.mark.parametrize(
    ("word", "arguments", "message"),
    [
        (
            "models.py:build?layer=2",
            [],
            r"PADDLE: unknown argument of models.py:build 'layer'.*'layers'.*act, bias, layers",
        ),
        ("models.py:build?layers=1", ["layer=2"], r"Did you mean 'layers'.*For the other model alone: --with torch.NAME=VALUE"),
        ("models.py:build", [], r"'layers'. Its arguments: layers, bias, act; write models.py:build\?NAME=VALUE, or --with paddle"),
        ("models.py:build?layers", [], r"NAME=VALUE&NAME=VALUE, got 'layers'"),
        ("models.py:build?", [], r"NAME=VALUE&NAME=VALUE, got ''"),
        ("models.py:made?layers=1", [], r"which takes no arguments$"),
        ("models.py:made", ["layers=1"], r"which takes no arguments; --with torch.NAME=VALUE"),
        ("models.py:build", ["layers"], r"--with is NAME=VALUE, paddle.NAME=VALUE or torch.NAME=VALUE, got 'layers'"),
        ("models.py:build", ["tensorflow.layers=1"], r"--with is NAME=VALUE"),
    ],
)
def test_refused_arguments(word, arguments, message):
    with pytest.raises(ArgumentError, match=message):
        made(word, *arguments)


def test_configs():
    config = made("models.py:Annotated?scale=2", config=["config.json"]).config
    assert (type(config).__name__, config.width, config.layers) == ("NetConfig", 8, 2)
    net = made("models.py:OfLibrary", "extra=3", config=["paddle=config.json"])
    assert (net.config.width, net.config.model_type, net.extra) == (8, "net", 3)
    plain = made("models.py:Plain", config=["nested.json"]).config
    assert plain["layer"] == plain.layer == 2
    assert plain.parts[0].width == 8
    assert getattr(plain, "other", "default") == "default"
    assert made("models.py:Names", config=["nested.json"]).config.parts[0].width == 8
    both = Builders((), ["torch=nested.json", "paddle=config.json"])
    assert both.made("models.py:Plain", "TORCH").config.layer == 2
    assert both.made("models.py:Annotated", "PADDLE").config.layers == 2


@pytest.mark.parametrize(
    ("word", "config", "error", "message"),
    [
        ("models.py:Annotated", "nested.json", ArgumentError, "--config nested.json: unknown value of NetConfig 'parts'"),
        ("models.py:anything", "config.json", ArgumentError, "has no parameter for the config config.json.*--config torch=FILE"),
        ("models.py:made", "config.json", ArgumentError, "takes no arguments"),
        ("models.py:Plain", "list.json", ArgumentError, "holds .1., not an object"),
        ("models.py:Plain", "broken.json", ArgumentError, "is no JSON"),
        ("models.py:Plain", "none.json", FileError, "the config none.json cannot be read"),
    ],
)
def test_refused_configs(word, config, error, message):
    with pytest.raises(error, match=message):
        made(word, config=[config])


def test_functions_of_other_options():
    assert model_inputs("models.py:batch") == [0.0] * 3
    assert model_inputs("models.py:batch?size=2") == [0.0] * 2
    assert (model_inputs("2x3").shape, model_inputs("2x3").std() > 0) == ((2, 3), True)
    tokens = model_inputs("4x12:100")
    assert (tokens.shape, tokens.dtype.kind, 50 < tokens.max() < 100) == ((4, 12), "i", True)
    assert [array.shape for array in model_inputs("4x12:100,2x3")] == [(4, 12), (2, 3)]
    for empty in ("0x4", "99999999999x4"):
        with pytest.raises(ArgumentError, match=empty):
            model_inputs(empty)
    assert named_object("models.py:build?layers=2", "--loss")() == (2, True, "gelu")
    with pytest.raises(ArgumentError, match=r"--loss: unknown argument of models.py:build 'layer'"):
        named_object("models.py:build?layer=2", "--loss")


@pytest.mark.compat
def test_both_models_of_a_proof(tmp_path, capsys, monkeypatch):
    (tmp_path / "pair.py").write_text(
        "import paddle, torch\n"
        "def port(bias, inner=2):\n    return paddle.nn.Linear(4, inner, bias_attr=None if bias else False)\n"
        "def original(bias, inner=2):\n    return torch.nn.Linear(4, inner, bias=bias)\n"
        "x = torch.ones(3, 4).numpy()\n"
    )
    words = ["pair.py:original", "--inputs", "pair.py:x", "--with", "bias=false", "--phase", "forward"]
    assert main(["prove", "pair.py:port", *words]) == 0
    assert main(["prove", "pair.py:port?inner=3", *words]) == 1
    assert main(["prove", "pair.py:port?iner=3", *words]) == 2
    assert "Did you mean 'inner'" in capsys.readouterr().err
