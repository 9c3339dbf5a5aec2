"""The wheel: what is in it, and that it works in an environment that has nothing but what it asks for."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PACKAGES = ("protocol", "transports", "gateway")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

pytestmark = pytest.mark.xdist_group("packaging")  # one wheel and one environment for all of them

# In the empty environment: where the packages come from, and every module of them, imported.
IMPORT_ALL = """
import importlib, pkgutil, sys
left_out = tuple(name[1:] for name in sys.argv[1:] if name.startswith("-"))
for package in [name for name in sys.argv[1:] if not name.startswith("-")]:
    top = importlib.import_module(package)
    print(top.__file__)
    for found in pkgutil.walk_packages(getattr(top, "__path__", ()), package + "."):
        if not found.name.startswith(left_out):
            importlib.import_module(found.name)
"""
# The conformance suite is for test runs: it alone needs pytest, as its first lines say. The others need an extra.
EXTRAS = {"gateway.service.web": "web", "gateway.service.otlp": "otel"}
LEFT_OUT = tuple(f"-{name}" for name in ("transports.contract", *EXTRAS))


def run(*words: str | Path, cwd: Path) -> str:
    """Runs one command to its end, which must be exit 0, with nothing of this environment but PATH and HOME."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it, and of everything else exactly what the wheel asks for.

    Nothing is fetched: what it asks for is here already, and each distribution that it names, or that one of those names,
    is linked in. A dependency that was forgotten in pyproject.toml is therefore missing.
    """
    return environment_of(wheel, tmp_path_factory.mktemp("environment"), PROJECT["dependencies"])


def environment_of(wheel: Path, folder: Path, requirements: list[str]) -> Path:
    """An environment of the wheel and what is required."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python")
    run(*pip, "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check", wheel, cwd=folder)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    for found in asked_for(requirements).values():
        link(found, site_packages)
    return folder


def asked_for(requirements: list[str]) -> dict[str, Distribution]:
    """Every distribution that is asked for here, directly or through another, by its normalised name."""
    found: dict[str, Distribution] = {}
    todo = [Requirement(text) for text in requirements]
    while todo:
        requirement = todo.pop()
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if name not in found:
            found[name] = distribution(requirement.name)
            todo += [Requirement(text) for text in found[name].requires or ()]
    return found


def link(found: Distribution, site_packages: Path) -> None:
    """Makes one distribution importable: links to what it has at the top of the place where it is installed."""
    for name in {Path(file).parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
        if not (site_packages / name).exists():
            (site_packages / name).symlink_to(Path(str(found.locate_file(name))))


def test_the_wheel_holds_the_three_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    metadata = f"dropgate-{PROJECT['version']}.dist-info"
    assert {name.split("/")[0] for name in names} == {*PACKAGES, metadata}, "no tests, no test environment"
    for package in PACKAGES:
        assert f"{package}/py.typed" in names, "type checkers read the annotations"
        modules = {str(path.relative_to(ROOT)) for path in (ROOT / package).rglob("*.py")}
        assert modules <= set(names)
    web = ROOT / "gateway" / "service" / "web"
    shown = {str(path.relative_to(ROOT)) for folder in ("templates", "static") for path in (web / folder).iterdir()}
    assert shown
    assert shown <= set(names), "the page is whole without the checkout"
    assert f"{metadata}/licenses/LICENSE" in names


def test_every_module_is_there_and_needs_only_what_the_wheel_asks_for(environment: Path, tmp_path: Path) -> None:
    places = run(
        environment / "bin" / "python", "-W", "error", "-c", IMPORT_ALL, *PACKAGES, *LEFT_OUT, cwd=tmp_path
    ).splitlines()
    assert len(places) == len(PACKAGES)
    assert all(Path(place).is_relative_to(environment) for place in places), "not this checkout"


@pytest.mark.parametrize("module", EXTRAS)
def test_what_needs_an_extra_needs_only_that(module: str, wheel: Path, tmp_path: Path) -> None:
    requirements = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"][EXTRAS[module]]]
    environment = environment_of(wheel, tmp_path, requirements)
    place = run(environment / "bin" / "python", "-W", "error", "-c", IMPORT_ALL, module, cwd=Path("/")).strip()
    assert Path(place).is_relative_to(environment)


def test_what_is_for_development_is_not_in_the_environment(environment: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="No module named 'pytest'"):
        run(environment / "bin" / "python", "-c", "import pytest", cwd=tmp_path)


def test_the_command_works_from_any_directory(environment: Path, tmp_path: Path) -> None:
    dropgate = environment / "bin" / "dropgate"
    drop, elsewhere = tmp_path / "drop", tmp_path / "elsewhere"
    drop.mkdir()
    elsewhere.mkdir()
    (elsewhere / "today.csv").write_text("order;amount\n1;10\n")

    assert run(dropgate, "--version", cwd=Path("/")) == f"dropgate {PROJECT['version']}\n"
    assert "orders_0000000001" in run(dropgate, "send", drop, "today.csv", "--group", "orders_", cwd=elsewhere)
    assert sorted(path.name for path in drop.glob("orders_*")) == [
        "orders_0000000001.csv",
        "orders_0000000001.manifest.json",
    ]
    shown = run(dropgate, "status", drop, cwd=Path("/"))
    assert re.search(r"ready +1 item\b", shown)
