"""Training in several processes on Paddle's own engine: gradients are summed over the ranks as ever, in every mode."""

import fcntl
import json

import numpy as np
import pytest
import rank_programs
import ranks
from helpers import ROOT

from padiff_shim.frameworks.versions import IS_3

pytestmark = pytest.mark.compat
# Of Paddle 2.6, whose start takes long; its fleet needs an older protobuf than the one that is installed beside it.
TRAINED = [name for name in rank_programs.TRAININGS if IS_3 or name in ("plain", "no_sync", "changing", "inplace")]
FAST = ("plain", "inplace", "collectives")


def names(*allowed):
    """Names of trainings as parameters of a test: a few of them always, the others where ``slow`` tests run."""
    return [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in allowed]


NAMES = names(*TRAINED)
MODES = [way for way in rank_programs.WAYS if way != "native"]
# With four, what depends on how many there are. Not through fleet: the groups that it makes connect all four anew, at which
# Paddle's gloo at times is refused or waits forever, without any mode.
OF_FOUR = ("plain", "shared", "no_sync", "changing", "inplace", "collectives")
WITH_TWIN = names(*(name for name in TRAINED if rank_programs.TRAININGS[name][1] is not None))
# Natively other values than in the program that was compiled differently: rounding of sums, carried through three updates.
CLOSE = {"rtol": 1e-4, "atol": 1e-6}


class Trained:
    """What the processes wrote, that were started for these trainings."""

    def __init__(self, folder, number, wanted):
        self.folder, self.number = folder, number
        folder.mkdir(exist_ok=True)
        with (folder / "lock").open("w") as lock:  # tests that run in several processes train in one of them, while the others wait
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "done").exists():
                trainings = [name for name in TRAINED if name in wanted and (number == 2 or name in OF_FOUR)]
                ranks.run([ROOT / "tests" / "rank_programs.py", folder, *trainings], number)
                (folder / "done").touch()

    def of(self, name, way, rank):
        with np.load(self.folder / f"{name}-{way}-{rank}.npz") as arrays:
            return dict(arrays)

    def counted(self, name, rank):
        return json.loads((self.folder / f"{name}-reference-{rank}.json").read_text())["ops"]


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def trained(request, tmp_path_factory):
    base = tmp_path_factory.getbasetemp()
    base = base.parent if hasattr(request.config, "workerinput") else base
    wanted = {item.callspec.params["name"] for item in request.session.items if item.path == request.path}
    return Trained(base / f"ranks-{request.param}", request.param, wanted)


@pytest.fixture(autouse=True)
def of_as_many(request):
    """Leaves out what four processes have not trained."""
    params = request.node.callspec.params
    if params["trained"] == 4 and params["name"] not in OF_FOUR:
        pytest.skip("trained with two processes only")


@pytest.mark.parametrize("way", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_equal_to_native_within_rounding(trained, name, way):
    for rank in range(trained.number):
        native, result = trained.of(name, "native", rank), trained.of(name, way, rank)
        assert native.keys() == result.keys()
        for key, value in native.items():
            np.testing.assert_allclose(result[key], value, **CLOSE, err_msg=f"{key} of rank {rank}")
            assert way != "compare" or np.array_equal(result[key], value), "comparing changes no bit"


@pytest.mark.parametrize("way", ["native", *MODES])
@pytest.mark.parametrize("name", names(*(name for name in TRAINED if name not in ("collectives", "hooks"))))
def test_all_ranks_have_trained_the_same_bits(trained, name, way):
    first = trained.of(name, way, 0)
    for rank in range(1, trained.number):
        other = trained.of(name, way, rank)
        assert all(np.array_equal(other[key], value) for key, value in first.items()), rank


@pytest.mark.bitexact
@pytest.mark.parametrize("name", WITH_TWIN)
def test_bit_for_bit_the_torch_program(trained, name):
    """With two ranks the sum has one order. With more it depends on where in a bucket an element lies: see docs/record.md."""
    for rank in range(trained.number):
        result, twin = trained.of(name, "reference", rank), trained.of(name, "twin", rank)
        for key, value in twin.items():
            if trained.number == 2:
                assert np.array_equal(result[key], value), f"{key} of rank {rank}"
            else:
                np.testing.assert_allclose(result[key], value, **CLOSE, err_msg=f"{key} of rank {rank}")


@pytest.mark.parametrize("name", NAMES)
def test_it_ran_on_torch(trained, name):
    for rank in range(trained.number):
        ops = trained.counted(name, rank)
        assert ops["gelu"]["substituted"]
        assert ops["gelu"]["backward"]
        assert ops["gelu"]["native"] == {}
