"""Settings of the front process that change no token and no byte on the device, so that they are not in the plan."""

from __future__ import annotations

import msgspec

from ninfer_core.api.artifact import ArtifactIdentity
from ninfer_core.plan.option_info import SecretText
from ninfer_core.plan.options import ServeOptions


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the server meets its clients and its operator. `model_id` is the public name (contract GEN-20)."""

    host: str
    port: int
    api_key: SecretText | None
    cors: bool
    model_id: str
    max_request_bytes: int
    response_store_max_records: int
    response_store_max_bytes: int
    log_level: str
    log_stats_interval_ms: int


def server_settings(options: ServeOptions, identity: ArtifactIdentity) -> ServerSettings:
    return ServerSettings(
        host=options.host,
        port=options.port,
        api_key=options.api_key,
        cors=options.cors,
        model_id=options.model_id if options.model_id is not None else identity.model_id,
        max_request_bytes=options.max_request_mib * 2**20,
        response_store_max_records=options.response_store_max_records,
        response_store_max_bytes=options.response_store_max_mib * 2**20,
        log_level=options.log_level,
        log_stats_interval_ms=options.log_stats_interval_ms,
    )
