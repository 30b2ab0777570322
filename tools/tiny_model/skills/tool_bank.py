"""The functions a dialogue can offer: with several names and descriptions each, so that they must be read."""

from __future__ import annotations

from tools.tiny_model.banks import words
from tools.tiny_model.skills import tool_values as value
from tools.tiny_model.skills.tool_schema import Function, Parameter

CITY = Parameter(("city", "location", "place", "town"), "string", "Name of the city", value.town)
PATH = Parameter(("path", "file", "filename", "file_path"), "string", "Path of the file", value.path)
TEXT = Parameter(("text", "message", "body"), "string", "The text", value.sentence)

FUNCTIONS: tuple[Function, ...] = (
    Function(
        words("get_weather weather weather_lookup current_weather forecast"),
        ("Get the weather of a city.", "Returns the weather in a place.", "Look up the current weather."),
        (
            CITY,
            Parameter(
                ("unit", "units", "scale"),
                "string",
                "Unit of the temperature",
                value.degree_unit,
                required=False,
                choices=("celsius", "fahrenheit"),
            ),
        ),
        (
            "What is the weather in {city}?",
            "How is the weather in {city}?",
            "Weather in {city}?",
            "Is it cold in {city}?",
            "Will it rain in {city}?",
            "Tell me the weather in {city} in {unit}.",
            "What's the weather like in {city} today?",
            "How warm is it in {city} in {unit}?",
            "Do I need an umbrella in {city}?",
            "Check the weather in {city}.",
            "Give me the weather of {city} in {unit}.",
        ),
        "the weather",
        value.weather_outcome,
    ),
    Function(
        words("calculator calculate compute evaluate math"),
        ("Evaluate an arithmetic expression.", "Computes an expression.", "A calculator for exact results."),
        (Parameter(("expression", "formula", "input", "expr"), "string", "The expression", value.expression),),
        (
            "What is {expression}?",
            "Compute {expression}.",
            "Calculate {expression}",
            "{expression} = ?",
            "How much is {expression}?",
            "Please work out {expression}.",
            "I need the result of {expression}.",
        ),
        "a calculation",
        value.calculator_outcome,
        ("addition", "subtraction", "multiplication", "division"),
    ),
    Function(
        words("search web_search search_web find_pages lookup"),
        ("Search the web.", "Finds pages for a query.", "Web search."),
        (
            Parameter(("query", "q", "keywords", "search_term"), "string", "What to search for", value.query),
            Parameter(("limit", "count", "max_results"), "integer", "Number of results", value.few, required=False),
        ),
        (
            "Search for {query}.",
            "Find pages about {query}.",
            "Search the web for {query}.",
            "Look up {query}.",
            "Find {limit} pages about {query}.",
            "Give me {limit} search results for {query}.",
            "Google {query}",
            "Search {query} online, {limit} results.",
        ),
        "a web search",
        value.search_outcome,
    ),
    Function(
        words("read_file open_file cat_file view_file get_file"),
        ("Read a text file.", "Returns the content of a file.", "Opens a file and shows it."),
        (
            PATH,
            Parameter(("start", "first_line", "from_line"), "integer", "First line", value.first_line, required=False),
            Parameter(("end", "last_line", "to_line"), "integer", "Last line", value.last_line, required=False),
        ),
        (
            "Read the file {path}.",
            "Show me {path}.",
            "What is in {path}?",
            "Open {path}",
            "Print {path}.",
            "What does {path} say?",
            "Show lines {start} to {end} of {path}.",
            "Read {path} from line {start} to {end}.",
            "Read lines {start} to {end} of the file {path}.",
        ),
        "the content of a file",
        value.read_outcome,
    ),
    Function(
        words("write_file save_file create_file store_text"),
        ("Write text to a file.", "Saves content under a path.", "Creates a file."),
        (PATH, Parameter(("content", "text", "data"), "string", "What to write, may have several lines", value.lines)),
        (
            "Write this to {path}:\n{content}",
            "Save these lines as {path}:\n{content}",
            "Create the file {path} with this content:\n\n{content}",
            "Put this into {path}:\n{content}",
        ),
        "writing a file",
        value.write_outcome,
    ),
    Function(
        words("run_python python execute_code run_code"),
        ("Run Python code.", "Executes a Python program and returns what it prints."),
        (Parameter(("code", "source", "program"), "string", "The program", value.program),),
        ("Run this code:\n{code}", "What does this print?\n{code}", "Execute:\n{code}", "Please run:\n\n{code}"),
        "running code",
        value.python_outcome,
    ),
    Function(
        words("send_message send_sms message_contact notify"),
        ("Send a message to a person.", "Sends a text message."),
        (Parameter(("to", "recipient", "name", "contact"), "string", "Who gets it", value.person), TEXT),
        (
            "Tell {to}: {text}",
            "Send {to} the message: {text}",
            "Write to {to}: {text}",
            "Message {to}: {text}",
            "Let {to} know: {text}",
        ),
        "sending a message",
        value.sent_outcome,
    ),
    Function(
        words("create_event add_event calendar_add schedule"),
        ("Add an event to the calendar.", "Creates a calendar entry."),
        (
            Parameter(("title", "event", "subject"), "string", "Title of the event", value.event),
            Parameter(("day", "weekday", "date"), "string", "Day of the week", value.day),
            Parameter(("time", "hour", "at"), "string", "Time of day, like 14:30", value.clock),
        ),
        (
            "Add a {title} on {day} at {time}.",
            "Put a {title} into my calendar: {day}, {time}.",
            "I have a {title} on {day} at {time}, note it.",
            "Schedule a {title} for {day} at {time}.",
        ),
        "a calendar entry",
        value.event_outcome,
    ),
    Function(
        words("convert_currency exchange currency money_convert"),
        ("Convert an amount of money.", "Currency conversion with today's rates."),
        (
            Parameter(("amount", "value", "sum"), "number", "How much", value.amount),
            Parameter(("from", "source", "from_currency"), "string", "Currency of the amount", value.currency),
            Parameter(("to", "target", "to_currency"), "string", "Wanted currency", value.currency),
        ),
        (
            "Convert {amount} {from} to {to}.",
            "How much is {amount} {from} in {to}?",
            "{amount} {from} in {to}?",
            "Change {amount} {from} into {to}.",
            "What are {amount} {from} worth in {to}?",
        ),
        "changing money",
        value.money_outcome,
    ),
    Function(
        words("set_timer start_timer timer countdown"),
        ("Start a timer.", "Sets a countdown in minutes."),
        (
            Parameter(("minutes", "duration", "length"), "integer", "Minutes", value.minutes),
            Parameter(("label", "title", "note"), "string", "Name of the timer", value.food, required=False),
        ),
        (
            "Set a timer for {minutes} minutes.",
            "Start a timer of {minutes} minutes for the {label}.",
            "Wake me in {minutes} minutes.",
            "Timer {minutes} minutes",
            "{minutes} minutes timer for {label}, please.",
        ),
        "a timer",
        value.timer_outcome,
    ),
    Function(
        words("get_time local_time time_in clock world_clock"),
        ("Get the time in a city.", "Returns the local time of a place."),
        (CITY,),
        ("What time is it in {city}?", "Tell me the time in {city}.", "Time in {city}?", "How late is it in {city}?"),
        "the time",
        value.time_outcome,
    ),
    Function(
        words("switch_light set_light light lamp_control"),
        ("Switch a lamp on or off.", "Controls the light of a room."),
        (
            Parameter(("room", "area", "where"), "string", "The room", value.room),
            Parameter(("on", "state", "enabled"), "boolean", "true for on, false for off", value.yes),
        ),
        (
            "Turn {on} the light in the {room}.",
            "Switch the {room} light {on}.",
            "Light {on} in the {room}, please.",
            "Can you turn the lamp in the {room} {on}?",
        ),
        "the light",
        value.light_outcome,
    ),
    Function(
        words("play_music play_song music start_song"),
        ("Play a song.", "Starts music by title."),
        (Parameter(("title", "song", "track"), "string", "Title of the song", value.song),),
        ("Play {title}.", "I want to hear {title}.", "Put on the song {title}.", "Start the music: {title}."),
        "music",
        value.music_outcome,
    ),
    Function(
        words("book_table reserve_table restaurant_booking reserve"),
        ("Book a table in a restaurant.", "Reserves places for dinner."),
        (
            Parameter(("restaurant", "name", "place"), "string", "Name of the restaurant", value.restaurant),
            Parameter(("people", "guests", "seats"), "integer", "Number of people", value.people),
            Parameter(("time", "at", "hour"), "string", "Time of day, like 19:00", value.clock),
        ),
        (
            "Book a table for {people} at {restaurant} at {time}.",
            "Reserve {people} seats in {restaurant} at {time}.",
            "We are {people} people and want to eat at {restaurant} at {time}.",
        ),
        "a table in a restaurant",
        value.table_outcome,
    ),
)
# What it is asked for, the model can mostly do itself.
(CALCULATOR,) = (function for function in FUNCTIONS if "calculator" in function.names)
