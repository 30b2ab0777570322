"""Bounds and accounts of the store: what it says it holds is what can be reached from it."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ninfer_protocols.openai_responses.items import InputText, MessageItem
from ninfer_protocols.openai_responses.store import (
    RECORD_OVERHEAD_BYTES,
    SEGMENT_OVERHEAD_BYTES,
    ResponseNotFound,
    ResponseStore,
    Segment,
    StoreCapacityExceeded,
    StoredResponse,
    encode_items,
)


def record(name: str, parent: Segment | None = None, characters: int = 100) -> StoredResponse:
    item = MessageItem(id=f"msg_{name}", role="user", content=(InputText("x" * characters),))
    return StoredResponse(
        id=name,
        response_json=b"r" * characters,
        segment=Segment(parent, encode_items([item]), b"[]"),
        preserve_thinking=None,
        session_key=name,
    )


def reachable_bytes(store: ResponseStore, names: list[str]) -> int:
    records = [store.get(name) for name in names]
    segments = {id(segment): segment for each in records for segment in each.segment.chain()}
    held = sum(RECORD_OVERHEAD_BYTES + sys.getsizeof(each.response_json) for each in records)
    return held + sum(
        SEGMENT_OVERHEAD_BYTES + sys.getsizeof(segment.input_json) + sys.getsizeof(segment.output_json)
        for segment in segments.values()
    )


@pytest.mark.contract("RESP-62")
def test_the_least_recently_used_goes_first() -> None:
    store = ResponseStore(max_records=2, max_bytes=10**6)
    store.put(record("a"))
    store.put(record("b"))
    store.get("a")
    store.put(record("c"))
    assert len(store) == 2 and store.get("a") and store.get("c")
    with pytest.raises(ResponseNotFound):
        store.get("b")


@pytest.mark.contract("RESP-62", "OPT-21")
def test_bytes_bound_the_store_too() -> None:
    one = record("x").bytes + record("x").segment.bytes
    store = ResponseStore(max_records=100, max_bytes=3 * one)
    for name in "abcde":
        store.put(record(name))
    assert len(store) == 3 and store.held_bytes == 3 * one
    with pytest.raises(ResponseNotFound):
        store.get("b")


@pytest.mark.contract("RESP-63", "RESP-68")
def test_a_child_keeps_the_context_of_a_parent_that_is_gone() -> None:
    store = ResponseStore(max_records=10, max_bytes=10**6)
    parent = record("a")
    store.put(parent)
    store.put(record("b", parent.segment))
    store.delete("a")
    assert [item.id for item in store.get("b").segment.items()] == ["msg_a", "msg_b"]
    assert store.held_bytes == reachable_bytes(store, ["b"])
    store.delete("b")
    assert store.held_bytes == 0


@pytest.mark.contract("RESP-71")
def test_what_cannot_fit_alone_is_refused_and_evicts_nothing() -> None:
    store = ResponseStore(max_records=10, max_bytes=4000)
    small = record("a", characters=10)
    store.put(small)
    before = store.held_bytes
    with pytest.raises(StoreCapacityExceeded, match="the store holds 4000"):
        store.put(record("b", characters=5000))
    chained = record("c", small.segment, characters=1300)
    with pytest.raises(StoreCapacityExceeded):
        store.put(chained)
    with pytest.raises(StoreCapacityExceeded):
        store.check_room(small.segment, b"x" * 3000)
    store.check_room(small.segment, b"x" * 100)
    assert (store.held_bytes, len(store)) == (before, 1)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["root", "child", "get", "delete"]), st.integers(0, 9), st.integers(0, 900)),
        max_size=40,
    )
)
def test_the_account_is_what_can_be_reached(steps: list[tuple[str, int, int]]) -> None:
    store = ResponseStore(max_records=5, max_bytes=9000)
    alive: list[str] = []
    for number, (action, which, characters) in enumerate(steps):
        target: Any = alive[which % len(alive)] if alive else None
        if action == "delete" and target:
            store.delete(target)
        elif action == "get" and target:
            store.get(target)
        elif action in ("root", "child"):
            parent = store.get(target).segment if action == "child" and target else None
            new = record(f"r{number}", parent, characters)
            try:
                store.put(new)
                alive.append(new.id)
            except StoreCapacityExceeded:
                assert new.bytes + sum(segment.bytes for segment in new.segment.chain()) > 9000
        alive = [name for name in alive if name in store]
        assert store.held_bytes == reachable_bytes(store, alive)
        assert store.held_bytes <= 9000 and len(store) == len(alive) <= 5
