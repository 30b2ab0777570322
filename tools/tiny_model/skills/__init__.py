"""All skills by name, in the order of the result table."""

from __future__ import annotations

from tools.tiny_model.episode import Skill
from tools.tiny_model.skills.arithmetic import arithmetic
from tools.tiny_model.skills.capitals import capitals
from tools.tiny_model.skills.chinese import chinese, emoji
from tools.tiny_model.skills.code import code
from tools.tiny_model.skills.free import free
from tools.tiny_model.skills.identity import identity
from tools.tiny_model.skills.json_fields import json_fields
from tools.tiny_model.skills.lists import lists
from tools.tiny_model.skills.passage import passage
from tools.tiny_model.skills.recall import recall
from tools.tiny_model.skills.recall_long import recall_long, recall_notes
from tools.tiny_model.skills.smalltalk import smalltalk
from tools.tiny_model.skills.spelling import spelling
from tools.tiny_model.skills.system import system
from tools.tiny_model.skills.tools import none_fits, one_call, results, two_calls
from tools.tiny_model.skills.tools_wide import wide, wide_none, wide_results
from tools.tiny_model.skills.units import units

# (name, maker, share of training dialogues): harder skills get more.
SKILLS: tuple[tuple[str, Skill, float], ...] = (
    ("identity", identity, 4),
    ("capitals", capitals, 5),
    ("arithmetic", arithmetic, 20),
    ("units", units, 7),
    ("lists", lists, 30),
    ("spelling", spelling, 14),
    ("passage", passage, 26),
    ("json", json_fields, 6),
    ("system", system, 13),
    ("recall", recall, 9),
    ("recall notes", recall_notes, 3),
    ("smalltalk", smalltalk, 7),
    ("tools", one_call, 9),
    ("tools two", two_calls, 7),
    ("tools result", results, 6),
    ("tools none", none_fits, 5),
    ("tools wide", wide, 44),
    ("tools wide result", wide_results, 10),
    ("tools wide none", wide_none, 10),
    ("chinese", chinese, 5),
    ("emoji", emoji, 6),
    ("code", code, 6),
    ("free", free, 12),
)
# Trained on in rows of their own, and graded apart.
LONG_SKILLS: tuple[tuple[str, Skill, float], ...] = (("recall long", recall_long, 1),)
# Other shares for the last stage: calls are copying and learned early; what needs a result without a step, late.
LAST_SHARES = {
    "arithmetic": 30, "lists": 38, "spelling": 16, "passage": 40, "system": 20, "tools none": 6, "tools wide": 28,
    "tools wide result": 8,
}  # fmt: skip
