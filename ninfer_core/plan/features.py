"""What of ninfer a plan makes use of, and why not of the rest."""

from __future__ import annotations

from ninfer_core.api.frontend import TemplateCapabilities
from ninfer_core.api.geometry import Geometry
from ninfer_core.api.kv import KVLayout
from ninfer_core.api.plan import DeviceInfo, Feature, Features
from ninfer_core.ops.workspace import paged_attention
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.sizing import Sizing

NOT_BUILT = Feature(False, "not built yet")


def planned_features(
    options: ServeOptions, sizing: Sizing, template: TemplateCapabilities, speculation: Feature
) -> Features:
    """A default that names what is not built says so; what the user switched off himself is simply off."""
    off = Feature(False)
    return Features(
        cuda_graphs=cuda_graphs(options, sizing.device, sizing.geometry, sizing.layout),
        prefix_reuse=off if options.no_prefix_reuse else NOT_BUILT,
        speculation=speculation,
        vision=off,
        tool_calls=_tool_calls(options, template),
    )


def cuda_graphs(options: ServeOptions, device: DeviceInfo, geometry: Geometry, layout: KVLayout) -> Feature:
    """A round by the reference walks the largest context that there may be: nothing to capture."""
    if options.no_cuda_graph:
        return Feature(False)
    if device.kind == "cpu":
        return Feature(False, "CPU")
    if options.kernels == "reference":
        return Feature(False, "reference kernels")
    if not layout.device_functions:
        return Feature(False, f"KV format {options.kv_dtype} has no device functions: attention is the slow reference")
    head_dim = geometry.attention.head_dim
    if head_dim not in paged_attention.HEAD_DIMS:
        return Feature(False, f"no kernels for heads of {head_dim} elements: attention is the slow reference")
    return Feature(True)


def _tool_calls(options: ServeOptions, template: TemplateCapabilities) -> Feature:
    if not template.tools:
        return Feature(False, "the template shows no tools")
    return Feature(True, "tolerant" if options.tolerant_tool_calls else "")
