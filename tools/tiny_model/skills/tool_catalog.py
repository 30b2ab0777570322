"""The tools that people declare first, in the words of many manuals, with values from an open world."""

from __future__ import annotations

from tools.tiny_model.banks import words
from tools.tiny_model.skills import open_values as value
from tools.tiny_model.skills.tool_readout import (
    expression_outcome,
    file_outcome,
    plain_outcome,
    search_outcome,
    weather_outcome,
)
from tools.tiny_model.skills.tool_schema import Draw, Function, Outcome, Parameter


def entry(
    names: str, meanings: str, goal: str, parameters: tuple[Parameter, ...], asks: str, *, kin: str = "",
    several: bool = False, outcome: Outcome = plain_outcome,
) -> Function:  # fmt: skip
    """Alternatives are divided by ` | `."""
    return Function(
        words(names), tuple(meanings.split(" | ")), parameters, tuple(asks.split(" | ")), goal, outcome,
        tuple(kin.split(" | ")) if kin else (), several,
    )  # fmt: skip


def text(names: str, meaning: str, draw: Draw, *, required: bool = True) -> Parameter:
    return Parameter(words(names), "string", meaning, draw, required)


def number(names: str, meaning: str, draw: Draw, kind: str = "integer", *, required: bool = True) -> Parameter:
    return Parameter(words(names), kind, meaning, draw, required)


def one_of(names: str, meaning: str, choices: str, *, required: bool = False) -> Parameter:
    return Parameter(words(names), "string", meaning, lambda rng: rng.choice(words(choices)), required, words(choices))


PLACE = text(
    "location city place location city town address city_name",
    "The city | The name of the city | The location | City name | A city, for example Berlin | The place to look up"
    " | The city and state, e.g. Denver, CO | City and country, e.g. Bogota, Colombia"
    " | Location to get the weather for",
    value.place,
)
DEGREES = one_of(
    "unit units unit format temperature_unit scale",
    "The unit of temperature | Temperature unit | celsius or fahrenheit | Unit of the result"
    " | The unit in which the temperature is returned",
    "celsius fahrenheit",
)
FILE = text("path file_path file filename path", "Path | The path of the file | File path | The file"
" | Path to the file",
            value.open_path)  # fmt: skip
A = number("a x first first_number num1 a", "First number | The first number | a", value.whole)
B = number("b y second second_number num2 b", "Second number | The second number | b", value.whole)
FACTOR_A = number("a x first number1 a", "First number | The first factor | a", value.decimal, "number")
FACTOR_B = number("b y second number2 b", "Second number | The second factor | b", value.decimal, "number")
TOPIC = text(
    "query q query search_query keywords question",
    "The search query | What to search for | Search query | The query string | Query | The question to look up",
    value.topic,
)

WEATHER = entry(
    "get_weather get_current_weather weather fetch_weather get_forecast check_weather lookup_weather get_temperature"
    " get_weather_forecast get_current_temperature",
    "Get the weather | Get the current weather in a given location | Get current temperature for a given location."
    " | Returns the weather for a city | Get the weather for a given city. | Look up the weather forecast"
    " | Retrieves current weather for the given location. | Weather of a place | Get weather at a location",
    "the weather",
    (PLACE, DEGREES),
    "What is the weather in {location}? | What's the weather in {location}? | What is the weather like in {location}?"
    " | What's the weather like in {location} today? | How's the weather in {location}? | weather {location}"
    " | How is the weather in {location} right now? | Tell me the weather in {location}. | Is it raining in {location}?"
    " | What is the current weather in {location}? | Get the weather for {location}."
    " | Show me the weather in {location}"
    " | What's the temperature in {location}? | How hot is it in {location}? | What is the temperature in {location}?"
    " | What is the weather in {location} in {unit}? | Temperature in {location} in {unit}?"
    " | Will it rain in {location}?"
    " | Give me the weather in {location} in {unit}. | What's the forecast for {location}? | Is it sunny in {location}?"
    " | How cold is it in {location}, in {unit}? | What's the weather going to be like in {location} tomorrow?"
    " | Can you check the weather in {location}? | I am in {location}. Do I need a coat?"
    " | Do I need an umbrella in {location}?",
    several=True,
    outcome=weather_outcome,
)  # fmt: skip

FIRST: tuple[Function, ...] = (
    WEATHER,
    entry(
        "calculator calculate evaluate_expression math eval compute calc solve_math",
        "A calculator | Evaluate a math expression | Evaluates a mathematical expression. | Perform arithmetic"
        " | Calculate the result of an expression | Useful for math | Do math",
        "a calculation",
        (
            text(
                "expression expression formula input expr equation",
                "The expression | Math expression to evaluate"
                " | The mathematical expression, e.g. 7 * 8 | Expression | The input",
                value.open_expression,
            ),
        ),
        "What is {expression}? | What's {expression}? | Calculate {expression} | Compute {expression}. | {expression}"
        " | How much is {expression}? | Evaluate {expression}. | Use the calculator: {expression} | Solve {expression}"
        " | Can you calculate {expression}? | Please compute {expression}. | {expression} = ? | {expression}=?",
        kin="addition | subtraction | multiplication | division",
        several=True,
        outcome=expression_outcome,
    ),
    entry(
        "multiply multiply_numbers mul product multiply",
        "Multiply two numbers. | Multiply a and b. | Multiplies numbers"
        " | Multiply two integers. | Returns the product of two numbers",
        "a multiplication",
        (FACTOR_A, FACTOR_B),
        "What is {a} times {b}? | Multiply {a} by {b}. | What is {a} * {b}? | What's {a} * {b}? | Multiply {a} and {b}"
        " | {a} times {b} | How much is {a} times {b}? | Calculate {a} * {b} | What is {a} multiplied by {b}?"
        " | {a}*{b}?"
        " | What is the product of {a} and {b}? | Compute {a} x {b}.",
        kin="multiplication",
    ),
    entry(
        "add add_numbers sum plus add",
        "Add two numbers. | Add a and b. | Adds two integers. | Returns the sum | Add two integers together",
        "an addition",
        (A, B),
        "What is {a} plus {b}? | Add {a} and {b}. | What is {a} + {b}? | What's {a} + {b}? | Add {a} to {b} | {a}+{b}?"
        " | {a} plus {b} | How much is {a} + {b}? | Calculate {a} + {b} | What is the sum of {a} and {b}?"
        " | Sum {a} and {b}"
        " | Compute {a} + {b}.",
        kin="addition",
    ),
    entry(
        "subtract minus difference subtract_numbers",
        "Subtract b from a. | Subtract two numbers. | The difference of a and b",
        "a subtraction",
        (A, B),
        "What is {a} minus {b}? | What is {a} - {b}? | {a} minus {b} | Calculate {a} - {b} | Compute {a} - {b}.",
        kin="subtraction",
    ),
    entry(
        "divide division quotient divide_numbers",
        "Divide a by b. | Divide two numbers. | Returns a divided by b",
        "a division",
        (FACTOR_A, FACTOR_B),
        "What is {a} divided by {b}? | Divide {a} by {b}. | What is {a} / {b}? | Calculate {a} / {b} | {a} / {b} = ?",
        kin="division",
    ),
    entry(
        "search web_search search_web google_search internet_search duckduckgo_search search_engine tavily_search"
        " search browse search_online",
        "Search the web | Search the web for information | Search the internet. | Performs a web search"
        " | Look up current information online | A search engine | Searches the web and returns results",
        "a web search",
        (
            TOPIC,
            number(
                "limit count max_results num_results top_k",
                "Number of results | How many results | Maximum number of results",
                value.small,
                required=False,
            ),
        ),
        "Search for {query} | Search for {query}. | Search the web for {query}. | Search {query} | Look up {query}."
        " | Find information about {query}. | Can you search for {query}? | Google {query}"
        " | Search the internet for {query}"
        " | Please search for {query}. | Find {query} online. | Do a web search for {query}. | Look up {query} online"
        " | Find me {limit} results about {query}. | Search for {query}, {limit} results."
        " | Use the search tool: {query}"
        " | I want to know more about {query}, search the web.",
        outcome=search_outcome,
    ),
    entry(
        "read_file read open_file get_file_contents view_file read_text_file load_file cat",
        "Read a file | Reads the contents of a file | Read the content of a file at the given path. | Open a file"
        " | Returns the text of a file | Get the contents of a file from disk",
        "the content of a file",
        (FILE,),
        "Read {path} | Read the file {path}. | Show me the contents of {path}. | What is in {path}? | What's in {path}?"
        " | Open {path}. | cat {path} | Show {path} | Can you read {path}? | What does {path} contain? | Print {path}"
        " | Please read {path}. | Read {path} for me | What is in the file {path}? | Display the file {path}.",
        several=True,
        outcome=file_outcome,
    ),
)
