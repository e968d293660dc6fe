"""The Paddles on which each defect was looked for."""

PADDLES = ("2.6.2", "3.0.0", "3.1.1", "3.2.2", "3.3.1")
PADDLE_3 = PADDLES[1:]
ENDS = PADDLES[::4]  # looked for on the oldest and the newest alone
