"""ppdiffusers' DPMSolverMultistepScheduler leaves noise in the last step.

Line: ppdiffusers 0.29.0, ppdiffusers/schedulers/scheduling_dpmsolver_multistep.py:284, `sigma_last` of the first training step
Original: diffusers 0.29.2, diffusers/schedulers/scheduling_dpmsolver_multistep.py:387, `sigma_last = 0`,
    by `final_sigmas_type="zero"`
Write: `sigma_last = 0`
"""

import numpy as np
import paddle
import torch

paddle.set_device("cpu")
paddle.set_default_dtype("float64")
draw = np.random.default_rng(0)
sample, denoised = draw.standard_normal((2, 4))
cumulated = np.cumprod(1 - np.linspace(0.0001, 0.02, 1000))
before, first = (np.sqrt((1 - cumulated[step]) / cumulated[step]) for step in (50, 0))


def last_step(framework, sample, denoised, sigma):
    """DPM-Solver++ of first order (both: `dpm_solver_first_order_update`)."""
    alphas = [1 / np.sqrt(1 + value**2) for value in (sigma, before)]
    sigmas = [value * alpha for value, alpha in zip((sigma, before), alphas)]
    with np.errstate(divide="ignore"):
        gap = np.log(alphas[0]) - np.log(sigmas[0]) - np.log(alphas[1]) + np.log(sigmas[1])
    return ((sigmas[0] / sigmas[1]) * framework(sample) - alphas[0] * (np.exp(-gap) - 1) * framework(denoised)).numpy()


original = last_step(torch.tensor, sample, denoised, 0.0)
port, mended = (last_step(paddle.to_tensor, sample, denoised, sigma) for sigma in (first, 0.0))
print(f"{abs(port - original).max():.1e} apart as it is, {abs(mended - original).max():.1e} as it is to be written")
raise SystemExit(int(not np.allclose(port, original, 0, 1e-9)))
