"""One call as a script that runs by itself."""
