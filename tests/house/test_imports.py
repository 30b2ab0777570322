"""Dependencies point one way, first-party plugins have no private door, and what plans and serves needs no torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "ninfer_core"

MAY_IMPORT = {
    "api": set[str](),
    "telemetry": {"api"},
    "ops": {"api"},
    "plugins": {"api"},
    "artifact": {"api", "plugins", "ops"},
    "plan": {"api", "plugins", "artifact", "ops"},
    "program": {"api", "plugins", "plan", "artifact", "ops"},
    "engine": {"api", "plugins", "plan", "artifact", "program", "telemetry"},
    "serving": {"api", "plugins", "plan", "artifact", "program", "engine", "telemetry"},
    "bench": {"api", "plugins", "plan", "artifact", "ops", "program", "engine", "serving", "telemetry"},
    "cli": {"api", "plugins", "plan", "artifact", "engine", "program", "serving", "telemetry", "bench"},
    "testing": {"api", "plugins", "plan", "artifact", "ops", "program", "engine", "serving", "telemetry"},
    "__main__": {"cli"},
}
TORCH_FREE = ("api", "plugins", "plan", "artifact", "engine", "serving", "telemetry", "cli")
PLUGIN_PACKAGES = {path.parent.name: path.parent for path in sorted(ROOT.glob("plugins/*/ninfer_*/__init__.py"))}
OPEN_TO_PLUGINS = ("ninfer_core.api", "ninfer_core.ops")


def imported(path: Path) -> Iterator[str]:
    """Every module a file names in an import, wherever in the file; for `from a import b` both `a` and `a.b`."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.relative_to(ROOT)}: imports are written in full"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_inside(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def package_of(path: Path) -> str:
    first = path.relative_to(CORE).parts[0]
    return first.removesuffix(".py")


def test_every_package_of_the_core_has_its_row() -> None:
    found = {package_of(path) for path in CORE.rglob("*.py")} - {"__init__"}
    assert found <= set(MAY_IMPORT)


def test_the_rows_allow_no_circle() -> None:
    seen: set[str] = set()
    for package, allowed in MAY_IMPORT.items():
        assert allowed <= seen, package
        seen.add(package)


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_the_core_imports_one_way(package: str) -> None:
    wrong = []
    for path in CORE.rglob("*.py"):
        if package_of(path) != package:
            continue
        for module in imported(path):
            target = module.split(".")[1] if is_inside(module, "ninfer_core") and "." in module else package
            if target not in MAY_IMPORT or target == package or target in MAY_IMPORT[package]:
                continue
            wrong.append(f"{path.relative_to(ROOT)}: {module}")
    assert wrong == []


def test_what_kernels_of_several_operations_share_is_no_operation_s() -> None:
    wrong = []
    for path in (CORE / "ops").rglob("*.py"):
        for module in imported(path):
            operation, _, kernels = module.removeprefix("ninfer_core.ops.").partition(".")
            foreign = is_inside(module, "ninfer_core.ops") and operation != path.relative_to(CORE).parts[1]
            if foreign and is_inside(kernels, "kernels"):
                wrong.append(f"{path.relative_to(ROOT)}: {module}")
    assert wrong == []


def test_the_core_imports_no_plugin() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in CORE.rglob("*.py")
        for module in imported(path)
        if module.split(".")[0] in PLUGIN_PACKAGES and package_of(path) != "testing"
    ]
    assert wrong == []


def test_all_five_distributions_are_looked_at() -> None:
    assert set(PLUGIN_PACKAGES) == {
        "ninfer_protocols",
        "ninfer_models",
        "ninfer_kvformats",
        "ninfer_speculative",
        "ninfer_media",
    }


@pytest.mark.parametrize("package", [*PLUGIN_PACKAGES, "ninfer_kv_q8row"])
def test_a_plugin_imports_the_public_api_and_the_ops_and_nothing_else_of_the_core(package: str) -> None:
    folder = PLUGIN_PACKAGES.get(package, ROOT / "examples" / "plugins" / "ninfer-kv-q8row" / package)
    wrong = []
    for path in folder.rglob("*.py"):
        named = set(imported(path)) | dotted_strings(path)
        for module in named:
            private = is_inside(module, "ninfer_core") and not any(is_inside(module, door) for door in OPEN_TO_PLUGINS)
            foreign = module.split(".")[0] in set(PLUGIN_PACKAGES) - {package}
            if (private and module != "ninfer_core") or foreign:
                wrong.append(f"{path.relative_to(ROOT)}: {module}")
    assert wrong == []


def dotted_strings(path: Path) -> set[str]:
    """Strings that are a module of the core by their look: what `import_module` would be given."""
    strings = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
    return {
        value for value in strings if isinstance(value, str) and value.startswith("ninfer_core.") and " " not in value
    }


def test_what_plans_serves_and_schedules_imports_no_torch() -> None:
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for package in TORCH_FREE
        for path in (CORE / package).rglob("*.py")
        if path.name != "__main__.py"
    ]
    modules += [f"ninfer_core.ops.workspace.{path.stem}" for path in (CORE / "ops" / "workspace").glob("[a-z]*.py")]
    script = (
        "import importlib, sys\n"
        f"for name in {sorted(modules)!r}:\n"
        "    importlib.import_module(name)\n"
        "    heavy = {'torch', 'triton', 'transformers'} & set(sys.modules)\n"
        "    assert not heavy, f'{name} imports {heavy}'\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr.splitlines()[-1]
