"""Higher precision: formulas, sums, and what they are computed with."""
