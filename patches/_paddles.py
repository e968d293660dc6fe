"""The Paddles on which each defect was looked for: those that are tested."""

from padiff_shim.tested import PADDLES

PADDLE_3 = PADDLES[1:]
