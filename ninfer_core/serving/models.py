"""GET /v1/models and /v1/models/{id}: the one model of this server (contract GEN-6, GEN-7, IMPL-1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from litestar import Request, get
from litestar.handlers import HTTPRouteHandler

from ninfer_core.api.errors import ModelNotFound
from ninfer_core.api.protocol import ROUTE_DESCRIPTION, RouteDescription
from ninfer_core.api.service import ServedModel
from ninfer_core.serving.errors import AnyErrorBody


class ModelObject(msgspec.Struct, frozen=True):
    id: str
    object: Literal["model"]
    created: int
    owned_by: Literal["ninfer"]
    max_model_len: int


class ModelList(msgspec.Struct, frozen=True):
    object: Literal["list"]
    data: list[ModelObject]


_LIST = RouteDescription(summary="The one model of this server.", response=ModelList, error=AnyErrorBody)
_GET = RouteDescription(summary="That model by its id.", response=ModelObject, error=AnyErrorBody)


def model_handlers(model: ServedModel) -> Sequence[HTTPRouteHandler]:
    described = ModelObject(
        id=model.model_id,
        object="model",
        created=model.created_unix_seconds,
        owned_by="ninfer",
        max_model_len=model.max_context,
    )

    @get("/v1/models", sync_to_thread=False, opt={ROUTE_DESCRIPTION: _LIST})
    def list_models() -> ModelList:
        return ModelList(object="list", data=[described])

    # A path parameter, because a public id may contain a slash.
    @get("/v1/models/{model_id:path}", sync_to_thread=False, opt={ROUTE_DESCRIPTION: _GET})
    def get_model(request: Request[Any, Any, Any]) -> ModelObject:
        asked = str(request.path_params["model_id"]).removeprefix("/")
        if asked != model.model_id:
            raise ModelNotFound(asked=asked, served=model.model_id)
        return described

    return list_models, get_model
