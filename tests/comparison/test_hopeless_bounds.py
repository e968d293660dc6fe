"""Where an a-priori bound has failed time and again, it is asked seldom, and the verdicts are those of the oracle."""

import types

import numpy as np
import torch

from padiff_shim.catalogue.registry import ops
from padiff_shim.comparison.compared_call import Spot
from padiff_shim.comparison.judge import Judge
from padiff_shim.runs.compare_run import CompareRun
from padiff_shim.verdicts import Verdict

LENGTH = 4096


class Sum:
    """A case of one place: sums of many terms, from the first one on and from the last (far apart), or a last bit apart."""

    changed = None

    def __init__(self, asked, spot, *, near):
        self.asked, self.spot = asked, spot
        x = torch.from_numpy(np.random.default_rng(len(asked)).random((8, LENGTH), np.float32))
        self.native, self.reference = (
            torch.from_numpy(np.add.accumulate(one, 1)[:, -1].copy()) for one in (x.numpy(), x.numpy()[:, ::-1])
        )
        if near:
            self.native = torch.nextafter(self.reference, torch.zeros(8))
        self.subject = types.SimpleNamespace(operands=[x], door=types.SimpleNamespace(op=ops()["sum"]))

    def quantity(self):
        found = ops()["sum"].model.forward((self.subject.operands[0], 1, None, False))
        bound = found.harmless

        def noted(result):
            self.asked[-1] = True
            return bound(result)

        self.asked.append(False)
        found.harmless = noted
        return found


def verdicts(near):
    judged, asked, spot = Judge(CompareRun(), audit=0, screening=False, seed=0), [], Spot({})
    return [judged(Sum(asked, spot, near=one)) for one in near], asked


def test_a_bound_that_fails_is_asked_every_eighth_time():
    found, asked = verdicts([False] * 20)
    assert {one.verdict for one in found} == {Verdict.ROUNDING}
    assert all("sampled" in one.stats for one in found)
    assert [turn for turn, one in enumerate(asked) if one] == [1, 2, 3, 9, 17]  # the first difference is the oracle's


def test_one_that_explains_again_is_asked_again():
    found, asked = verdicts([False] * 9 + [True] * 3)
    assert {one.verdict for one in found} == {Verdict.ROUNDING}
    assert asked[-3:] == [True] * 3
    assert all("sampled" not in one.stats for one in found[-3:])
