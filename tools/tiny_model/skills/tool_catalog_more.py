"""More tools that people declare, beyond the first ones of every manual."""

from __future__ import annotations

from tools.tiny_model.skills import open_values as value
from tools.tiny_model.skills import tool_values
from tools.tiny_model.skills.tool_catalog import FILE, PLACE, TOPIC, entry, number, one_of, text
from tools.tiny_model.skills.tool_readout import date_outcome, local_time_outcome, time_outcome
from tools.tiny_model.skills.tool_schema import Function

UNITS = ("miles", "km", "meters", "feet", "inches", "cm", "pounds", "kg", "ounces", "grams", "liters", "gallons",
         "celsius", "fahrenheit")  # fmt: skip
SIGNS = "Aries Taurus Gemini Cancer Leo Virgo Libra Scorpio Sagittarius Capricorn Aquarius Pisces"
MORE: tuple[Function, ...] = (
    entry(
        "list_directory list_files ls list_dir", "List files | Lists the files in a directory | List a directory.",
        "a list of files", (text("path directory folder dir", "The directory | Path of the folder", value.folder),),
        "List the files in {path} | What files are in {path}? | ls {path} | Show the directory {path} | List {path}",
    ),
    entry(
        "delete_file remove_file rm unlink", "Delete a file | Removes a file from disk", "deleting a file", (FILE,),
        "Delete {path} | Remove the file {path}. | Please delete {path}. | Get rid of {path} | rm {path}",
    ),
    entry(
        "bash run_command shell execute_command run_shell terminal exec", "Run a shell command | Executes a command"
        " | Run a bash command and return its output.", "a command",
        (text("command cmd command script", "The command | Shell command to run"
        " | The command to execute", value.command),),
        "Run {command} | Execute {command} | Run the command {command} | Please run: {command}"
        " | Use the shell: {command}"
        " | Run this in the terminal: {command} | Can you run {command}",
    ),
    entry(
        "get_time get_current_time current_time now clock", "Get the current time"
        " | Returns the current time.", "the time",
        (), "What time is it? | What's the time? | Tell me the time. | Current time? | What time is it now?"
        " | time please",
        outcome=time_outcome,
    ),
    entry(
        "get_date get_current_date today current_date", "Get today's date | Returns the current date.", "the date", (),
        "What is the date today? | What's today's date? | What day is it? | Which date is today?"
        " | Today's date?", outcome=date_outcome,
    ),
    entry(
        "get_time get_current_time time_in get_local_time", "Get the current time in a location"
        " | Time in a city", "the time",
        (PLACE,), "What time is it in {location}? | What's the time in {location}? | Current time in {location}?"
        " | Tell me the time in {location} | What is the local time in {location}?", several=True,
        outcome=local_time_outcome,
    ),
    entry(
        "send_email email send_mail", "Send an email | Sends an e-mail to a recipient", "sending an email",
        (text("to recipient to_address email", "The recipient | Recipient email address", value.email),
         text("subject title subject", "The subject | Subject line", value.topic),
         text("body content message text", "The text | Body of the email", value.saying)),
        "Send an email to {to} with the subject {subject}: {body} | Email {to}, subject {subject}, text: {body}"
        " | Send {to} an email about {subject} saying {body}",
    ),
    entry(
        "get_stock_price stock_price get_quote stock_quote get_price", "Get the current stock price | Price of a stock"
        " | Returns the stock price for a ticker symbol", "a stock price",
        (text("symbol ticker symbol company stock", "The ticker | Ticker symbol, e.g. KO"
        " | Stock symbol", value.symbol),),
        "What is the stock price of {symbol}? | Price of {symbol}? | How much is {symbol}?"
        " | What's {symbol} trading at?"
        " | Get the stock price of {symbol}. | How is {symbol} stock doing? | Quote for {symbol}", several=True,
    ),
    entry(
        "translate translate_text translator", "Translate text"
        " | Translates text into another language", "a translation",
        (text("text sentence input text", "The text | Text to translate", value.saying),
         text("target_language language to target_lang", "The language | Target language", value.language)),
        'Translate "{text}" to {target_language} | Translate "{text}" into {target_language}.'
        ' | How do you say "{text}" in {target_language}? | Say "{text}" in {target_language}',
    ),
    entry(
        "get_horoscope horoscope daily_horoscope", "Get today's horoscope for an astrological sign. | A horoscope",
        "a horoscope", (one_of("sign zodiac_sign", "The sign | An astrological sign like Leo", SIGNS, required=True),),
        "What is my horoscope? I am {sign}. | Horoscope for {sign} | I'm a {sign}, what is my horoscope?"
        " | What's the horoscope of {sign} today?",
    ),
    entry(
        "get_order_status get_order track_order order_status get_delivery_date", "Get the status of an order"
        " | Look up an order | Delivery date of a customer's order", "an order",
        (text("order_id id order_number", "The order id | Identifier of the order", value.code_name),),
        "Where is my order {order_id}? | What is the status of order {order_id}? | Track order {order_id}"
        " | Check order {order_id}. | When does my order {order_id} arrive? | Status of {order_id}?",
    ),
    entry(
        "get_user get_customer lookup_user find_user user_info", "Get a user | Look up a customer by id", "a user",
        (text("user_id id username customer_id", "The user | Id of the user", value.code_name),),
        "Get user {user_id} | Who is user {user_id}? | Show me the user {user_id}. | Look up customer {user_id}"
        " | Find the user {user_id}",
    ),
    entry(
        "get_directions get_route directions get_distance route distance", "Get directions | Route between two places"
        " | Distance between two cities", "a route",
        (text("origin from start from_city", "The start | Where it begins", value.bare_place),
         text("destination to end to_city", "The destination | Where it ends", value.bare_place)),
        "How do I get from {origin} to {destination}? | How far is it from {origin} to {destination}?"
        " | Directions from {origin} to {destination} | Route from {origin} to {destination}",
    ),
    entry(
        "book_flight search_flights find_flights flights", "Book a flight | Find flights between cities", "a flight",
        (text("origin from departure", "Departure city", value.bare_place),
         text("destination to arrival", "Arrival city", value.bare_place),
         text("date day departure_date", "The date | Day of the flight", value.date)),
        "Book a flight from {origin} to {destination} on {date}"
        " | Find flights from {origin} to {destination} for {date}"
        " | I need a flight from {origin} to {destination} on {date}.",
    ),
    entry(
        "add_todo create_task add_task new_task todo", "Add a task | Creates a task | Add an item to the todo list",
        "a task", (text("task title text item", "The task | What to do", value.saying),
                   one_of("priority importance", "The priority", "low medium high")),
        "Add a task: {task} | Add to my todo list: {task} | New task: {task}"
        " | Create a {priority} priority task: {task}"
        " | Remember to do this: {task}",
    ),
    entry(
        "save_note add_note create_note note remember", "Save a note | Stores a note | Remember something", "a note",
        (text("text note content", "The text | Content of the note", value.saying),),
        "Note: {text} | Take a note: {text} | Save this note: {text} | Remember this: {text} | Write down: {text}",
    ),
    entry(
        "roll_dice dice roll roll_die", "Roll a die | Rolls dice", "rolling a die",
        (number("sides faces", "Number of sides", value.small),),
        "Roll a die with {sides} sides. | Roll a {sides}-sided die | Roll a d{sides}",
    ),
    entry(
        "random_number get_random_number rand generate_random_number", "Get a random number | Random number in a range",
        "a random number", (number("min minimum low lower", "The lowest | Smallest number", value.small),
                            number("max maximum high upper", "The highest | Largest number", value.whole)),
        "Give me a random number between {min} and {max}. | Random number from {min} to {max}"
        " | Pick a number between {min} and {max} | Generate a random number between {min} and {max}",
    ),
    entry(
        "flip_coin coin_flip toss_coin", "Flip a coin | Tosses a coin", "flipping a coin", (),
        "Flip a coin | Toss a coin. | Heads or tails? | Please flip a coin",
    ),
    entry(
        "fetch_url open_url fetch get_page browse http_get read_url", "Fetch a page | Get the content of a URL"
        " | Opens a web page", "a page", (text("url link address", "The URL | Address of the page", value.url),),
        "Open {url} | Fetch {url} | What is on {url} | Get {url} | Read the page {url} | Go to {url}",
    ),
    entry(
        "query_database run_sql sql execute_sql run_query", "Run a SQL query | Query the database", "a query",
        (text("query sql statement", "The SQL | Query to run", value.sql),),
        "Run {query} | Execute the query {query} | Run this SQL: {query} | Query the database: {query}",
    ),
    entry(
        "convert_units unit_converter convert", "Convert units | Converts a value between units", "a conversion",
        (number("value amount", "The value | Amount", value.decimal, "number"),
         text("from_unit from unit_from", "Unit of the value", lambda rng: rng.choice(UNITS)),
         text("to_unit to unit_to", "Wanted unit", lambda rng: rng.choice(UNITS))),
        "Convert {value} {from_unit} to {to_unit} | How much is {value} {from_unit} in {to_unit}?"
        " | {value} {from_unit} in {to_unit}? | What is {value} {from_unit} in {to_unit}?",
    ),
    entry(
        "get_news news latest_news search_news", "Get the news | Latest news about a topic", "the news", (TOPIC,),
        "What is the news about {query}? | Latest news on {query} | News about {query} | Any news about {query}?",
        kin="the news | a web search",
    ),
    entry(
        "search_wikipedia wikipedia wiki wiki_search", "Search Wikipedia | Look something up on Wikipedia",
        "an article", (TOPIC,),
        "Search Wikipedia for {query} | Look up {query} on Wikipedia. | Wikipedia: {query} | Find {query} in Wikipedia",
        kin="an article | a web search",
    ),
    entry(
        "generate_image create_image draw image draw_picture", "Generate an image | Creates a picture from a text",
        "a picture", (text("prompt description text", "What it shows | The prompt", value.topic),),
        "Draw {prompt} | Generate an image of {prompt} | Make a picture of {prompt} | Create an image: {prompt}",
    ),
    entry(
        "set_temperature set_thermostat thermostat heat", "Set the temperature | Sets the thermostat", "the heating",
        (number("temperature degrees value", "Degrees", value.small, "number"),
         text("room area zone", "The room", tool_values.room, required=False)),
        "Set the temperature to {temperature} degrees. | Set the thermostat to {temperature}"
        " | Set the {room} to {temperature} degrees | Heat the {room} to {temperature}",
    ),
    entry(
        "get_population population city_population", "Get the population | How many people live in a place",
        "the population", (PLACE,),
        "How many people live in {location}? | What is the population of {location}? | Population of {location}",
        several=True,
    ),
    entry(
        "find_restaurants search_restaurants restaurants restaurant_search", "Find restaurants | Restaurants in a city",
        "restaurants", (text("cuisine food kind", "The food | Kind of food", value.any_word), PLACE),
        "Find a {cuisine} restaurant in {location} | Where can I eat {cuisine} in {location}?"
        " | I want {cuisine} food in {location} | {cuisine} restaurants in {location}",
    ),
    entry(
        "get_contact find_contact phone_book get_phone_number", "Find a contact | Get the phone number of a person",
        "a contact", (text("name person contact", "Name of the person | Full name", value.full_name),),
        "What is the phone number of {name}? | Find the contact {name} | Phone number of {name}?"
        " | Look up {name}'s number",
    ),
    entry(
        "get_location where_am_i current_location", "Get the user's location | Where the user is", "the location", (),
        "Where am I? | What is my location? | Where am I right now? | Find my location",
    ),
)  # fmt: skip
