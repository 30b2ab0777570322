from __future__ import annotations

from ninfer_core.api import API_VERSION, Manifest
from ninfer_core.plugins.capabilities import capability_problems
from ninfer_core.plugins.offer import PluginOffer


def offer(
    reference: str, provides: tuple[str, ...] = (), requires: tuple[str, ...] = (), conflicts: tuple[str, ...] = ()
) -> PluginOffer:
    kind, _, name = reference.partition(":")
    manifest = Manifest(api=API_VERSION, summary=name, provides=provides, requires=requires, conflicts=conflicts)
    return PluginOffer(
        kind=kind,
        name=name,
        package=f"pkg-{name}",
        version="1",
        target=name,
        manifest=manifest,
        manifest_problem=None,
        first_party=False,
    )


PLAIN = offer("kv:plain")
ROLLING = offer("kv:rolling", provides=("kv.rollback",))
DRAFTER = offer("spec:drafter", requires=("kv.rollback", "target.taps"), conflicts=("kv.plain", "kv.block_scales"))


def test_plugins_that_ask_for_nothing_live_together() -> None:
    assert capability_problems([PLAIN, ROLLING]) == []


def test_what_is_required_may_come_from_any_selected_plugin() -> None:
    family = offer("family:f", provides=("target.taps",))
    assert capability_problems([ROLLING, DRAFTER, family]) == []


def test_everything_that_is_wrong_is_reported_together_with_its_way_out() -> None:
    problems = capability_problems([PLAIN, DRAFTER], available=[PLAIN, ROLLING, DRAFTER])
    assert [problem.code for problem in problems] == ["plan_conflict"] * 3
    assert [(problem.message, problem.remedy) for problem in problems] == [
        (
            "spec plugin 'drafter' from pkg-drafter 1 needs kv.rollback, which nothing selected provides",
            "add --kv-dtype rolling, or choose something else than --spec drafter",
        ),
        (
            "spec plugin 'drafter' from pkg-drafter 1 needs target.taps, which nothing selected provides",
            "choose something else than --spec drafter: no installed plugin provides target.taps",
        ),
        (
            "spec plugin 'drafter' from pkg-drafter 1 cannot run with kv.plain, "
            "which kv plugin 'plain' from pkg-plain 1 brings",
            "choose something else than --kv-dtype plain or than --spec drafter",
        ),
    ]


def test_a_conflict_may_name_a_capability_of_another_plugin_but_never_hits_the_plugin_itself() -> None:
    scaled = offer("kv:scaled", provides=("kv.rollback", "kv.block_scales"), conflicts=("kv.block_scales",))
    assert capability_problems([scaled]) == []
    (problem,) = capability_problems([scaled, DRAFTER, offer("family:f", provides=("target.taps",))])
    assert "cannot run with kv.block_scales, which kv plugin 'scaled'" in problem.message


def test_a_requirement_may_name_a_plugin() -> None:
    tied = offer("media:video", requires=("media.image",))
    assert len(capability_problems([tied])) == 1
    assert capability_problems([tied, offer("media:image")]) == []
