"""A program without a device: every rule of `ninfer_core.program.contract` asserted, every answer known beforehand.

The tokens of a request are a function of its sampling seed alone (`answer_token`), so a test can compute what any
history must yield. A round offers 1..`columns` of them from the position that the engine's choices of N imply;
an N that is off by one therefore shows up as wrong text, and so does a row that goes on behind less than was assumed.
With more than one column it has a drafter: of all that is offered but the last, of some that is wrong, or of nothing.
"""

from __future__ import annotations

import codecs
import random
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from ninfer_core.api.artifact import ArtifactIdentity
from ninfer_core.api.frontend import (
    ChannelText,
    OutputFormat,
    ParsedToolCall,
    PreparedPrompt,
    SamplingPresets,
    TemplateCapabilities,
    ThinkingDefaults,
    ToolCallReport,
)
from ninfer_core.api.geometry import AttentionGeometry, Geometry
from ninfer_core.api.kv import KVLayout, KVPlane
from ninfer_core.api.plan import Capacities, DeviceInfo, ExecutionPlan, Feature, Features, Ledger
from ninfer_core.api.request import Channel, GenerationRequest, SamplingOptions, TemplateOptions, ToolDefinition
from ninfer_core.program.contract import MOST_IN_FLIGHT, Candidates, RowRound, RowSetup, Unit, UnitByUnit
from ninfer_core.program.pages import PagePool
from ninfer_core.program.reservations import Reservation, release_row, reserve_row
from ninfer_core.program.slots import SlotPool
from ninfer_core.testing.simulated_row import SimulatedRow

STOP_TOKEN = 256
THINK_END_TOKEN = 257
VOCABULARY_ROWS = 258
"""Token ids below 256 are bytes of UTF-8."""

CONTROL_IDS = (*b" Enough, abca.", THINK_END_TOKEN)
"""What closes thinking at its budget. Has text that stop strings of tests hit."""

_GROUPS = tuple(text.encode() for text in ("abca", "ab c", "aébc", "漢a", "🚀", "éa\n", "cabc", "aaaa", "bcab", "b漢"))
"""Text of four bytes each, poor in letters so that stop strings match often."""


def answer_token(seed: int, position: int) -> int:
    """The token at `position` of the answer with this seed: mostly text that common stop strings hit, sometimes a
    closing think tag, a stop token or a byte that is no UTF-8."""
    draw = random.Random(seed * 1_000_003 + position // 4)
    kind = draw.random()
    if kind < 0.03:
        return STOP_TOKEN if position % 4 == 0 else ord("z")
    if kind < 0.10:
        return THINK_END_TOKEN if position % 4 == 1 else ord("y")
    if kind < 0.13:
        return 0xFF
    return draw.choice(_GROUPS)[position % 4]


@dataclass
class SimulatedProgram(UnitByUnit):
    """Implements Program. `columns` is W, the most candidates of a round; without `goes_ahead` its drafter is on the
    host; `fail_at_unit` raises as that unit is collected; `kinds` are the units that were run: `prefill`, `decode`,
    `control`. `ahead` counts rows that took several candidates unseen (`took_many`), had no room for all of them
    (`cut`), were closed with a round in flight that had taken them so (`ended`), or went on after a round that others
    had gone ahead with (`waited`)."""

    pages: PagePool
    slots: SlotPool
    columns: int = 1
    seed: int = 0
    prefill_chunk: int = 128
    fail_at_unit: int | None = None
    units: int = 0
    closed: bool = False
    round_sizes: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    runs_ahead: bool = True
    goes_ahead: bool = True
    ahead: Counter[str] = field(default_factory=Counter)
    _rows: dict[int, SimulatedRow] = field(default_factory=dict)
    _in_flight: deque[int] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._wrong_drafts = random.Random(f"wrong drafts {self.seed}")

    @property
    def open_rows(self) -> int:
        return len(self._rows)

    def open_row(self, setup: RowSetup) -> int | None:
        assert not self.closed, "open_row after close"
        assert 1 <= setup.prompt_tokens <= setup.reserved_tokens
        reservation = reserve_row(self.slots, self.pages, setup.reserved_tokens)
        if reservation is None:
            return None
        slot, pages = reservation
        self._rows[slot] = SimulatedRow(setup, pages)
        return slot

    def launch_prefill(self, row: int, token_ids: Sequence[int], last: bool) -> Unit:
        self._unit("prefill")
        state = self._rows[row]
        assert state.rounds_waited <= 1 + state.singles_waited, f"{state.rounds_waited} rounds since row {row}'s chunk"
        assert state.singles_waited < self.slots.slots, "more units for single rows than there can be other rows"
        self._ran([row])
        assert 1 <= len(token_ids) <= self.prefill_chunk, f"a chunk of {len(token_ids)} tokens"
        assert not state.offered, f"row {row} is past its prompt"
        state.prefilled += len(token_ids)
        assert (state.prefilled == state.setup.prompt_tokens) == last, "`last` must mark the end of the prompt"
        if last:
            self._offer(state, (answer_token(state.setup.sampling.seed, 0),))
            state.in_round = False
        return self._launched([state] if last else [], (state.offered,))

    def launch_decode(self, rows: Sequence[RowRound]) -> Unit:
        self._unit("decode")
        assert rows, "an empty round"
        in_round = {each.row for each in rows}
        assert len(in_round) == len(rows), "a row twice in one round"
        ready = {row for row, state in self._rows.items() if state.offered}
        known = {row for row in ready if not self._rows[row].uncollected}
        assert in_round <= (ready if self.goes_ahead else known), "a round has ready rows only"
        for row in known - in_round:
            self._rows[row].passed_over = True
        for row in ready - known - in_round:
            self._rows[row].waits = True
        for row in in_round:
            assert self._rows[row].singles_waited <= 1, f"row {row} was ready for more than one unit of another row"
        self._ran(in_round)
        self.round_sizes.append(len(rows))
        candidates = tuple(self._advance(each) for each in rows)
        drafted = tuple(self._wrong_drafts.randint(len(row) - 1, self.columns - 1) for row in candidates)
        return self._launched([self._rows[each.row] for each in rows], candidates, drafted if self.columns > 1 else ())

    def _advance(self, each: RowRound) -> tuple[int, ...]:
        state = self._rows[each.row]
        assert not state.passed_over, f"row {each.row} was ready and left out of a round"
        self._take(state, each.accepted)
        occupied = state.setup.prompt_tokens + state.taken
        reserved = state.setup.reserved_tokens
        assert occupied < reserved, f"row {each.row} holds {occupied} of {reserved} tokens and goes on"
        state.in_round = True
        seed = state.setup.sampling.seed
        offered = self._random.randint(1, self.columns)
        positions = range(state.taken, state.taken + offered)
        self._offer(state, tuple(answer_token(seed, position) for position in positions))
        return state.offered

    def launch_control(self, row: RowRound, token_ids: Sequence[int]) -> Unit:
        self._unit("control")
        self._ran([row.row])
        state = self._rows[row.row]
        assert row.accepted is not None, "what stands before forced tokens is known"
        self._take(state, row.accepted)
        state.taken += len(token_ids) - 1
        state.offered = (token_ids[-1],)
        state.passed_over = False
        occupied, reserved = state.setup.prompt_tokens + state.taken, state.setup.reserved_tokens
        assert occupied + 2 <= reserved, f"row {row.row} holds {occupied} of {reserved} tokens and is to answer"
        return self._launched([], ((),))

    def _offer(self, state: SimulatedRow, tokens: tuple[int, ...]) -> None:
        state.offered = tokens
        state.uncollected += 1

    def _launched(self, states: Sequence[SimulatedRow], candidates: Candidates, drafted: tuple[int, ...] = ()) -> Unit:
        """Known at once, and told to whoever collects the units in their order."""
        unit = self.units
        self._in_flight.append(unit)
        assert len(self._in_flight) <= MOST_IN_FLIGHT, f"{len(self._in_flight)} units in flight"

        def collect() -> Candidates:
            assert self._in_flight.popleft() == unit, "a unit is collected before an older one"
            if unit == self.fail_at_unit:
                raise RuntimeError("the simulated device has failed")
            for state in states:
                state.uncollected -= 1
                state.assumed &= state.uncollected > 0
            return candidates

        return Unit(collect, drafted=lambda: drafted)

    def _ran(self, rows: Collection[int]) -> None:
        """A unit of these rows: the others have waited for it."""
        for row, state in self._rows.items():
            if row in rows:
                state.rounds_waited = state.singles_waited = 0
            elif self.kinds[-1] == "decode":
                state.rounds_waited += 1
            else:
                state.singles_waited += 1

    def check_accounts(self) -> None:
        """Every page has one owner: a row, or the free ones (docs/engine.md, "What always holds", 2)."""
        owned = [page for state in self._rows.values() for page in state.pages]
        assert len(set(owned)) == len(owned), "two rows own one page"
        assert len(owned) + self.pages.free_pages == self.pages.pages
        assert len(self._rows) + self.slots.free_slots == self.slots.slots

    def _take(self, state: SimulatedRow, accepted: int | None) -> None:
        if accepted is None:
            assert self.goes_ahead, "tokens that have to be known are taken unseen"
            assert state.uncollected == 1 and state.in_round, "all is taken of what is not one round that is not seen"
            room = state.setup.reserved_tokens - 1 - state.setup.prompt_tokens - state.taken
            accepted = min(len(state.offered), room)
            self.ahead["took_many"] += accepted > 1
            self.ahead["cut"] += accepted < len(state.offered)
            state.assumed = True
        else:
            assert not state.uncollected, "candidates are taken that nobody has seen"
            self.ahead["waited"] += state.waits
            state.waits = False
        assert 1 <= accepted <= len(state.offered), f"N = {accepted} of {len(state.offered)} candidates"
        state.taken += accepted

    def close_row(self, row: int) -> None:
        state = self._rows.pop(row)
        self.ahead["ended"] += state.assumed
        release_row(self.slots, self.pages, Reservation(row, state.pages))

    def close(self) -> None:
        assert not self.closed, "closed twice"
        self.closed = True

    def _unit(self, kind: str) -> None:
        assert not self.closed, "a unit after close"
        self.units += 1
        self.kinds.append(kind)


class SimulatedDecoder:
    """Bytes to text, and the closing think tag as one token."""

    def __init__(self, initial_channel: Channel) -> None:
        self.channel: Channel = initial_channel
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> tuple[ChannelText, ...]:
        if token_id == THINK_END_TOKEN and self.channel == "reasoning":
            held = self.finish()
            self.channel = "content"
            return held
        if token_id >= 256:
            return ()
        return self._text(self._bytes.decode(bytes([token_id])))

    def finish(self) -> tuple[ChannelText, ...]:
        text = self._bytes.decode(b"", final=True)
        self._bytes.reset()
        return self._text(text)

    def _text(self, text: str) -> tuple[ChannelText, ...]:
        return (ChannelText(self.channel, text),) if text else ()


class PlainTextParser:
    """The output parser of a template without tools: everything is text."""

    def __init__(self) -> None:
        self.report = ToolCallReport()

    def push(self, piece: ChannelText) -> tuple[ChannelText | ParsedToolCall, ...]:
        return (piece,)

    def finish(self) -> tuple[ChannelText | ParsedToolCall, ...]:
        return ()


class SimulatedFormat:
    """Implements OutputFormat. Ids are bytes, whatever a vocabulary says."""

    def decoder(self, token_bytes: Callable[[int], bytes], initial_channel: Channel) -> SimulatedDecoder:
        return SimulatedDecoder(initial_channel)

    def parser(self, tools: tuple[ToolDefinition, ...], *, tolerant: bool) -> PlainTextParser:
        return PlainTextParser()


class SimulatedFrontend:
    """Implements Frontend for token ids that are bytes. A prompt is the messages' text, UTF-8 encoded."""

    def __init__(self) -> None:
        self.capabilities = TemplateCapabilities(
            thinking_toggle=True, efforts=(), default_effort=None, preserve_thinking=False, tools=False
        )
        preset = SamplingOptions(
            temperature=1.0, top_p=0.95, top_k=20, min_p=0.0, presence_penalty=0.0, frequency_penalty=0.0
        )
        self.presets = SamplingPresets(thinking=preset, non_thinking=preset)
        self.output_format: OutputFormat = SimulatedFormat()
        self.stop_token_ids: tuple[int, ...] = (STOP_TOKEN,)
        self.token_domain = VOCABULARY_ROWS
        self.thinking_control_ids: tuple[int, ...] = CONTROL_IDS

    def prepare(
        self, request: GenerationRequest, defaults: ThinkingDefaults, *, most_tokens: int | None = None
    ) -> PreparedPrompt:
        text = "\n".join(f"{message.role}: {message.text}" for message in request.messages)
        asked = request.template.enable_thinking
        thinking = defaults.enable_thinking if asked is None else asked
        return PreparedPrompt(
            text=text,
            token_ids=tuple(text.encode()),
            initial_channel="reasoning" if thinking else "content",
            resolved=TemplateOptions(enable_thinking=thinking, preserve_thinking=defaults.preserve_thinking),
        )

    def fewest_tokens(self, characters: int) -> int:
        return characters // 4

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id]) if token_id < 256 else b""


def simulated_plan(
    *,
    draft_tokens: int = 0,
    max_context: int = 256,
    page_tokens: int = 64,
    kv_pages: int = 8,
    max_concurrency: int = 4,
    max_pending_requests: int = 16,
    prefill_chunk: int = 128,
) -> ExecutionPlan:
    """A plan for the simulated program: honest capacities, no bytes."""
    frontend, off = SimulatedFrontend(), Feature(False)
    return ExecutionPlan(
        ninfer_version="0",
        api=1,
        pins=(),
        source="simulated",
        identity=ArtifactIdentity(model_id="simulated", weights_id="none", family="simulated", format_version=1),
        device=DeviceInfo(kind="cpu", index=None, name="simulated", memory_bytes=0, compute_capability=None),
        geometry=Geometry(
            hidden_size=1,
            layers=1,
            vocabulary_rows=VOCABULARY_ROWS,
            max_positions=max_context,
            attention=AttentionGeometry(layers=1, query_heads=1, kv_heads=1, head_dim=1),
            state=(),
            records=(),
        ),
        token_domain=frontend.token_domain,
        activation_dtype="float32",
        kv_layout=KVLayout(planes=(KVPlane(part="key", name="key", dtype="float32", elements=1),)),
        capacities=Capacities(
            max_context=max_context,
            page_tokens=page_tokens,
            kv_pages=kv_pages,
            state_slots=max_concurrency,
            max_concurrency=max_concurrency,
            max_pending_requests=max_pending_requests,
            pending_timeout_ms=30_000,
            prefill_chunk=prefill_chunk,
            draft_tokens=draft_tokens,
            default_max_tokens=128,
        ),
        template=frontend.capabilities,
        thinking=ThinkingDefaults(),
        presets=frontend.presets,
        sampling_overrides=SamplingOptions(),
        greedy=False,
        fingerprint="0" * 64,
        features=Features(cuda_graphs=off, prefix_reuse=off, speculation=off, vision=off, tool_calls=off),
        ledger=Ledger(lines=(), device_bytes=0),
    )


def simulated_program(plan: ExecutionPlan, *, seed: int = 0, fail_at_unit: int | None = None) -> SimulatedProgram:
    """A program with the capacities of `plan`."""
    capacities = plan.capacities
    return SimulatedProgram(
        pages=PagePool(pages=capacities.kv_pages, page_tokens=capacities.page_tokens),
        slots=SlotPool(capacities.state_slots),
        columns=1 + capacities.draft_tokens,
        seed=seed,
        prefill_chunk=capacities.prefill_chunk,
        fail_at_unit=fail_at_unit,
    )
