"""Torch's private names stand in one module, and what the sources write of Torch is in each version of the range."""

import json

import parsed
import pytest
import torch_names

TABLE = json.loads(torch_names.TABLE.read_text())


@pytest.fixture(scope="module")
def sources():
    """(names, keywords, attributes) that the sources write."""
    files = torch_names.sources()
    return *torch_names.written(files), torch_names.methods(files)


def outside(written):
    """Of names -> places, those that others than the module of Torch's versions write."""
    places = {name: torch_names.elsewhere(places) for name, places in written.items()}
    return {name: sorted(others) for name, others in places.items() if others}


def test_private_names_stand_in_one_module(sources):
    assert not outside(torch_names.private(sources[0]))


def test_the_installed_torch_has_all(sources):
    assert not outside(torch_names.absent(sources[0]))


@pytest.mark.parametrize("version", TABLE["lack"])
def test_each_torch_of_the_range_has_all(version, sources):
    assert not outside(torch_names.lacking(TABLE["lack"][version], *sources))


def test_the_table_is_of_the_namespaces_that_are_used(sources):
    """A name in a namespace that no list was made of would be in each Torch: make the table anew (CONTRIBUTING.md)."""
    spaces = {space for name in sources[0] if not torch_names.absent({name: ()}) for space in torch_names.resolved(name)[1]}
    assert spaces <= set(TABLE["namespaces"])
    assert TABLE["pinned"] in (parsed.ROOT / "requirements" / "run.txt").read_text()


PROGRAM = """
import torch.nn.functional as F
import torch
from torch.utils._pytree import tree_map
aten = torch.ops.aten
F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
torch._C._get_privateuse1_backend_name()
aten._fused_rms_norm.default(x)
x.untyped_storage()
"""


def test_names_keywords_and_attributes_are_found():
    files = {"program.py": parsed.nodes_of(PROGRAM)}
    names, keywords = torch_names.written(files)
    assert {*torch_names.private(names)} == {"torch.utils._pytree.tree_map", "torch._C._get_privateuse1_backend_name"}
    lack = {
        "names": {torch_names.ATEN: ["_fused_rms_norm", "_fused_rms_norm.default"], "torch.Tensor": ["untyped_storage", "index"]},
        "keywords": {"torch.nn.functional.scaled_dot_product_attention": ["enable_gqa"]},
    }
    assert torch_names.lacking(lack, names, keywords, torch_names.methods(files) | {"index": {"program.py:1"}}) == {
        "torch.ops.aten._fused_rms_norm.default": {"program.py:8"},
        "torch.nn.functional.scaled_dot_product_attention(enable_gqa=)": {"program.py:6"},
        "torch.Tensor.untyped_storage": {"program.py:9"},
    }
    assert torch_names.absent({"torch.nowhere": {"program.py:1"}, "torch.nn.functional.pad": ()}) == {
        "torch.nowhere": {"program.py:1"}
    }
