"""The version of the plugin API: what a manifest's `api` field is compared with."""

from __future__ import annotations

API_VERSION = 1
