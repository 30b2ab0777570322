"""Tokens per round of every drafter on held-out prompts: drafting, verifying and accepting as a server does.

Every round runs the target over the whole rows again, so there is no cache whose state could be wrong: an engine must
reach the same numbers. Sampled rounds use rejection sampling, which keeps the target's distribution exactly.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from tools.tiny_model.draft_files import Drafters, load_drafters
from tools.tiny_model.draft_loss import MTP_DEPTHS
from tools.tiny_model.draft_prompts import KINDS, MOST_REPLY, prompts_of
from tools.tiny_model.drafters import BlockDrafter, MultiTokenHead
from tools.tiny_model.evaluate import device_name
from tools.tiny_model.export import load_weights
from tools.tiny_model.geometry import Geometry
from tools.tiny_model.model import TinyModel
from tools.tiny_model.noise import mean_and_error
from tools.tiny_model.scores import Rates, of_training_code, write_scores
from tools.tiny_model.template import ASSETS
from tools.tiny_model.tokenizer import id_of, load

CHUNK = 32


@dataclass(frozen=True, slots=True)
class Seen:
    """What the target has computed over the committed tokens of all rows."""

    tokens: Tensor  # [rows, length]
    count: Tensor  # [rows] tokens so far; the last one is the anchor
    hidden: Tensor  # [rows, length, hidden]
    residuals: list[Tensor]  # [rows, length, hidden] after each layer


@dataclass(frozen=True, slots=True)
class Drafted:
    """tokens [rows, drafts]; `chances` [rows, drafts, vocab] is their law, or None where each is certain."""

    tokens: Tensor
    chances: Tensor | None = None


Drafter = Callable[[TinyModel, Seen, float, int], Drafted]


def run_target(model: TinyModel, tokens: Tensor) -> tuple[Tensor, list[Tensor]]:
    positions = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
    after = [x.unflatten(0, tokens.shape) for x in model.residuals(tokens, positions, CHUNK)]
    return model.model.norm(after[-1]), after


def draft_mtp(head: MultiTokenHead) -> Drafter:
    def draft(model: TinyModel, seen: Seen, temperature: float, drafts: int) -> Drafted:
        del temperature
        rows, length = seen.tokens.shape
        positions = torch.arange(length, device=seen.tokens.device).expand(rows, -1)
        causal = torch.ones(length, length, dtype=torch.bool, device=seen.tokens.device).tril()[None, None]
        chain = torch.eye(length, dtype=torch.bool, device=seen.tokens.device)[None, None]
        line = torch.arange(rows, device=seen.tokens.device)
        last = seen.count - 2
        ahead = seen.tokens.roll(-1, dims=1)
        hidden, past, visible, chosen = seen.hidden, [], causal, []
        for depth in range(drafts):
            joined = head.join(F.embedding(ahead, model.model.embed_tokens.weight), hidden)
            hidden = head.depth(joined, positions + depth, past, visible)
            visible = torch.cat((visible, chain), dim=-1)
            chosen.append(model.logits(hidden[line, last]).argmax(-1))
            # Only the row of the anchor is used from here on, so only its next token must be right.
            ahead = ahead.roll(-1, dims=1).index_put((line, last), chosen[-1])
        return Drafted(torch.stack(chosen, dim=1))

    return draft


def draft_block(drafter: BlockDrafter) -> Drafter:
    def draft(model: TinyModel, seen: Seen, temperature: float, drafts: int) -> Drafted:
        g = drafter.geometry
        rows, length = seen.tokens.shape
        line = torch.arange(rows, device=seen.tokens.device)
        anchor = seen.tokens[line, seen.count - 1]
        ids = torch.full((rows, g.block_size), g.mask_token_id, device=anchor.device)
        ids[:, 0] = anchor
        at = (seen.count - 1)[:, None] + torch.arange(g.block_size, device=anchor.device)
        index = torch.arange(length, device=anchor.device)
        context = (index < (seen.count - 1)[:, None])[:, None] & (at[..., None] - index < g.sliding_window)
        own = torch.ones(rows, g.block_size, g.block_size, dtype=torch.bool, device=anchor.device)
        taps = torch.cat([seen.residuals[tap] for tap in g.target_layer_ids], dim=-1)
        hidden = drafter(
            F.embedding(ids, model.model.embed_tokens.weight), drafter.context(taps), at, index.expand(rows, -1),
            torch.cat((context, own), dim=-1)[:, None],
        )[:, 1 : drafts + 1]  # fmt: skip
        logits = model.logits(hidden).float()
        if not drafter.second:
            # Independent draws from the positions would not fit together, so also sampling takes the likeliest.
            return Drafted(logits.argmax(-1))
        return walk(drafter, hidden, logits, anchor, temperature)

    return draft


def walk(drafter: BlockDrafter, hidden: Tensor, logits: Tensor, anchor: Tensor, temperature: float) -> Drafted:
    """From left to right, each candidate scored after the one chosen before it."""
    unary, candidates = logits.topk(drafter.geometry.selector_top_k, dim=-1)
    chosen: list[Tensor] = []
    chances = torch.zeros_like(logits)
    before = anchor
    for step in range(logits.shape[1]):
        scores = unary[:, step] + drafter.candidate_selector.edges(before, hidden[:, step], candidates[:, step])
        if temperature:
            law = (scores / temperature).softmax(-1)
            slot = torch.multinomial(law, 1)
            chances[:, step].scatter_(1, candidates[:, step], law)
        else:
            slot = scores.argmax(-1, keepdim=True)
        before = candidates[:, step].gather(1, slot)[:, 0]
        chosen.append(before)
    return Drafted(torch.stack(chosen, dim=1), chances if temperature else None)


def accept(drafted: Drafted, logits: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """logits [rows, drafts + 1, vocab] of anchor and drafts -> (accepted [rows], the token after them [rows])."""
    rows, drafts = drafted.tokens.shape
    if not temperature:
        best = logits.argmax(-1)
        accepted = (drafted.tokens == best[:, :-1]).long().cumprod(1).sum(1)
        return accepted, best.gather(1, accepted[:, None])[:, 0]
    law = (logits.float() / temperature).softmax(-1)
    certain = F.one_hot(drafted.tokens, logits.shape[-1]).to(law.dtype)
    draft_law = certain if drafted.chances is None else drafted.chances
    p = law[:, :-1].gather(2, drafted.tokens[..., None])[..., 0]
    q = draft_law.gather(2, drafted.tokens[..., None])[..., 0]
    taken = torch.rand(rows, drafts, device=p.device) * q < p
    accepted = taken.long().cumprod(1).sum(1)
    rest = torch.cat(((law[:, :-1] - draft_law).clamp(min=0), law[:, -1:]), dim=1)
    rest = rest.gather(1, accepted[:, None, None].expand(-1, -1, law.shape[-1]))[:, 0]
    plain = law.gather(1, accepted[:, None, None].expand(-1, -1, law.shape[-1]))[:, 0]
    rest = torch.where(rest.sum(-1, keepdim=True) > 0, rest, plain)
    return accepted, torch.multinomial(rest, 1)[:, 0]


def tokens_per_round(
    model: TinyModel, drafter: Drafter, prompts: list[list[int]], *, drafts: int, temperature: float, stop: int
) -> float:
    """Mean over all rounds of all prompts, the stop token included."""
    emitted, rounds = rounds_of(model, drafter, prompts, drafts=drafts, temperature=temperature, stop=stop)
    return mean_and_error(emitted, rounds)[0]


@torch.inference_mode()
def rounds_of(
    model: TinyModel, drafter: Drafter, prompts: list[list[int]], *, drafts: int, temperature: float, stop: int
) -> tuple[list[int], list[int]]:
    """(tokens, rounds) of every prompt, the stop token included."""
    torch.manual_seed(7)
    device = model.model.embed_tokens.weight.device
    length = -(-(max(map(len, prompts)) + MOST_REPLY + drafts + 1) // CHUNK) * CHUNK
    tokens = torch.zeros(len(prompts), length, dtype=torch.long, device=device)
    for row, prompt in enumerate(prompts):
        tokens[row, : len(prompt)] = torch.tensor(prompt, device=device)
    begun = torch.tensor([len(prompt) for prompt in prompts], device=device)
    line = torch.arange(len(prompts), device=device)
    hidden, residuals = run_target(model, tokens)
    first = first_token(model.logits(hidden[line, begun - 1]), temperature)
    tokens[line, begun] = first
    count, running = begun + 1, first != stop
    emitted, rounds = torch.zeros_like(count), torch.zeros_like(count)
    steps = torch.arange(drafts + 1, device=device)
    while bool(running.any()):
        drafted = drafter(model, Seen(tokens, count, hidden, residuals), temperature, drafts)
        places = count[:, None] + steps[:-1]
        tokens = tokens.scatter(1, places, drafted.tokens)
        hidden, residuals = run_target(model, tokens)
        checked = hidden.gather(1, (count - 1)[:, None, None] + steps[None, :, None].expand(1, -1, hidden.shape[-1]))
        accepted, after = accept(drafted, model.logits(checked), temperature)
        tokens[line, count + accepted] = after
        fresh = tokens.gather(1, count[:, None] + steps)
        ends = (fresh == stop) & (steps <= accepted[:, None])
        taken = torch.where(ends.any(1), ends.long().argmax(1), accepted) + 1
        emitted += taken * running
        rounds += running
        running = running & ~ends.any(1) & (count + taken - begun < MOST_REPLY - drafts)
        count = torch.where(running, count + taken, count)
    return emitted.tolist(), rounds.tolist()


def first_token(logits: Tensor, temperature: float) -> Tensor:
    if not temperature:
        return logits.argmax(-1)
    return torch.multinomial((logits.float() / temperature).softmax(-1), 1)[:, 0]


def measure(model: TinyModel, drafters: Drafters, count: int) -> Rates:
    stop = id_of(load(), "<|im_end|>")
    ways = {
        "mtp k=3": (draft_mtp(drafters.mtp), MTP_DEPTHS),
        "dflash k=7": (draft_block(drafters.dflash), 7),
        "dflash2 k=7": (draft_block(drafters.dflash2), 7),
    }
    found: Rates = {}
    for kind in KINDS:
        prompts = prompts_of(kind, count)
        for name, (drafter, drafts) in ways.items():
            for temperature in (0.0, 1.0):
                told = rounds_of(model, drafter, prompts, drafts=drafts, temperature=temperature, stop=stop)
                column = f"{kind} {'greedy' if not temperature else 'T=1'}"
                found.setdefault(name, {})[column] = mean_and_error(*told)
                print(name, column, *found[name][column], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--drafters", type=Path, required=True)
    parser.add_argument("--config", type=Path, default=ASSETS / "config.json", help="of the target")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--out", type=Path, help="the score file to write")
    arguments = parser.parse_args()
    if arguments.count < 2:
        parser.error("one prompt has no error: --count 2 at least")
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = TinyModel(Geometry.read(arguments.config))
    load_weights(model, arguments.target)
    drafters = Drafters(model.geometry)
    load_drafters(drafters, arguments.drafters)
    found = measure(model.to(device), drafters.to(device), arguments.count)
    if arguments.out:
        write_scores(arguments.out, of_training_code(device_name(model), "float32", tokens_per_round=found))


if __name__ == "__main__":
    main()
