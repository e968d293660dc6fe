"""How large the calls of an audit are: plain data, which reports name."""

ELEMENTS = 1 << 13  # of the largest operand of a long call
# A long axis costs these ops its square, its cube, or a step of Python an element: what it is at most, in elements.
LONGEST = {"cumprod": 128, "diag": 512, "diag_embed": 512, "kron": 64, "rnn": 64}
