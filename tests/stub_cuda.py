"""For trying versions of Torch alone: a CUDA wheel becomes importable on a machine without a GPU and without NVIDIA's packages.

``python tests/stub_cuda.py SITE_PACKAGES``, where ``pip install --no-deps torch==X`` has put it (needs gcc, readelf and nm). Each
NVIDIA library that Torch's own libraries need, and that is absent, becomes a small one whose functions return 35 ("no driver"):
Torch then imports, finds no device, and computes on the CPU. Nothing of CUDA works. A wheel for the CPU is left as it is.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

NVIDIAS = ("libcu", "libnv", "libnccl")  # beginnings of names of libraries
DRIVER = "libcuda.so.1"  # which Torch looks for at run time
SYSTEMS = ("GLIBC", "GCC", "CXXABI", "OMP", "GOMP", "VERSION", "LIBC")  # beginnings of versions of symbols
FUNCTIONS = ("cu", "nccl", "nv", "__cuda", "NV", "libnv", "__nv", "_ZN3nv", "_ZN8cudnn", "__fatbin")
NO_DRIVER = 35


def lines(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def absent_libraries(libraries):
    """NVIDIA's libraries that these need and that do not lie beside them."""
    needed = {line.split("[")[1].split("]")[0] for path in libraries for line in lines("readelf", "-d", path) if "(NEEDED)" in line}
    return sorted(name for name in needed - {path.name for path in libraries} if name.startswith(NVIDIAS) and name != DRIVER)


def absent_functions(libraries):
    """(name, version) of the functions that these need and that none of them has."""
    undefined = {line.split()[-1] for path in libraries for line in lines("nm", "-D", "--undefined-only", path) if " U " in line}
    defined = {line.split()[-1].split("@")[0] for path in libraries for line in lines("nm", "-D", "--defined-only", path)}
    symbols = ((name, version.lstrip("@")) for name, _, version in (symbol.partition("@") for symbol in undefined))
    return sorted(
        (name, version)
        for name, version in symbols
        if name not in defined and not version.startswith(SYSTEMS) and (name.startswith(FUNCTIONS) or "cudnn" in name)
    )


def stub(site_packages):
    """Write the libraries; returns their names."""
    folder = Path(site_packages) / "torch" / "lib"
    libraries = sorted(folder.glob("*.so*"))
    names = absent_libraries(libraries)
    functions = absent_functions(libraries) if names else []
    versions = sorted({version for _, version in functions if version})
    with tempfile.TemporaryDirectory() as scratch:
        source, script = Path(scratch, "stub.c"), Path(scratch, "stub.map")
        source.write_text(
            "".join(f"int {name}(void) {{ return {NO_DRIVER}; }}\n" for name in sorted({name for name, _ in functions}))
        )
        with script.open("w") as file:
            for version in versions:
                members = " ".join(f"{name};" for name, of in functions if of == version)
                file.write(f"{version} {{ global: {members} }};\n")
        versioned = [f"-Wl,--version-script={script}"] if versions else []
        for name in names:
            target = ["-o", folder / name, f"-Wl,-soname,{name}"]
            subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-fno-builtin", *target, *versioned, source], check=True)
    return names


if __name__ == "__main__":
    print("stubs, for trying this version alone:", ", ".join(stub(sys.argv[1])) or "none is needed")
