"""Why the bits of equal mathematics differ: lines of a port that make other bits of equal operands, and what to write there."""
