"""Values from an open world: places, topics, people and made-up words, so that copying is learned and not the banks."""

from __future__ import annotations

import random
from string import ascii_lowercase, ascii_uppercase

from tools.tiny_model.banks import FOODS, JOBS, NAMES, PETS, THINGS, TOWNS, UNIQUE_WORDS, words
from tools.tiny_model.skills.json_fields import DAYS


def listed(text: str) -> tuple[str, ...]:
    """Names divided by commas, over any number of lines."""
    return tuple(" ".join(name.split()) for name in text.split(","))


ONSETS = words("b br c ch cl d dr f fl g gr h j k kr l m n p pl pr qu r s sh sk sl st t th tr v w y z")
VOWELS = words("a e i o u ai ea ee ie oo ou a e i o")
CODAS = ("", "", "", "n", "r", "l", "s", "t", "m", "k", "nd", "rt", "st", "ng", "x", "ck")

CITIES = listed(
    """
    San Francisco, New York, Los Angeles, San Diego, Las Vegas, Washington, Houston, Phoenix, Philadelphia, Atlanta,
    Miami, Detroit, Portland, Nashville, Orlando, Honolulu, Vancouver, Montreal, Ottawa, Calgary, Mexico City,
    Havana, Bangkok, Hanoi, Singapore, Jakarta, Manila, Seoul, Busan, Beijing, Shanghai, Shenzhen, Hong Kong,
    Taipei, Sapporo, Rome, Turin, Venice, Florence, Palermo, Barcelona, Valencia, Malaga, Marseille, Toulouse,
    Bordeaux, Nantes, Lille, Brussels, Antwerp, Amsterdam, Rotterdam, Utrecht, Copenhagen, Aarhus, Stockholm,
    Gothenburg, Malmo, Helsinki, Tampere, Reykjavik, Edinburgh, Manchester, Liverpool, Birmingham, Cardiff, Belfast,
    Cork, Galway, Cologne, Frankfurt, Stuttgart, Dresden, Leipzig, Bremen, Hanover, Nuremberg, Salzburg, Graz,
    Basel, Bern, Lausanne, Budapest, Bucharest, Sofia, Belgrade, Zagreb, Sarajevo, Ljubljana, Bratislava, Krakow,
    Gdansk, Vilnius, Riga, Tallinn, Kyiv, Moscow, Istanbul, Ankara, Izmir, Beirut, Amman, Tel Aviv, Jerusalem,
    Dubai, Abu Dhabi, Doha, Riyadh, Tehran, Baghdad, Karachi, Lahore, Kolkata, Chennai, Bangalore, Hyderabad,
    Colombo, Kathmandu, Dhaka, Casablanca, Tunis, Algiers, Accra, Lagos, Abuja, Dakar, Addis Ababa, Kampala, Cape
    Town, Johannesburg, Durban, Rio de Janeiro, Sao Paulo, Brasilia, Buenos Aires, Montevideo, Santiago, Caracas,
    Melbourne, Brisbane, Perth, Adelaide, Auckland, Wellington, Christchurch
    """
)
ACCENTED = ("Zürich", "São Paulo", "Kraków", "Malmö", "Québec", "Köln", "München", "Bogotá", "Málaga", "Reykjavík")
REGIONS = ("CA", "NY", "TX", "MA", "WA", "France", "Germany", "Japan", "UK", "Italy", "Spain", "India", "Canada", "USA")
SUBJECTS = words(
    """
    python electric climate solar football quantum space medieval modern cheap local italian japanese open source
    machine learning language neural network remote jobs housing market electric bikes mobile games coffee running
    shoes world cup election results travel insurance tax rules vegan recipes guitar chords weather patterns stock
    news film reviews science fiction history museum opening hours train tickets used cars data bases web design
    """
)
SURNAMES = words("Smith Jones Miller Garcia Novak Rossi Kim Tanaka Meyer Silva Dubois Larsen Brown Okafor Singh Khan")
HOSTS = words("example.com example.org mail.com company.io test.net work.de")
COMPANIES = words("AAPL MSFT GOOG AMZN TSLA NVDA META NFLX IBM INTC AMD ORCL SAP SONY Apple Google Tesla Microsoft")
COMMANDS = (
    "ls -la", "git status", "pwd", "cat {path}", "grep -rn {word} .", "python {path}", "make {word}", "df -h",
    "git log -{n}", "head -n {n} {path}", "rm {path}", "mkdir {word}", "echo {word}", "npm install {word}", "ls {word}",
    "wc -l {path}", "find . -name {path}", "git checkout {word}", "pip install {word}", "touch {path}", "uname -a",
)  # fmt: skip
QUERIES = (
    "SELECT * FROM {word}", "SELECT name FROM {word} WHERE id = {n}", "SELECT COUNT(*) FROM {word}",
    "DELETE FROM {word} WHERE {other} = {n}", "SELECT {word}, {other} FROM {third} LIMIT {n}",
)  # fmt: skip
LANGUAGES = words(
    """
    French German Spanish Italian Portuguese Dutch Japanese Chinese Korean Russian Arabic Hindi Turkish Polish
    Swedish Greek English
    """
)
PHRASES = (
    "Hello", "Good morning", "Thank you very much", "How are you?", "Where is the {thing}?", "I love {food}",
    "The {word} is {other}", "See you {day}", "My name is {name}", "I would like some {food}", "Hello world",
    "The {pet} sleeps on the {thing}", "We need a {job}", "buy {food}", "call {name}", "clean the {thing}",
    "feed the {pet}", "The quick brown fox", "I am hungry", "Happy birthday, {name}", "finish the {word} {other}",
)  # fmt: skip


def syllables(rng: random.Random, count: int) -> str:
    return "".join(rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS) for _ in range(count))


def made_up(rng: random.Random) -> str:
    return syllables(rng, rng.choice((1, 2, 2, 3)))


def any_word(rng: random.Random) -> str:
    draw = rng.random()
    if draw < 0.5:
        return rng.choice(UNIQUE_WORDS)
    if draw < 0.65:
        return rng.choice(SUBJECTS)
    word = made_up(rng)
    if draw < 0.9:
        return word
    joined, numbered = word + made_up(rng).capitalize(), f"{word}{rng.randint(1, 99)}"
    return rng.choice((word.upper(), word.capitalize(), joined, numbered))


def place(rng: random.Random) -> str:
    draw = rng.random()
    if draw < 0.35:
        name = rng.choice(TOWNS)
    elif draw < 0.72:
        name = rng.choice(CITIES)
    elif draw < 0.75:
        name = rng.choice(ACCENTED)
    else:
        name = " ".join(made_up(rng).capitalize() for _ in range(rng.choice((1, 1, 1, 2))))
    typed = rng.random()
    if typed < 0.1:
        return name.lower()
    if typed < 0.13:
        return "".join(rng.choices(ascii_uppercase, k=rng.randint(2, 4)))
    return f"{name}, {rng.choice(REGIONS)}" if typed < 0.25 else name


def bare_place(rng: random.Random) -> str:
    """Without a comma, for lists."""
    return place(rng).split(",")[0]


def topic(rng: random.Random) -> str:
    one, other, third = any_word(rng), any_word(rng), any_word(rng)
    return rng.choice((
        one, f"{one} {other}", f"{one} {other}", f"{one} {other} {third}", f"{one} in {bare_place(rng)}",
        f"how to {one} a {other}", f"best {one} {other}", f"{one} and {other}", f"the {one} of {other}",
        f"{one} {rng.randint(1990, 2030)}", f"{bare_place(rng)} {one}", f"what is {one}", f"{full_name(rng)}",
        f"why is the {one} {other}", f"{one} news", f"latest {one} news", f"{one} tutorial", f"{one} vs {other}",
        f"the {one.capitalize()} {other.capitalize()}", f"who won the {one}", f"who is the {one} of {bare_place(rng)}",
        f"the best {one} in {bare_place(rng)}", f"{one} {other} tutorial", f"how {one} {other} works",
    ))  # fmt: skip


def full_name(rng: random.Random) -> str:
    last = rng.choice(SURNAMES) if rng.random() < 0.6 else made_up(rng).capitalize()
    return f"{first_name(rng)} {last}"


def first_name(rng: random.Random) -> str:
    return rng.choice(NAMES) if rng.random() < 0.7 else made_up(rng).capitalize()


def email(rng: random.Random) -> str:
    return f"{first_name(rng).lower()}{rng.choice(('', '', '.' + made_up(rng)))}@{rng.choice(HOSTS)}"


def open_path(rng: random.Random) -> str:
    folder = rng.choice(("", "", "", f"{any_word(rng)}/", f"src/{any_word(rng)}/", f"/{any_word(rng)}/", "./", "/etc/"))
    name = rng.choice((any_word(rng), any_word(rng), "README", "main", "config", "notes", "test", "index", "report"))
    return f"{folder}{name}.{rng.choice(words('txt md py json csv log toml yaml html js sh rs c xml ini'))}"


def folder(rng: random.Random) -> str:
    return rng.choice((".", "/", "/tmp", "src", f"{any_word(rng)}", f"/home/{any_word(rng)}", f"./{any_word(rng)}",
                       f"{any_word(rng)}/{any_word(rng)}"))  # fmt: skip


def url(rng: random.Random) -> str:
    tail = rng.choice(("", "/", f"/{any_word(rng)}", f"/{any_word(rng)}/{rng.randint(1, 99)}"))
    return f"https://{rng.choice(('', 'www.'))}{rng.choice((*HOSTS, made_up(rng) + '.com'))}{tail}"


def symbol(rng: random.Random) -> str:
    return rng.choice(COMPANIES) if rng.random() < 0.6 else "".join(rng.choices(ascii_uppercase, k=rng.randint(2, 5)))


def code_name(rng: random.Random) -> str:
    """An identifier of something, as systems give them."""
    number = rng.randint(1, 10 ** rng.choice((2, 3, 4, 5)))
    letters = "".join(rng.choices(ascii_uppercase, k=rng.randint(1, 3)))
    return rng.choice((str(number), f"{letters}-{number}", f"{letters}{number}", f"{any_word(rng)}_{number}",
                       f"{any_word(rng)}-{number}", f"#{number}",
                       "".join(rng.choices(ascii_lowercase + "0123456789", k=rng.randint(4, 8)))))  # fmt: skip


def filled(rng: random.Random, templates: tuple[str, ...]) -> str:
    return rng.choice(templates).format(
        path=open_path(rng), word=any_word(rng), other=any_word(rng), third=any_word(rng), n=rng.randint(1, 99),
        thing=rng.choice(THINGS), food=rng.choice(FOODS), day=rng.choice(DAYS), name=first_name(rng),
        pet=rng.choice(PETS), job=rng.choice(JOBS),
    )  # fmt: skip


def command(rng: random.Random) -> str:
    return filled(rng, COMMANDS)


def sql(rng: random.Random) -> str:
    return filled(rng, QUERIES)


def saying(rng: random.Random) -> str:
    return filled(rng, PHRASES) if rng.random() < 0.7 else " ".join(any_word(rng) for _ in range(rng.randint(2, 5)))


def language(rng: random.Random) -> str:
    return rng.choice(LANGUAGES)


def date(rng: random.Random) -> str:
    year, month, day = rng.randint(2024, 2029), rng.randint(1, 12), rng.randint(1, 28)
    return rng.choice((f"{year}-{month:02d}-{day:02d}", rng.choice(DAYS), f"{day}.{month}.{year}", "tomorrow", "today"))


def whole(rng: random.Random) -> int:
    return rng.randint(0, 10 ** rng.choice((1, 2, 2, 3, 4)))


def decimal(rng: random.Random) -> float | int:
    return rng.choice((whole(rng), rng.randint(1, 99) + 0.5, rng.randint(1, 999) / 10))


def small(rng: random.Random) -> int:
    return rng.randint(1, 12)


def open_expression(rng: random.Random) -> str:
    a, b, c = (
        str(whole(rng)) if rng.random() < 0.85 else f"{rng.randint(1, 99)}.{rng.randint(1, 9)}" for _ in range(3)
    )
    first, second = rng.choice("+-*/"), rng.choice("+-*/")
    tight = f"{a}{first}{b}", f"{a}{first}{b}{second}{c}", f"({a}{first}{b}){second}{c}", f"sqrt({a})", f"{a}**2"
    wide = (f"{a} {first} {b}", f"{a} {first} {b}", f"{a} {first} {b} {second} {c}", f"({a} {first} {b}) {second} {c}",
            f"{a} {first} ({b} {second} {c})", f"{a} ** {small(rng)}", f"{a}^2")  # fmt: skip
    return rng.choice((*tight, *wide, *wide))
