"""All ops and known differences there are, loaded from `patches/`."""
