"""What is told of Torch's switches."""

import pytest
import torch

from padiff_shim.frameworks import torch_state


@pytest.mark.skipif(not hasattr(torch.backends.mkldnn, "matmul"), reason="this Torch has one switch for all backends")
def test_a_precision_that_was_set_for_one_backend_is_no_error():
    plain, before = torch_state.flags(), torch.backends.mkldnn.matmul.fp32_precision
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    try:
        flags = torch_state.flags()
    finally:
        torch.backends.mkldnn.matmul.fp32_precision = before
    assert flags.keys() == plain.keys()
    assert flags["torch.float32_matmul_precision"] == "set by backend"
    assert torch_state.flags() == plain
