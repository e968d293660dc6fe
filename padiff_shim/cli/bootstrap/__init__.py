"""Goes first onto the path of what a program under `padiff-shim run` starts: nothing else may lie in this folder."""
