"""Settings for the whole suite. A process that only hands out the tests imports no framework: the others would wait for that."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before both frameworks read it
os.environ["PADIFF_SHIM_LANG"] = "en"  # whatever the machine's locale is

INSTRUCTION_SETS = ("ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS", "MKL_DEBUG_CPU_TYPE", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA")


def pytest_configure(config):
    if hasattr(config, "workerinput") or config.getoption("dist", "no") == "no":
        config.pluginmanager.import_plugin("suite")


def pytest_report_header():
    """Which kernels were asked for: what differs natively depends on it."""
    settings = [f"{name}={os.environ[name]}" for name in INSTRUCTION_SETS if name in os.environ]
    return f"instruction sets asked for: {' '.join(settings) or 'none'}"
