"""Rank by consequence: what is negligible, or known, comes after every other finding, wherever findings are listed."""

import warnings

import numpy as np
import paddle
import pytest
import torch
from log_data import filled, record, wrong
from paddle.nn import functional as F
from quirky import clipped_softmax

import padiff_shim
from padiff_shim import testing
from padiff_shim.errors import MismatchError
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.report import compare_page
from padiff_shim.report.live import line
from padiff_shim.verdicts import Verdict

pytestmark = pytest.mark.usefixtures("undone")

MASKS = {
    "-1e9": lambda t: paddle.to_tensor(np.triu(np.full((t, t), -1e9, "float32"), 1)),
    "-inf": lambda t: paddle.to_tensor(np.triu(np.full((t, t), -np.inf, "float32"), 1)),
    "finfo.min": lambda t: paddle.to_tensor(np.triu(np.full((t, t), np.finfo("float32").min, "float32"), 1)),
    "-100": lambda t: paddle.to_tensor(np.triu(np.full((t, t), -100.0, "float32"), 1)),
    "bool": lambda t: paddle.to_tensor(np.tril(np.ones((t, t), bool))),
}


def tf32(x):
    """The low 13 bits of a float32's significand cut off."""
    return (x.contiguous().view(torch.int32) & -8192).view(torch.float32)


def tf32_linear(out, x, weight, bias, *others):
    return torch.nn.functional.linear(tf32(x), tf32(weight), bias)


def clip():
    """The known difference, planted where Paddle's kernel may not have it."""
    return testing.planted("softmax", lambda out, x, axis: clipped_softmax(x, axis))


def decoder(mask, t=6):
    paddle.seed(0)
    layer = paddle.nn.TransformerDecoderLayer(16, 2, 32, dropout=0.0)
    x = paddle.randn([2, t, 16])
    x.stop_gradient = False

    def program():
        layer(x, x, tgt_mask=MASKS[mask](t)).square().mean().backward()

    return program


class TestDecoder:
    @pytest.mark.rows(2)
    @pytest.mark.skipif(not IS_3, reason="the known difference is that of Paddle 3.3.1")
    @pytest.mark.parametrize("mask", MASKS)
    def test_a_fault_in_a_linear_comes_before_all_that_causal_masks_give(self, mask, tmp_path):
        program = decoder(mask)
        fault = testing.planted("linear", tf32_linear, layer="linear1")
        with clip(), fault, padiff_shim.compare("torch", keep_inputs=2, log=tmp_path) as run:
            for _ in range(2):
                program()
        masked = run.calls.filter(op="softmax", verdict="SEMANTICS")
        assert masked
        assert all(call.quirk == "softmax clipped at -64" and call.hypothesis == "clip=-64" for call in masked), run
        fault = run.first_divergence()
        assert (fault.op, fault.verdict, fault.quirk) == ("linear", Verdict.PRECISION_MODE, None)
        assert masked[0].index < fault.index, "in time the masks come first"
        worst = run.worst(100)
        results = [call.op for call in worst if call.verdict.severity > Verdict.UNVERIFIED.severity]
        assert results[:2] == ["linear", "linear"]
        assert set(results[2:]) == {"softmax"}
        assert len(list((tmp_path / "inputs").iterdir())) == 2
        for call in worst[:2]:
            run.repro(call, tmp_path / "repro.py")
        assert run.by_op()["softmax"].worst.severity <= Verdict.ROUNDING.severity
        for text in (str(run), run.markdown()):
            assert "First divergence: #" in text.replace("\\", "")
            assert text.index("PRECISION") < text.index("softmax clipped at -64")

    @pytest.mark.compat
    def test_masks_alone_are_negligible_forward_and_backward(self):
        program = decoder("-1e9")
        with clip(), padiff_shim.compare("torch") as run:
            program()
        masked = [c for c in run.calls.filter(op="softmax") if c.verdict.severity > Verdict.UNVERIFIED.severity]
        assert masked
        assert all("negligible" in call.modifiers for call in masked), [str(c) for c in masked]


@pytest.mark.skipif(not IS_3, reason="the known difference is that of Paddle 3.3.1")
class TestMuting:
    """The shipped entry muted by its name hides its own difference and nothing else."""

    def run(self, tmp_path, x, change, **options):
        known = tmp_path / "known.json"
        known.write_text('{"known": [{"name": "softmax clipped at -64", "mute": true}]}')
        with testing.planted("softmax", change), padiff_shim.compare("torch", known_differences=known, **options) as run:
            F.softmax(paddle.to_tensor(x))
        return run

    @pytest.mark.parametrize("masked", [False, True])
    def test_a_fault_is_not_muted(self, tmp_path, masked):
        x = np.random.default_rng(0).standard_normal((4, 32)).astype("float32")
        x[:, 20:] = -1e9 if masked else x[:, 20:]
        run = self.run(tmp_path, x, lambda out, x, axis: clipped_softmax(x, axis) * 1.5)
        (call,) = run.calls
        assert (call.quirk, call.muted) == (None, False)
        assert run.first_divergence() == run.worst(1)[0] == call
        with pytest.raises(MismatchError):
            self.run(tmp_path, x, lambda out, x, axis: clipped_softmax(x, axis) * 1.5, on_mismatch="raise")

    def test_a_swallowed_nan_is_another_difference(self, tmp_path):
        x = np.random.default_rng(0).standard_normal((4, 32)).astype("float32")
        x[0, 1] = np.nan
        run = self.run(tmp_path, x, lambda out, x, axis: clipped_softmax(x, axis))
        (call,) = run.calls
        assert (call.verdict, call.quirk, call.muted) == (Verdict.NONFINITE, "softmax of NaN", False)

    def test_the_difference_itself_is_muted(self, tmp_path):
        x = np.where(np.arange(32) < 20, np.random.default_rng(0).standard_normal((4, 32)), -1e9).astype("float32")
        run = self.run(tmp_path, x, lambda out, x, axis: clipped_softmax(x, axis), on_mismatch="raise")
        assert run.calls[0].muted
        assert run.first_divergence() is None


KNOWN = {"quirk": "theirs", "verdict": "SEMANTICS"}
SMALL = {"modifiers": ["negligible"], "verdict": "WRONG"}


@pytest.mark.compat
class TestLists:
    def run(self):
        return filled(
            [
                wrong(0, prob=1e10, op="softmax", layer="a", **KNOWN),
                wrong(1, prob=1e9, op="softmax", layer="a", **SMALL),
                record(2, layer="a"),
                wrong(3, prob=3, verdict="LOW_ACCURACY", layer="b"),
                wrong(4, prob=1e12, op="softmax", layer="b", **KNOWN),
                wrong(5, prob=1e12, quirk="ours", muted=True),
            ]
        )

    def test_worst_and_first_divergence(self):
        run = self.run()
        assert [call.call for call in run.worst()] == [3, 1, 4, 0, 2]
        assert run.first_divergence().call == 3
        assert run.first_divergence("SEMANTICS").call == 0, "there is no other"
        assert [finding.worst["call"] for finding in run.by_line()] == [3, 1, 4]
        assert [bool(finding.apart) for finding in run.by_line()] == [False, True, True]
        assert [sorted(finding.layers) for finding in run.by_line()] == [["b"], ["a"], ["a", "b"]]

    def test_counts(self):
        run = self.run()
        assert run.to_dict()["apart"] == {"known": 2, "negligible": 1, "muted": 1}
        assert run.verdicts == {"WRONG": 2, "SEMANTICS": 2, "LOW_ACCURACY": 1, "ROUNDING": 1}
        softmax = run.by_op()["softmax"]
        assert (softmax.worst, softmax.prob) == (Verdict.EQUAL, 0.0)
        assert softmax.verdicts == {"known": 2, "negligible": 1}
        assert list(run.by_layer()) == ["b", "a", "encoder.layers.0.linear1"]
        again = padiff_shim.load(run.copy_log(run.recorder.folder / "copy"))
        assert again.to_dict()["apart"] == run.to_dict()["apart"]
        assert again.first_divergence().call == 3

    def test_text(self):
        run = self.run()
        for text in (str(run), run.markdown().replace("\\", "").replace("&#8203;", "")):
            assert "LOW_ACCURACY 1, ROUNDING 1; apart: known 2, negligible 1, muted 1" in text
            assert "First divergence: #3 " in text
            assert "Known difference: theirs" in text
            assert "Negligible: 1 record" in text
        table = str(run).partition("Verdicts per op")[0]
        assert "softmax" not in table
        assert "LOW_ACCURACY" in table
        shown = line(run.counts, run.calls[0].to_dict())
        assert "known 2" in shown
        assert "SEMANTICS" not in shown

    def test_nothing_but_what_is_set_apart(self):
        run = filled([wrong(0, **KNOWN), wrong(1, **SMALL)])
        for text in (str(run), run.markdown()):
            assert "known or negligible" in text
        assert run.first_divergence().call == 0

    def test_page(self):
        packed = compare_page.pack((call.to_dict() for call in self.run().calls), {}, 100)
        assert packed["apart"] == {"known": 2, "negligible": 1, "muted": 1}
        assert [item["first"] for item in packed["findings"]] == [3, 1, 0]
        assert packed["layers"]["a"] == {"known": 1, "negligible": 1, "ROUNDING": 1}


@pytest.mark.skipif(not IS_3, reason="the known difference is that of Paddle 3.3.1")
class TestAlarms:
    x = np.where(np.arange(32) < 20, 0.1, -1e9).astype("float32")

    def program(self):
        F.softmax(paddle.to_tensor(self.x))

    def test_no_error(self):
        with clip(), padiff_shim.compare("torch", on_mismatch="raise") as run:
            self.program()
        assert run.first_divergence().quirk == "softmax clipped at -64"

    def test_one_warning_at_the_end(self):
        with clip(), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", ResourceWarning)  # of logs of earlier tests, which are collected now
            with padiff_shim.compare("torch", on_mismatch="warn"):
                self.program()
                self.program()
                assert not warned
        assert ["counted apart: 2 known" in str(warning.message) for warning in warned] == [True]

    def test_a_callback_sees_them(self):
        seen = []
        with clip(), padiff_shim.compare("torch", callback=seen.append):
            self.program()
        assert [quirk["quirk"] for quirk in seen] == ["softmax clipped at -64"]
