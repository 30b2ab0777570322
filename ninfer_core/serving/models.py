"""GET /v1/models and /v1/models/{id}: the one model of this server (contract GEN-6, GEN-7, IMPL-1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from litestar import Request, get
from litestar.handlers import HTTPRouteHandler

from ninfer_core.api.errors import ModelNotFound
from ninfer_core.api.service import ServedModel


def model_handlers(model: ServedModel) -> Sequence[HTTPRouteHandler]:
    described = {
        "id": model.model_id,
        "object": "model",
        "created": model.created_unix_seconds,
        "owned_by": "ninfer",
        "max_model_len": model.max_context,
    }

    @get("/v1/models", sync_to_thread=False)
    def list_models() -> dict[str, Any]:
        return {"object": "list", "data": [described]}

    # A path parameter, because a public id may contain a slash.
    @get("/v1/models/{model_id:path}", sync_to_thread=False)
    def get_model(request: Request[Any, Any, Any]) -> dict[str, Any]:
        asked = str(request.path_params["model_id"]).removeprefix("/")
        if asked != model.model_id:
            raise ModelNotFound(asked=asked, served=model.model_id)
        return described

    return list_models, get_model
