"""Who may import what: the core is pure, imports go one way, each library has one door."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict

from tests.tidy.source import layers, modules, pyproject, strict_siblings, third_party

IMPURE = frozenset(
    {"os", "io", "time", "random", "logging", "asyncio", "threading"}
    | {"subprocess", "socket", "pathlib"}
)
#: Libraries with more than one importing module, and where those are.
SHARED = {
    "typer": "idlewin.cli",
    "rich": "idlewin.cli",
    "numpy": ("idlewin.forecasters", "idlewin.pricing", "idlewin.backtest"),
    "matplotlib": "idlewin.picture",
    "ruamel": ("idlewin.yamlfile", "idlewin.ruleedit"),  # what a file says, and where
    "urllib3": "idlewin.adapters",  # what both HTTP clients raise
}


def test_the_core_imports_the_standard_library_only() -> None:
    wrong = [
        f"{module.at(node)} imports {name}"
        for module in modules("idlewin/core")
        for name, node in module.imports()
        if third_party(name) and (module.name, name) != ("idlewin.core.calendar", "pendulum")
    ]

    assert wrong == []


def test_the_core_has_no_way_to_the_outside() -> None:
    wrong = [
        f"{module.at(node)} imports {name}"
        for module in modules("idlewin/core")
        for name, node in module.imports()
        if name.partition(".")[0] in IMPURE
    ]

    assert wrong == []


def test_imports_go_down_the_layers_only() -> None:
    rank = {name: depth for depth, layer in enumerate(layers()) for name in layer}
    apart = {name: layer for layer in strict_siblings() for name in layer}

    def layer_of(name: str) -> str:
        return ".".join(name.split(".")[:2])

    wrong = []
    for module in modules("idlewin"):
        here = layer_of(module.name)
        for name, node in module.imports():
            there = layer_of(name)
            if not {here, there} <= set(rank) or here == there:
                continue
            if rank[there] < rank[here] or there in apart.get(here, ()):
                wrong.append(f"{module.at(node)}: {here} must not import {there}")

    assert wrong == []


def test_every_module_has_its_layer() -> None:
    known = {"idlewin", "idlewin.__main__"}.union(*layers())

    assert {".".join(m.name.split(".")[:2]) for m in modules("idlewin")} <= known


def test_forecasters_do_not_import_each_other() -> None:
    methods = {m.name for m in modules("idlewin/forecasters")} - {
        "idlewin.forecasters",
        "idlewin.forecasters.past",
        "idlewin.forecasters.fleet",
        "idlewin.forecasters.ahead",
        "idlewin.forecasters.plans",
        "idlewin.forecasters.kin",
        "idlewin.forecasters.sample",
        "idlewin.forecasters.hazard",  # boosted corrects it
    }
    wrong = [
        module.at(node)
        for module in modules("idlewin/forecasters")
        if module.name in methods
        for name, node in module.imports()
        if name in methods
    ]

    assert wrong == []


def test_each_library_has_one_importing_module() -> None:
    importers = defaultdict(set)
    for module in modules("idlewin"):
        for name, _ in module.imports():
            if library := third_party(name):
                importers[library].add(module.name)

    wrong = {
        library: sorted(names)
        for library, names in importers.items()
        if not (
            all(name.startswith(SHARED[library]) for name in names)
            if library in SHARED
            else len(names) == 1
        )
    }
    assert wrong == {}


def test_each_imported_library_is_declared() -> None:
    project = pyproject()["project"]
    wanted = itertools.chain(project["dependencies"], *project["optional-dependencies"].values())
    declared = {re.split(r"[^\w.-]", line)[0].replace("-", "_") for line in wanted}
    called = {"ruamel": "ruamel.yaml"}

    imported = {third_party(name) for m in modules("idlewin") for name, _ in m.imports()} - {None}

    assert {called.get(name, name) for name in imported if name} - declared == set()
