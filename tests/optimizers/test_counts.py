"""The number of steps is read off Paddle's powers of beta, for as long as they fall, and known to be lost when they do not."""

import threading

import numpy as np
import pytest
import torch

from padiff_shim.optimizers.update import Powers, multiply, powers


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("beta", [0.9, 0.999, 0.5, 0.98])
def test_every_step_is_found_again(beta, dtype):
    known, power = powers(beta, dtype), torch.tensor([beta], dtype=dtype)
    for step in range(1, 2000):
        exponent, ended = known.exponent(power.item())
        if ended:
            break
        assert exponent == step
        multiply([power.numpy()], beta)


def test_another_thread_looks_for_a_step_in_the_middle(monkeypatch):
    known = Powers(0.9, torch.float32)
    powers_of_it = np.cumprod(np.full(30, 0.9, "float32"), dtype="float32").tolist()
    others = []

    class Interrupted(np.errstate):
        def __exit__(self, *error):
            if not others:
                others.append(threading.Thread(target=known.exponent, args=(powers_of_it[19],)))
                others[0].start()
                others[0].join(0.5)  # it ends, or waits for this one
            return super().__exit__(*error)

    with monkeypatch.context() as patch:
        patch.setattr(np, "errstate", Interrupted)
        known.exponent(powers_of_it[4])
        others[0].join()
    assert [known.exponent(power) for power in powers_of_it] == [(step, False) for step in range(1, 31)]


def test_a_power_that_does_not_fall_any_more_says_so():
    known, power = Powers(0.9, torch.float32), torch.tensor([0.9])
    for _ in range(2000):
        multiply([power.numpy()], 0.9)
    exponent, ended = known.exponent(power.item())
    assert ended
    assert 0.9**exponent < 1e-17  # so that 1 - beta ** step is 1 for it and for all later ones


def test_powers_that_another_kernel_rounded_otherwise():
    power = np.float32(0.9) ** 7
    near = float(np.nextafter(np.float32(power), np.float32(1)))
    assert Powers(0.9, torch.float32).exponent(near) == (7, False)
