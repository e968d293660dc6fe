"""A pytest plugin: one line of JSON for the beginning and each phase of a test, and for each file that could not be collected."""

import json
import os


class Outcomes:
    """Writes them to a file as they come."""

    def __init__(self, path):
        self._path = path

    def _put(self, **outcome):
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(outcome) + "\n")

    def pytest_runtest_logstart(self, nodeid):
        self._put(test=nodeid, failed=False)

    def pytest_runtest_logreport(self, report):
        self._put(test=report.nodeid, failed=report.failed)

    def pytest_collectreport(self, report):
        if report.failed:
            self._put(test=report.nodeid, failed=True)


def pytest_configure(config):
    """Of the process that was asked for them, not of a pytest that a test starts in it."""
    path = os.environ.pop("MUTANTS_OUTCOMES", "")
    if path:
        config.pluginmanager.register(Outcomes(path))
