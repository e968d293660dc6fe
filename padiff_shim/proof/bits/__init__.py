"""Why the bits of equal mathematics differ: formulations, how they are found among the calls of a program, and replayed."""
