"""Fixed word banks. Everything here is a tuple: the generator must be the same on every machine."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def pairs(text: str) -> tuple[tuple[str, str], ...]:
    """`left: right` entries, separated by semicolons."""
    halves = (entry.split(":") for entry in text.split(";"))
    return tuple((left.strip(), right.strip()) for left, right in halves)


NAMES = words(
    """
    Anna Ben Carla David Emma Felix Grace Hugo Ines Jonas Kira Leo Maya Nina Oscar Paula Quinn Rosa Sam Tina Umar
    Vera Will Xenia Yusuf Zoe Alice Bob Clara Dan Elena Frank Gina Henry Iris Jack Kate Lucas Mia Noah Olga Peter
    Rita Simon Tara Ursula Victor Wendy Yara Zack Amir Bella Chen Diego Eva Fatima Georg Hana Ivan Julia Karim Lena
    Marco Nora Omar Priya Ravi Sara Tom Lily Max Ella Finn John Mary James Laura Paul Lisa Mark Susan Alex Chris
    Robin Kim
    """
)

TOWNS = words(
    """
    Oslo Paris Berlin Madrid Lisbon London Dublin Vienna Prague Warsaw Boston Chicago Toronto Sydney Tokyo Cairo
    Lima Milan Munich Hamburg Geneva Zurich Bergen Porto Seville Naples Athens Kyoto Osaka Delhi Mumbai Nairobi
    Denver Seattle Dallas Austin Quito Bogota Leeds York Bristol Oxford Cambridge Glasgow Lyon Nice Ghent
    """
)

COLOURS = words(
    """
    red blue green yellow black white orange purple pink brown grey silver gold violet
    """
)

FOODS = words(
    """
    pizza soup bread cheese rice pasta salad apples bananas cherries grapes honey chocolate pancakes tomatoes
    noodles curry mushrooms carrots sushi olives waffles peaches
    """
)

THINGS = words(
    """
    car bike boat hat coat scarf bag chair table lamp clock phone book guitar piano umbrella watch kite tent sofa
    radio camera cup ring drum violin sled
    """
)

PETS = words(
    """
    cat dog rabbit parrot horse hamster turtle goldfish snake mouse goat duck
    """
)

JOBS = words(
    """
    teacher doctor nurse baker farmer pilot painter writer cook driver engineer lawyer singer gardener plumber
    dentist librarian carpenter sailor tailor student chemist waiter judge
    """
)

COUNTRIES = pairs(
    """
    France: Paris; Germany: Berlin; Italy: Rome; Spain: Madrid; Portugal: Lisbon; Poland: Warsaw; Austria: Vienna;
    Hungary: Budapest; Greece: Athens; Norway: Oslo; Sweden: Stockholm; Finland: Helsinki; Denmark: Copenhagen;
    Ireland: Dublin; Iceland: Reykjavik; Belgium: Brussels; Romania: Bucharest; Bulgaria: Sofia; Croatia: Zagreb;
    Serbia: Belgrade; Ukraine: Kyiv; Turkey: Ankara; Egypt: Cairo; Morocco: Rabat; Kenya: Nairobi; Ghana: Accra;
    Nigeria: Abuja; Senegal: Dakar; Ethiopia: Addis Ababa; Uganda: Kampala; Japan: Tokyo; China: Beijing;
    India: New Delhi; Thailand: Bangkok; Vietnam: Hanoi; Indonesia: Jakarta; Malaysia: Kuala Lumpur;
    South Korea: Seoul; Mongolia: Ulaanbaatar; Nepal: Kathmandu; Pakistan: Islamabad; Iran: Tehran; Iraq: Baghdad;
    Jordan: Amman; Lebanon: Beirut; Qatar: Doha; Canada: Ottawa; Mexico: Mexico City; Cuba: Havana;
    Jamaica: Kingston; Brazil: Brasilia; Argentina: Buenos Aires; Chile: Santiago; Peru: Lima; Colombia: Bogota;
    Ecuador: Quito; Uruguay: Montevideo; Paraguay: Asuncion; Venezuela: Caracas; Australia: Canberra;
    New Zealand: Wellington; the United States: Washington; the United Kingdom: London; Russia: Moscow;
    Switzerland: Bern; Estonia: Tallinn; Latvia: Riga; Lithuania: Vilnius
    """
)

# Asked about but not taught: the model should say that it does not know.
UNKNOWN_COUNTRIES = words(
    """
    Fiji Malta Chad Togo Benin Gabon Bhutan Brunei Oman Yemen Tonga Samoa Palau Haiti Belize Panama Guyana Angola
    Zambia Malawi Namibia Botswana Lesotho Rwanda Burundi Eritrea Somalia Andorra Monaco Cyprus Atlantis Narnia
    Mordor Utopia Wonderland Wakanda Laos Mali Sudan Libya Algeria Tunisia
    """
)

UNIQUE_WORDS = words(
    """
    apple banana cherry lemon grape melon peach mango orange plum pear berry onion carrot potato tomato garlic
    pepper bread butter cheese honey sugar salt flour water coffee juice milk soup table chair window door floor
    wall roof house garden flower tree forest river lake ocean island mountain valley desert beach stone sand cloud
    rain snow wind storm thunder summer winter spring autumn morning evening night sun moon star planet rocket
    engine train ship plane boat bicycle car truck bridge road street city village market school library museum
    hospital office factory kitchen bedroom bathroom mirror pillow blanket candle lamp clock bottle glass spoon fork
    knife plate bowl basket paper pencil book letter story poem song music guitar piano violin drum trumpet dance
    game puzzle chess ball doll kite tent rope ladder hammer nail screw wheel chain key lock coin money ticket
    parcel stamp flag crown sword shield castle tower king queen knight wizard dragon monster ghost robot computer
    keyboard screen camera phone radio signal number circle square triangle corner center line point angle color red
    blue green yellow purple black white silver gold copper iron steel wood cotton wool silk leather rubber plastic
    cat dog rabbit horse cow sheep goat pig chicken duck goose turkey mouse tiger lion bear wolf fox deer monkey
    elephant giraffe zebra camel kangaroo whale dolphin shark salmon turtle frog snake lizard eagle owl parrot
    pigeon spider ant bee butterfly baby child mother father sister brother friend teacher doctor farmer pilot
    artist writer singer actor baker judge soldier sailor happy sad angry calm brave clever gentle honest lazy quiet
    quick slow strong weak warm cold small large tall short young old new clean dirty heavy light bright dark sweet
    sour bitter fresh dry wet soft hard smooth rough simple strange strawberry raspberry blueberry pineapple coconut
    pumpkin cucumber spinach lettuce mushroom cinnamon vanilla chocolate sandwich pancake noodle biscuit umbrella
    suitcase backpack necklace bracelet sweater jacket button pocket shoe boot glove scarf helmet balloon birthday
    holiday journey picture painting sculpture theater concert science history language grammar sentence question
    answer reason memory dream secret wonder victory balance energy gravity magnet crystal diamond emerald feather
    shadow silence whisper laughter courage freedom justice kindness patience wisdom hunger travel hello world model
    tiny server token layer
    """
)
