"""From two results and an oracle to a verdict."""
