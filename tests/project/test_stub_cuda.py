"""A library that needs one of NVIDIA's can be loaded once that has a stub, whose functions say that there is no driver."""

import ctypes
import shutil
import subprocess

import pytest
import stub_cuda

pytestmark = pytest.mark.skipif(not all(map(shutil.which, ("gcc", "readelf", "nm"))), reason="needs gcc, readelf and nm")


def compiled(folder, name, source, *options):
    path = folder.parent / f"{name}.c"
    path.write_text(source)
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", path, "-o", folder / name, f"-Wl,-soname,{name}", *options], check=True)
    return folder / name


def test_what_lacks_a_library_can_be_loaded(tmp_path):
    folder = tmp_path / "torch" / "lib"
    folder.mkdir(parents=True)
    versions = tmp_path / "versions"
    versions.write_text("libcudart.so.99 { global: cudaCount; };\n")
    compiled(folder, "libcudart.so.99", "int cudaCount(void) { return 1; }", f"-Wl,--version-script={versions}")
    cudnn = compiled(folder, "libcudnn.so.98", "int cudnnCreate(void) { return 1; }")
    source = "int cudaCount(void); int cudnnCreate(void); int counted(void) { return cudaCount() + cudnnCreate(); }"
    own = compiled(folder, "libtorch.so", source, folder / "libcudart.so.99", cudnn, "-Wl,-rpath,$ORIGIN")
    cudnn.unlink()
    (folder / "libcudart.so.99").unlink()
    with pytest.raises(OSError, match="cannot open shared object"):
        ctypes.CDLL(str(own))
    assert stub_cuda.stub(tmp_path) == ["libcudart.so.99", "libcudnn.so.98"]
    assert ctypes.CDLL(str(own)).counted() == 2 * stub_cuda.NO_DRIVER


def test_a_wheel_for_the_cpu_is_left_alone(tmp_path):
    folder = tmp_path / "torch" / "lib"
    folder.mkdir(parents=True)
    compiled(folder, "libtorch.so", "int counted(void) { return 1; }")
    assert stub_cuda.stub(tmp_path) == []
    assert [path.name for path in folder.iterdir()] == ["libtorch.so"]
