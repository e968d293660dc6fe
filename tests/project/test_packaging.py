"""The wheel and the sdist hold the whole package, and it imports from everywhere a user may stand."""

import email
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from helpers import PATIENCE

import padiff_shim

CHECKOUT = Path(__file__).resolve().parents[2]
DEFECTS = CHECKOUT / "tests" / "defects"
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")
WHERE = "import padiff_shim, padiff_shim.patches as p; print(padiff_shim.__file__); print(p.__file__)"


def modules():
    """Every module of ours, by its path inside the wheel."""
    for top, inside in (("padiff_shim", "padiff_shim"), ("patches", "padiff_shim/patches")):
        for path in (CHECKOUT / top).rglob("*.py"):
            yield f"{inside}/{path.relative_to(CHECKOUT / top).as_posix()}"


def installed_files():
    """All that the wheel holds: the modules, the programs of the defects, and what the pages are made of."""
    yield from modules()
    yield "padiff_shim/py.typed"
    yield "padiff_shim/locale/zh_CN/LC_MESSAGES/padiff_shim.mo"
    yield from (f"padiff_shim/patches/defects/{path.name}" for path in DEFECTS.glob("*.py"))
    for path in (CHECKOUT / "padiff_shim" / "present" / "page").iterdir():
        yield f"padiff_shim/present/page/{path.name}"


def run(*command, cwd, path=None):
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        env["PYTHONPATH"] = str(path)
    done = subprocess.run([sys.executable, *command], cwd=cwd, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def imported_from(*, cwd, path=None, script=None):
    """The folders that padiff_shim and padiff_shim.patches were imported from, in a new process."""
    command = ["-c", WHERE] if script is None else [str(script)]
    return [Path(line).resolve().parent for line in run(*command, cwd=cwd, path=path).splitlines()]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the sdist and the wheel made from that sdist; built from a copy, the checkout stays as it is."""
    source = tmp_path_factory.mktemp("source") / "copy"
    shutil.copytree(CHECKOUT, source, ignore=NOT_COPIED)
    out = tmp_path_factory.mktemp("dist")
    run("-m", "build", "--no-isolation", "--outdir", str(out), cwd=source)
    return out


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def sdist(built):
    (path,) = built.glob("*.tar.gz")
    return path


@pytest.fixture(scope="module", params=["wheel", pytest.param("sdist", marks=pytest.mark.slow)])
def installed(request, built, tmp_path_factory):
    """A folder with the package installed in it and nothing else, from the wheel and from the sdist."""
    (archive,) = built.glob("*.whl" if request.param == "wheel" else "*.tar.gz")
    target = tmp_path_factory.mktemp("installed")
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(target)]
    run("-m", "pip", "install", *options, str(archive), cwd=target)
    return target


def test_wheel_holds_every_module_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == set(installed_files())


def test_wheel_metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_string(archive.read(name).decode())
        (licence,) = (name for name in archive.namelist() if name.endswith("/LICENSE"))
        assert "Version 2.0, January 2004" in archive.read(licence).decode()
    assert metadata["Name"] == "padiff_shim"
    assert metadata["Version"] == padiff_shim.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.10"
    needed = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert sorted(needed) == ["click>=8.1", "mpmath>=1.3", "msgspec>=0.18", "numpy", "rich>=13", "wrapt>=1.15"]
    extras = {"demo", "examples", "lint", "paddle", "pytest", "safetensors", "test", "toml", "torch"}
    assert set(metadata.get_all("Provides-Extra")) == extras
    assert "## " in metadata.get_payload(), "the README is the long description"


def test_sdist_holds_what_a_developer_needs(sdist):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "Makefile", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ruff.toml"} <= names
    for folder in ("padiff_shim", "patches", "tests", "benchmarks", "examples", "docs", "requirements"):
        here = {path for path in (CHECKOUT / folder).rglob("*.*") if "__pycache__" not in path.parts}
        missing = {path.relative_to(CHECKOUT).as_posix() for path in here if path.is_file()} - names
        assert not missing


def test_changelog_names_the_version():
    assert f"## [{padiff_shim.__version__}]" in (CHECKOUT / "CHANGELOG.md").read_text()


def test_installed_package_imports_from_outside(installed, tmp_path):
    assert imported_from(cwd=tmp_path, path=installed) == [
        installed / "padiff_shim",
        installed / "padiff_shim" / "patches",
    ]


@pytest.mark.slow
def test_installed_package_imports_whole(installed, tmp_path):
    names = sorted(name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in modules())
    loop = f"import importlib, sys\nfor name in {names}:\n    importlib.import_module(name)\n"
    outside = "print([n for n, m in sys.modules.items() if n.split('.')[0] in ('padiff_shim', 'patches') "
    outside += f"and not (getattr(m, '__file__', None) or '').startswith({str(installed)!r})])"
    assert run("-c", loop + outside, cwd=tmp_path, path=installed).splitlines()[-1] == "[]"


def test_checkout_on_the_path_needs_no_install(tmp_path):
    assert imported_from(cwd=tmp_path, path=CHECKOUT) == [CHECKOUT / "padiff_shim", CHECKOUT / "patches"]


def test_checkout_as_current_folder_needs_no_install():
    assert imported_from(cwd=CHECKOUT) == [CHECKOUT / "padiff_shim", CHECKOUT / "patches"]


def test_checkout_as_current_folder_wins_whole_over_an_installed_one(installed):
    """`python -c` puts the current folder first: both halves come from there, never one of each."""
    assert imported_from(cwd=CHECKOUT, path=installed) == [CHECKOUT / "padiff_shim", CHECKOUT / "patches"]


def test_installed_package_wins_whole_for_a_script_run_in_the_checkout(installed, tmp_path):
    """A script has its own folder first, so the installed package is found, and its own patches."""
    script = tmp_path / "script.py"
    script.write_text(WHERE)
    assert imported_from(cwd=CHECKOUT, path=installed, script=script) == [
        installed / "padiff_shim",
        installed / "padiff_shim" / "patches",
    ]


@pytest.fixture(scope="module")
def editable(tmp_path_factory):
    """A copy of the checkout after `pip install -e .`, and a folder: with it on PYTHONPATH, Python starts as where that was done.

    At its end such a Python prints where both halves of the package come from.
    """
    folder = tmp_path_factory.mktemp("editable")
    source, prefix, startup = folder / "copy", folder / "prefix", folder / "startup"
    shutil.copytree(CHECKOUT, source, ignore=NOT_COPIED)
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--prefix", str(prefix)]
    run("-m", "pip", "install", *options, "--editable", str(source), cwd=folder)
    (site,) = prefix.rglob("site-packages")
    startup.mkdir()
    text = f"import atexit, site\nsite.addsitedir({str(site)!r})\natexit.register(exec, {WHERE!r}, {{}})\n"
    (startup / "sitecustomize.py").write_text(text)
    return source, startup


STARTS = {
    "command": ("-c", "import padiff_shim"),
    "module": ("-m", "padiff_shim", "--version"),
    "families": ("-c", "import padiff_shim.patches"),
}


def halves(*command, cwd, path):
    """The folders of padiff_shim and padiff_shim.patches, in an environment with the `editable` copy."""
    return [Path(line).parent for line in run(*command, cwd=cwd, path=path).splitlines()[-2:]]


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS)
def test_editable_install(editable, tmp_path, start):
    source, startup = editable
    assert halves(*STARTS[start], cwd=tmp_path, path=startup) == [source / "padiff_shim", source / "patches"]


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS)
def test_checkout_wins_whole_over_an_editable_one(editable, tmp_path, start):
    """The finder that setuptools installs knows `padiff_shim.patches` of its own checkout by name."""
    _, startup = editable
    expected = [CHECKOUT / "padiff_shim", CHECKOUT / "patches"]
    assert halves(*STARTS[start], cwd=CHECKOUT, path=startup) == expected
    assert halves(*STARTS[start], cwd=tmp_path, path=f"{startup}{os.pathsep}{CHECKOUT}") == expected


def test_editable_install_wins_whole_for_a_script_run_in_a_checkout(editable, tmp_path):
    source, startup = editable
    script = tmp_path / "script.py"
    script.write_text("import padiff_shim")
    assert halves(str(script), cwd=CHECKOUT, path=startup) == [source / "padiff_shim", source / "patches"]


def test_families_reload_from_their_own_checkout(editable):
    _, startup = editable
    code = "import importlib, padiff_shim, padiff_shim.patches as p; importlib.reload(padiff_shim); importlib.reload(p)"
    assert halves("-c", code, cwd=CHECKOUT, path=startup) == [CHECKOUT / "padiff_shim", CHECKOUT / "patches"]


def test_families_of_another_copy_are_refused(editable, tmp_path):
    """A package folder that was copied alone has no families, and must not take those of the installed copy."""
    source, startup = editable
    (tmp_path / "padiff_shim").mkdir()
    shutil.copy(CHECKOUT / "padiff_shim" / "__init__.py", tmp_path / "padiff_shim")
    message = refusal("import padiff_shim", cwd=tmp_path, path=startup)
    assert str(tmp_path / "padiff_shim") in message
    assert str(source / "patches") in message


def test_a_second_copy_in_one_process_is_refused(installed, tmp_path):
    """The families of the first one are imported already."""
    change = f"import sys, padiff_shim.patches; del sys.modules['padiff_shim']; sys.path.insert(0, {str(CHECKOUT)!r})"
    message = refusal(f"{change}; import padiff_shim", cwd=tmp_path, path=installed)
    assert str(CHECKOUT / "patches") in message
    assert str(installed / "padiff_shim" / "patches") in message


def refusal(code, *, cwd, path):
    """The message of the ImportError in which code ends."""
    first, *_ = run(
        "-c", f"try:\n    {code}\nexcept ImportError as error:\n    print('refused:', error)", cwd=cwd, path=path
    ).splitlines()
    assert first.startswith("refused: ")
    return first


def test_what_an_installation_left_in_a_checkout_hides_no_families(tmp_path):
    """An old `padiff_shim/patches/__pycache__` makes that folder a package to Python, without a module in it."""
    for name in ("padiff_shim", "patches"):
        (tmp_path / name).mkdir()
        shutil.copy(CHECKOUT / name / "__init__.py", tmp_path / name)
    (tmp_path / "padiff_shim" / "patches" / "__pycache__").mkdir(parents=True)
    assert imported_from(cwd=tmp_path) == [tmp_path / "padiff_shim", tmp_path / "patches"]


@pytest.mark.parametrize("statement", ["import padiff_shim", "import padiff_shim.patches"])
def test_import_brings_no_framework(statement):
    code = f"import sys; {statement}; print(sorted({{'paddle', 'torch'}} & set(sys.modules)))"
    assert run("-c", code, cwd=CHECKOUT).split() == ["[]"]


def test_version_is_written_once():
    """setup.cfg reads it from the package, by parsing: importing at build time is not needed."""
    assert "version = attr: padiff_shim.__version__" in (CHECKOUT / "setup.cfg").read_text()
    assert padiff_shim.__version__.split(".")[0].isdigit()


def test_test_modules_have_names_of_their_own():
    """pytest imports them by their names alone."""
    names = [path.name for path in (CHECKOUT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
