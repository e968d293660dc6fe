"""How far a port's values drift from its original's, layer by layer and call by call."""
