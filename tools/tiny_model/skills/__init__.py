"""All skills by name, in the order of the result table."""

from __future__ import annotations

from tools.tiny_model.episode import Skill
from tools.tiny_model.skills.arithmetic import arithmetic
from tools.tiny_model.skills.capitals import capitals
from tools.tiny_model.skills.identity import identity
from tools.tiny_model.skills.json_fields import json_fields
from tools.tiny_model.skills.lists import lists
from tools.tiny_model.skills.passage import passage
from tools.tiny_model.skills.recall import recall
from tools.tiny_model.skills.smalltalk import smalltalk
from tools.tiny_model.skills.spelling import spelling
from tools.tiny_model.skills.system import system
from tools.tiny_model.skills.units import units

# (name, maker, share of training dialogues): harder skills get more.
SKILLS: tuple[tuple[str, Skill, float], ...] = (
    ("identity", identity, 6),
    ("capitals", capitals, 8),
    ("arithmetic", arithmetic, 22),
    ("units", units, 11),
    ("lists", lists, 14),
    ("spelling", spelling, 11),
    ("passage", passage, 12),
    ("json", json_fields, 9),
    ("system", system, 11),
    ("recall", recall, 9),
    ("smalltalk", smalltalk, 7),
)
