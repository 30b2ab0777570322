"""`ninfer plugins check`: load one plugin and collect everything that keeps it from working on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ninfer_core.api.errors import PluginBroken, PluginIncompatible
from ninfer_core.api.plan import DeviceInfo
from ninfer_core.plugins.offer import OfferState, PluginOffer, standing
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.plugins.trial import try_plugin


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """`findings` is empty exactly when `word` is `ready`; `failing` is the verdict of the plugin's own check."""

    offer: PluginOffer
    word: OfferState | Literal["failing"]
    findings: tuple[str, ...]


def check_offer(registry: PluginRegistry, offer: PluginOffer, devices: Sequence[DeviceInfo]) -> CheckResult:
    """`devices` are those of this machine; the first that the plugin can use is the one it checks itself on.

    Look at the manifest, import, look at the hooks, ask the plugin itself, try what needs no artifact; stop at the
    first that fails.
    """
    found = standing(offer, frozenset(device.kind for device in devices))
    if found.state != "ready" or offer.manifest is None:
        return CheckResult(offer=offer, word=found.state, findings=(found.reason,))
    try:
        plugin = registry.load(offer)
        missing = plugin.missing_hooks()
        if missing:
            return CheckResult(
                offer=offer, word="broken", findings=tuple(f"does not implement {hook}" for hook in missing)
            )
        usable = [device for device in devices if device.kind in (offer.manifest.devices or (device.kind,))]
        findings = tuple(plugin.hook.ninfer_check(device=usable[0]) or ())
        if not findings:
            try_plugin(plugin)
    except PluginBroken as error:
        return CheckResult(offer=offer, word="broken", findings=(error.message,))
    except PluginIncompatible as error:
        return CheckResult(offer=offer, word="failing", findings=(error.message,))
    return CheckResult(offer=offer, word="failing" if findings else "ready", findings=findings)
