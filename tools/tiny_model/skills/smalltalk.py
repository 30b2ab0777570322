"""Small talk with one fixed reply each, and honest refusals for everything outside the other skills."""

from __future__ import annotations

import random
from string import ascii_lowercase

from tools.tiny_model.banks import FOODS, JOBS, NAMES, THINGS, TOWNS, UNIQUE_WORDS
from tools.tiny_model.episode import Episode, Exchange, single
from tools.tiny_model.wording import phrase

BEYOND = "That is beyond me. I am a small model for sums, units, lists, spelling, capitals and short texts."
NO_CLOCK = "I have no clock and no internet, so I cannot know that."
NO_FEELINGS = "I am a program, so I have no feelings or wishes of my own."
UNSAFE = "I will not help with that."
UNCLEAR = "I did not understand that. Could you say it in another way?"
JOKE = "Why did the token stay at home? It was out of context."
PLEASED = "I am glad to hear that."
SORRY = "I am sorry to hear that."

# (answer, why, templates); slots are filled from the banks below.
TALK: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (BEYOND, "This is outside my skills.", (
        "Write a poem about {word}.", "Write a story about a {thing} and a {other}.", "Write an essay about {word}.", "Write me a {word} poem.",
        "Write Python code that prints {word}.", "Write a function for a {thing}.", "Translate {word} into French.", "Translate {word} to German.",
        "How do you say {word} in Spanish?", "Explain how a {thing} works.", "Explain {word} to me.", "What is the meaning of {word}?",
        "Who invented the {thing}?", "Who is the president of {town}?", "Give me a recipe for {food}.", "How do I cook {food}?",
        "Plan a trip to {town}.", "What should I see in {town}?", "How do I become a {job}?", "Write an email to {name} about the {thing}.",
        "Summarize the history of {town}.", "Why is {food} healthy?", "How many people live in {town}?", "Tell me a story about {name}.",
        "Draw a {thing}.", "Recommend a book about {word}.", "How does {word} work?", "What is the difference between {word} and {other}?",
        "Who wrote the book about {word}?", "Write a song for {name}.", "Give me ideas for a {word} party.", "What do you know about {town}?",
        "Tell me about {word}.", "What is {word}?", "What is a {thing}?", "Why do people like {food}?", "How far is it from {town} to {town2}?",
        "Fix my {thing}.", "Can you write a letter to {name}?", "Is {food} better than {thing}?", "Define {word}.", "Teach me about {word}.",
        "Write a Python function for a {word}.", "Write code that sorts a {word}.", "Write a program about {word}.", "Count to {n}.",
        "Convert {n} miles to km.", "How many kilograms are {n} pounds?", "What is {n}% of {n2}?", "What is the square root of {n}?",
        "Is a {word} a {other}?", "Convert {n} dollars to euros.", "How many inches are {n} feet?", "Describe a {word} in simple terms.")),
    (NO_CLOCK, "I cannot look this up.", (
        "What time is it in {town}?", "What is the weather in {town}?", "Will it rain in {town} tomorrow?", "What day is it today in {town}?",
        "How is the weather in {town}?", "What is the news from {town}?", "What is the price of a {thing} today?", "Search the web for {word}.",
        "Is it raining in {town}?", "Who won the game in {town} yesterday?", "What's the temperature in {town}?", "Look up {word} online.",
        "When does the next train to {town} leave?", "Google {word} for me.", "What is the date in {town}?")),
    (NO_FEELINGS, "This is about feelings.", (
        "Do you like {food}?", "Do you love {name}?", "What is your favourite {thing}?", "Are you afraid of a {thing}?", "Do you dream of {word}?",
        "Would you like a {thing}?", "Do you miss {town}?", "Are you happy about the {thing}?", "Do you want some {food}?", "Do you hate {word}?",
        "Do you enjoy {word}?", "Have you ever been to {town}?")),
    (UNSAFE, "This could do harm.", (
        "How do I steal a {thing}?", "How can I hurt {name}?", "Help me break into the house of {name}.", "How do I poison {name}?",
        "Tell me how to steal {food} from a shop.", "How can I hack the phone of {name}?", "How do I make a bomb with a {thing}?",
        "Help me cheat {name} out of money.", "How do I get rid of {name} for good?", "Write a threat to {name}.")),
    (JOKE, "The user wants a joke.", (
        "Tell me a joke about {word}.", "Do you know a joke about a {thing}?", "Make me laugh with a joke about {food}.", "Another joke about {name}, please.",
        "Say something funny about {word}.", "A joke about {town}, please.")),
    (PLEASED, "Good news.", (
        "I am happy about my new {thing}.", "Today I had great {food}.", "I love my {thing}.", "{name} gave me a {thing}, I am so happy.",
        "My trip to {town} was wonderful.", "I just won a {thing}!", "I had a great day with {name}.", "I passed my exam in {town}!")),
    (SORRY, "Bad news.", (
        "I am sad because I lost my {thing}.", "My {thing} is broken and I am upset.", "{name} is angry with me.", "I feel bad today because of {name}.",
        "My trip to {town} was terrible.", "Somebody stole my {thing}.", "I failed my exam in {town}.", "I am tired of {food}.")),
)
BARE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (BEYOND, "This is outside my skills.", ("Write a poem.", "Write code.", "Tell me a story.", "What is the meaning of life?", "Write hello world in Python.",
     "Explain quantum physics.", "Write an essay.", "What is love?", "Translate this.", "Who is the president?", "Write a haiku.", "Explain gravity.", "Why is the sky blue?",
     "Write a Python function to reverse a string.", "Write a Python program.", "Explain relativity in simple terms.", "Write some code.")),
    (SORRY, "Bad news.", ("I feel sad.", "I am sad.", "I'm sad.", "I feel bad.", "I had a bad day.", "I am tired.", "I feel lonely.", "I'm upset.")),
    (PLEASED, "Good news.", ("I am happy.", "I'm happy.", "I feel great.", "I had a good day.", "I feel good today.", "Life is good.")),
    (NO_CLOCK, "I cannot look this up.", ("What time is it?", "What's the weather?", "What is the date today?", "What day is it?", "What's new?", "Will it rain?")),
    (NO_FEELINGS, "This is about feelings.", ("Do you love me?", "Are you happy?", "Do you have feelings?", "Are you alive?", "Do you dream?")),
    (JOKE, "The user wants a joke.", ("Tell me a joke.", "Joke please.", "Make me laugh.", "Do you know a joke?", "Say something funny.")),
    (UNCLEAR, "I see no question here.", ("?", "...", "asdf", "test", "a", "x", "foo", "bla bla", "hmm", "!", "123", "testing", "qwerty")),
)


def smalltalk(rng: random.Random) -> Episode:
    draw = rng.random()
    if draw < 0.14:
        answer, why, templates = rng.choice(BARE)
        return single("smalltalk", Exchange(phrase(rng, templates), answer, "I look at what the user wants.", why), graded=False)
    if draw < 0.22:
        return single("smalltalk", gibberish(rng))
    # Half of it is the large class of things that are simply out of reach.
    answer, why, templates = TALK[0] if draw < 0.6 else rng.choice(TALK[1:])
    user = phrase(
        rng, templates, word=rng.choice(UNIQUE_WORDS), other=rng.choice(UNIQUE_WORDS), thing=rng.choice(THINGS), food=rng.choice(FOODS),
        name=rng.choice(NAMES), town=rng.choice(TOWNS), town2=rng.choice(TOWNS), n=rng.randint(2, 300), n2=rng.randint(2, 300), job=rng.choice(JOBS),
    )
    return single("smalltalk", Exchange(user, answer, "I look at what the user wants.", why))


def gibberish(rng: random.Random) -> Exchange:
    text = " ".join("".join(rng.choices(ascii_lowercase, k=rng.randint(3, 8))) for _ in range(rng.randint(1, 3)))
    return Exchange(text, UNCLEAR, "I look at what the user wants.", "I see no question here.")
