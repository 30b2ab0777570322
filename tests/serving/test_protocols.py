from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from litestar import get

from ninfer_core.api import NinferError, PluginIncompatible, ProtocolContext, WireError
from ninfer_core.plugins.loading import LoadedPlugin
from ninfer_core.serving.protocols import build_protocols
from ninfer_core.testing.scripted_service import ScriptedService


class Routes:
    path_prefixes: tuple[str, ...] = ()

    def __init__(self, *paths: str) -> None:
        self._paths = paths

    def handlers(self) -> list[Any]:
        def answer() -> None: ...

        return [get(path, sync_to_thread=False)(answer) for path in self._paths]

    def wire_error(self, error: NinferError) -> WireError:
        return WireError(status=400, headers={}, body={})


def plugin(label: str, *paths: str) -> LoadedPlugin:
    hook = SimpleNamespace(ninfer_protocol_build=lambda context: Routes(*paths))
    return cast("LoadedPlugin", SimpleNamespace(offer=SimpleNamespace(label=label), hook=hook))


CONTEXT = ProtocolContext(service=ScriptedService(), keep_alive_seconds=5)


def test_protocols_are_built_in_order() -> None:
    built = build_protocols([plugin("one", "/v1/a"), plugin("two", "/v1/b", "/v1/c")], CONTEXT)
    assert [len(routes.handlers()) for routes in built] == [1, 2]


@pytest.mark.parametrize("path", ["/v1/a", "/health", "/v1/models"])
def test_a_path_that_is_answered_twice_is_refused_with_both_names(path: str) -> None:
    with pytest.raises(PluginIncompatible) as raised:
        build_protocols([plugin("one", "/v1/a"), plugin("two", path)], CONTEXT)
    assert path in raised.value.message and "two" in raised.value.message
