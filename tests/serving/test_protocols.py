from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from litestar import get

from ninfer_core.api import NinferError, PluginBroken, PluginIncompatible, ProtocolContext, WireError
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


def error_of(**fields: Any) -> Any:
    return lambda self, error: WireError(**{"status": 400, "headers": {}, "body": {}, **fields})


def routes_with(**members: Any) -> LoadedPlugin:
    hook = SimpleNamespace(ninfer_protocol_build=lambda context: type("Bent", (Routes,), members)("/v1/a"))
    return cast("LoadedPlugin", SimpleNamespace(offer=SimpleNamespace(label="bent"), hook=hook))


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"path_prefixes": "/x"}, "path_prefixes is '/x', where a tuple of paths"),
        ({"path_prefixes": (1,)}, "path_prefixes is (1,), where a tuple of paths"),
        ({"handlers": lambda self: None}, "TypeError: 'NoneType' object is not iterable"),
        ({"handlers": lambda self: [1]}, "handlers has int, where a Litestar route handler belongs"),
        ({"handlers": lambda self: 2 * Routes("/v1/a").handlers()}, "handlers answers twice: GET /v1/a"),
        ({"wire_error": lambda self, error: 5}, "wire_error gives int, where WireError belongs"),
        ({"wire_error": lambda self, error: 1 / 0}, "ZeroDivisionError"),
        ({"wire_error": error_of(status="x")}, "Expected `int`, got `str` - at `$.status`"),
        ({"wire_error": error_of(body={"at": object()})}, "type object is unsupported"),
        ({"wire_error": error_of(headers={"x": "\u4e2d"})}, "the header 'x' with '\u4e2d', which no answer can carry"),
    ],
)
def test_routes_that_are_none_name_the_plugin_at_the_start(members: dict[str, Any], words: str) -> None:
    with pytest.raises(PluginBroken) as raised:
        build_protocols([routes_with(**members)], CONTEXT)
    assert raised.value.message.startswith("bent gave back something wrong from ninfer_protocol_build: ")
    assert words in raised.value.message
