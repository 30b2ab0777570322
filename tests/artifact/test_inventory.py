from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from ninfer_core.api.artifact import ArtifactHeader, ArtifactIdentity, TensorSpec
from ninfer_core.artifact import inventory_problems

TEXT = frozenset({"text"})


def spec(name: str, shape: tuple[int, ...] = (2,), dtype: str = "bfloat16", group: str = "text") -> TensorSpec:
    return TensorSpec(name=name, shape=shape, dtype=dtype, group=group)


def header(tensors: Sequence[TensorSpec]) -> ArtifactHeader:
    identity = ArtifactIdentity(model_id="m", weights_id="bf16", family="", format_version=0)
    return ArtifactHeader(source="m", identity=identity, config={}, resources={}, tensors=tuple(tensors))


def test_a_matching_artifact_has_no_problem() -> None:
    inventory = [spec("a"), spec("b", group="mtp")]
    assert inventory_problems(header(inventory), inventory, TEXT | {"mtp"}) == []


def test_each_kind_of_mismatch_is_named_with_what_was_found_and_wanted() -> None:
    inventory = [spec("absent", (3, 4)), spec("shape", (3, 4)), spec("dtype")]
    found = [spec("shape", (4, 3)), spec("dtype", dtype="float32"), spec("extra", (7,))]
    assert inventory_problems(header(found), inventory, TEXT) == [
        "missing: absent, bfloat16 [3, 4]",
        "wrong shape: shape, [4, 3] instead of [3, 4]",
        "wrong dtype: dtype, float32 instead of bfloat16",
        "unknown: extra, bfloat16 [7]",
    ]


def test_a_group_that_is_not_enabled_may_be_absent_partial_or_misshapen() -> None:
    inventory = [spec("a"), spec("mtp.fc", group="mtp"), spec("mtp.norm", group="mtp")]
    partial = header([spec("a"), spec("mtp.fc", (9,))])
    assert inventory_problems(partial, inventory, TEXT) == []
    assert inventory_problems(partial, inventory, TEXT | {"mtp"}) == [
        "wrong shape: mtp.fc, [9] instead of [2]",
        "missing: mtp.norm, bfloat16 [2]",
    ]


def test_names_that_differ_in_numbers_share_a_line() -> None:
    inventory = [spec(f"model.layers.{layer}.q.weight") for layer in range(12)]
    found = header([inventory[layer] for layer in (0, 4, 8)])
    assert inventory_problems(found, inventory, TEXT) == [
        "missing: model.layers.{1-3,5-7,9-11}.q.weight, bfloat16 [2] (9 tensors)"
    ]
    experts = [spec(f"layers.{layer}.experts.{expert}.w") for layer in range(3) for expert in range(4)]
    assert inventory_problems(header([]), experts, TEXT) == [
        "missing: layers.{0-2}.experts.{0-3}.w, bfloat16 [2] (12 tensors)"
    ]
    assert inventory_problems(header(experts[:1]), experts, TEXT) == [
        "missing: layers.{0-2}.experts.{0-3}.w, bfloat16 [2] (11 of these 12 tensors)"
    ]


def test_the_list_stays_readable() -> None:
    unlike = [spec(f"tensor_{letter}{other}") for letter in "abcdefgh" for other in "abcdefgh"]
    lines = inventory_problems(header([]), unlike, TEXT)
    assert len(lines) == 41 and lines[-1] == "and 24 more"
    odd = [spec(f"layers.{2 * layer}.w") for layer in range(100)]
    (line,) = inventory_problems(header([]), odd, TEXT)
    assert ",..." in line and "(100 tensors)" in line and len(line) < 120


@settings(max_examples=200, deadline=None)
@given(names=st.lists(st.text(max_size=12) | st.from_regex(r"[a0-9²٣.]{0,20}", fullmatch=True), max_size=20))
def test_any_names_at_all_are_listed_printably(names: list[str]) -> None:
    unknown = [spec(name) for name in set(names)]
    lines = inventory_problems(header(unknown), [], TEXT)
    assert bool(lines) == bool(unknown) and all(line.isprintable() for line in lines)
