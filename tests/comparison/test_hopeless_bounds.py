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

    def __init__(self, judgements, spot, *, near):
        self.asked, self.spot = judgements, spot
        x = torch.from_numpy(np.random.default_rng(len(judgements)).random((8, LENGTH), np.float32))
        self.native, self.reference = (
            torch.from_numpy(np.add.accumulate(values, 1)[:, -1].copy()) for values in (x.numpy(), x.numpy()[:, ::-1])
        )
        if near:
            self.native = torch.nextafter(self.reference, torch.zeros(8))
        self.subject = types.SimpleNamespace(operands=[x], door=types.SimpleNamespace(op=ops()["sum"]))

    def quantity(self):
        quantity = ops()["sum"].model.forward((self.subject.operands[0], 1, None, False))
        bound = quantity.harmless

        def noted(result):
            self.asked[-1] = True
            return bound(result)

        self.asked.append(False)
        quantity.harmless = noted
        return quantity


def verdicts(near):
    judged, judgements, spot = Judge(CompareRun(), audit=0, screening=False, equal=None, seed=0), [], Spot({})
    return [judged(Sum(judgements, spot, near=is_near)) for is_near in near], judgements


def test_a_bound_that_fails_is_asked_every_eighth_time():
    first_judged, judgements = verdicts([False] * 20)
    assert {judgement.verdict for judgement in first_judged} == {Verdict.ROUNDING}
    assert all("sampled" in judgement.stats for judgement in first_judged)
    assert [turn for turn, judged in enumerate(judgements) if judged] == [1, 2, 3, 9, 17]  # the first difference is the oracle's


def test_one_that_explains_again_is_asked_again():
    judged, judgements = verdicts([False] * 9 + [True] * 3)
    assert {judgement.verdict for judgement in judged} == {Verdict.ROUNDING}
    assert judgements[-3:] == [True] * 3
    assert all("sampled" not in judgement.stats for judgement in judged[-3:])
