"""Free text: stories, poems, plans, descriptions. Many right replies to each request, so there is no exact score.

This is what sampling and drafting are measured on: the words of a reply follow from the request only in part.
"""

from __future__ import annotations

import random

from tools.tiny_model.banks import COLOURS, FOODS, JOBS, NAMES, PETS, THINGS, TOWNS, UNIQUE_WORDS, words
from tools.tiny_model.episode import Episode, Exchange
from tools.tiny_model.skills.json_fields import DAYS
from tools.tiny_model.wording import a_or_an, loosen

MOODS = words("happy sad tired calm proud nervous curious brave quiet lucky hungry lost")
ADJECTIVES = words("old new small large bright dark strange quiet famous empty warm cold broken golden wooden silver")
PLACES = words("forest river mountain village market castle beach bridge garden station library island valley harbour")
VERBS = words("found lost sold painted carried hid opened cleaned bought repaired forgot followed")
WEATHER = words("rain snow sunshine fog wind thunder moonlight frost")
TIMES = (
    "One morning", "Late in the evening", "On a cold day", "Many years ago", "Last summer", "Before sunrise",
    "After the storm", "In the middle of the night", "One day", "Early in spring",
)  # fmt: skip

STORY_ASKS = (
    "Tell me a story about {topic}.", "Write a story about {topic}.", "A short story about {topic}, please.",
    "Can you tell a story with {topic}?", "Tell me a story.",
    "I want to hear a story about {topic}.", "Make up a story about {topic}.",
)  # fmt: skip
POEM_ASKS = (
    "Write a poem about {topic}.",
    "A poem about {topic}.",
    "Can you write a poem on {topic}?",
    "Poem: {topic}",
    "Write a poem.",
)
PLAN_ASKS = (
    "Plan a day in {town}.",
    "What should I do in {town}?",
    "Make a plan for a trip to {town}.",
    "A weekend in {town}?",
)
LETTER_ASKS = ("Write a letter to {name}.", "Write an email to {name}.", "Help me write to {name}.")
SCENE_ASKS = ("Describe {topic}.", "What does {topic} look like?", "Describe {topic} in a few sentences.")

OPENINGS = (
    "{time} {name}, {a_job} from {town}, met {a_pet} near the {place}.",
    "{time} there was {a_adjective} {place}, and in it lived {a_pet} called {name}.",
    "{name} was {a_job} who loved {food} more than anything else.",
    "{time} {name} {verb} {a_adjective} {thing} in {town}.",
    "Nobody in {town} knew why the {place} was so {adjective}.",
    "{time} the {pet} of {name} {verb} a {colour} {thing}.",
)
MIDDLES = (
    "The {pet} was {mood}, because the {thing} was {colour}.",
    "{name2} said that the {place} was full of {weather}.",
    "They walked to the {place} and saw {a_adjective} {thing}.",
    "There was {weather} over {town}, and everyone became {mood}.",
    '"I have never seen such {a_adjective} {word}," said {name2}.',
    "In the {place} they {verb} some {food} and a {thing}.",
    "{name} felt {mood}, but {name2} only smiled.",
    "A {colour} {word} stood in the {place}.",
    "The {job} asked for {food}, and the {pet} ran away.",
    "It took {n} days to cross the {place}.",
    "Then {name2} {verb} the {thing} and went home to {town}.",
    "For {n} hours they talked about {food} and the {weather}.",
    "Behind the {place} waited {a_job} with a {colour} {thing}.",
    "Nobody had told {name} about the {adjective} {word}.",
)
ENDINGS = (
    "In the end {name} was {mood} and gave the {thing} to {name2}.",
    "Since then the {place} has been {adjective}.",
    "And {name} never {verb} a {thing} again.",
    "That is why people in {town} like {food}.",
    "The {pet} slept, and the {weather} went on.",
    "They all went home, {mood} and {mood2}.",
)
VERSES = (
    "The {word} is {colour}, the {place} is {adjective},",
    "I saw {a_pet} under the {weather},",
    "O {word}, O {word2}, how {mood} you are,",
    "{weather} falls softly on the {place},",
    "A {thing} of {colour} lies in the {place},",
    "My heart is {mood} like {a_adjective} {word},",
    "The {pet} and the {job} dream of {food},",
    "We walk through {town} with {a_adjective} {thing},",
    "And nobody hears the {adjective} {word}.",
    "The night brings {weather} and {food}.",
    "So sings the {job} to the {pet}.",
    "Sleep, little {word}, the {place} is {mood}.",
)
STEPS = (
    "Visit the {adjective} {place}.",
    "Eat {food} near the {place}.",
    "Buy a {colour} {thing} for {name}.",
    "Meet {name2} at the {place} at {n} o'clock.",
    "Look for {a_adjective} {word}.",
    "Rest and wait for the {weather}.",
    "Take photos of the {pet} and the {thing}.",
    "Ask {a_job} about the {word}.",
    "Walk {n} kilometres to the {place}.",
)
GREETINGS = ("Dear {name},", "Hello {name},", "Hi {name},")
SENTENCES = (
    "I hope you are {mood}.",
    "On {day} I saw your {thing} in {town}.",
    "My {pet} is {mood} because of the {weather}.",
    "Please send me {n} pieces of {food}.",
    "Do you remember the {adjective} {place}?",
    "{name2} {verb} a {colour} {thing}.",
    "I now work as {a_job}.",
    "The {word} you gave me is still {adjective}.",
    "Next {day} I will be in {town}.",
)
FAREWELLS = ("Best wishes", "See you soon", "Yours", "With love")


def free(rng: random.Random) -> Episode:
    kind = rng.choices(range(5), (40, 20, 15, 15, 10))[0]
    slots = draw_slots(rng)
    topic = rng.choice((slots["a_pet"], f"the {slots['place']}", str(slots["name"]), slots["word"], slots["a_job"],
                        f"a {slots['colour']} {slots['thing']}", f"{slots['name']} and {slots['a_pet']}"))  # fmt: skip
    asks = (STORY_ASKS, POEM_ASKS, PLAN_ASKS, LETTER_ASKS, SCENE_ASKS)[kind]
    user = loosen(rng, rng.choice(asks)).format(topic=topic, **slots)
    what = ("a story", "a poem", "a plan", "a letter", "a description")[kind]
    text = (story, poem, plan, letter, scene)[kind](rng, slots)
    exchange = Exchange(user, text, f"The user wants {what}.", f"I make up {what}.")
    return Episode("free", (exchange,))


def story(rng: random.Random, slots: dict[str, object]) -> str:
    middles = rng.sample(MIDDLES, rng.randint(2, 6))
    return " ".join(told(rng, template, slots) for template in (rng.choice(OPENINGS), *middles, rng.choice(ENDINGS)))


def poem(rng: random.Random, slots: dict[str, object]) -> str:
    return "\n".join(told(rng, verse, slots) for verse in rng.sample(VERSES, rng.choice((2, 4, 4, 6))))


def plan(rng: random.Random, slots: dict[str, object]) -> str:
    steps = rng.sample(STEPS, rng.randint(3, 6))
    return "\n".join(f"{index}. {told(rng, step, slots)}" for index, step in enumerate(steps, start=1))


def letter(rng: random.Random, slots: dict[str, object]) -> str:
    body = " ".join(told(rng, sentence, slots) for sentence in rng.sample(SENTENCES, rng.randint(2, 4)))
    return f"{told(rng, rng.choice(GREETINGS), slots)}\n\n{body}\n\n{rng.choice(FAREWELLS)}\n{rng.choice(NAMES)}"


def scene(rng: random.Random, slots: dict[str, object]) -> str:
    return " ".join(told(rng, template, slots) for template in rng.sample(MIDDLES, rng.randint(2, 4)))


def told(rng: random.Random, template: str, slots: dict[str, object]) -> str:
    """Who and where stay the same through a text, everything else is drawn anew."""
    text = template.format(**draw_slots(rng) | {key: slots[key] for key in ("name", "name2", "town", "pet", "a_pet")})
    return text[0].upper() + text[1:]


def draw_slots(rng: random.Random) -> dict[str, object]:
    name, name2 = rng.sample(NAMES, 2)
    pet, job, adjective = rng.choice(PETS), rng.choice(JOBS), rng.choice(ADJECTIVES)
    return {
        "name": name, "name2": name2, "town": rng.choice(TOWNS), "pet": pet, "a_pet": a_or_an(pet), "job": job,
        "a_job": a_or_an(job), "adjective": adjective, "a_adjective": a_or_an(adjective), "food": rng.choice(FOODS),
        "thing": rng.choice(THINGS), "colour": rng.choice(COLOURS), "word": rng.choice(UNIQUE_WORDS),
        "word2": rng.choice(UNIQUE_WORDS), "place": rng.choice(PLACES), "mood": rng.choice(MOODS),
        "mood2": rng.choice(MOODS), "verb": rng.choice(VERBS),
        "weather": rng.choice(WEATHER), "time": rng.choice(TIMES),
        "day": rng.choice(DAYS), "n": rng.randint(2, 12),
    }  # fmt: skip
