"""What of a plan plain torch computes although kernels are wanted: nothing falls back in silence."""

from __future__ import annotations

from ninfer_core.api.artifact import ArtifactHeader
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.ops.workspace import paged_attention
from ninfer_core.plan.resolve import Resolution


def reference_operations(resolution: Resolution, header: ArtifactHeader) -> tuple[str, ...]:
    """Each operation and why, a line each. Empty where the reference is what was asked for, or all that there is."""
    plan = resolution.plan
    if plan.device.kind != "cuda" or plan.kernels == "reference":
        return ()
    of_family = resolution.family.hook.ninfer_family_reference_operations(header=header) or ()
    return (*_attention(plan), *of_family)


def _attention(plan: ExecutionPlan) -> list[str]:
    head_dim = plan.geometry.attention.head_dim
    if not plan.kv_layout.device_functions:
        return [f"attention: KV format {plan.pin('kv').name} has no device functions"]
    if head_dim not in paged_attention.HEAD_DIMS:
        return [f"attention: no kernels for heads of {head_dim} elements"]
    return []
