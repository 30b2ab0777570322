"""Chinese and emoji: every character is several bytes, most of them several tokens."""

from __future__ import annotations

import random

from tools.tiny_model.banks import pairs
from tools.tiny_model.episode import Episode, Exchange, single
from tools.tiny_model.wording import loosen

WORDS = pairs(
    """
    apple: 苹果; banana: 香蕉; cat: 猫; dog: 狗; fish: 鱼; bird: 鸟; horse: 马; rabbit: 兔子; tiger: 老虎; bear: 熊;
    water: 水; tea: 茶; coffee: 咖啡; milk: 牛奶; bread: 面包; rice: 米饭; egg: 鸡蛋; cake: 蛋糕; sugar: 糖; salt: 盐;
    sun: 太阳; moon: 月亮; star: 星星; rain: 雨; snow: 雪; wind: 风; cloud: 云; mountain: 山; river: 河; sea: 海;
    tree: 树; flower: 花; house: 房子; door: 门; window: 窗户; table: 桌子; chair: 椅子; book: 书; pen: 笔; paper: 纸;
    school: 学校; teacher: 老师; student: 学生; doctor: 医生; friend: 朋友; mother: 妈妈; father: 爸爸; child: 孩子;
    car: 汽车; train: 火车; plane: 飞机; bicycle: 自行车; ship: 船; road: 路; city: 城市; market: 市场; money: 钱;
    red: 红色; blue: 蓝色; green: 绿色; yellow: 黄色; black: 黑色; white: 白色; today: 今天; tomorrow: 明天;
    yesterday: 昨天; morning: 早上; evening: 晚上; year: 年; happy: 高兴; big: 大; small: 小; new: 新; old: 旧;
    computer: 电脑; phone: 手机; music: 音乐; picture: 图片; clock: 钟; shoe: 鞋; hat: 帽子; heart: 心
    """
)
COUNTRIES = pairs(
    """
    法国: 巴黎; 德国: 柏林; 意大利: 罗马; 西班牙: 马德里; 葡萄牙: 里斯本; 波兰: 华沙; 奥地利: 维也纳; 希腊: 雅典;
    挪威: 奥斯陆; 瑞典: 斯德哥尔摩; 芬兰: 赫尔辛基; 丹麦: 哥本哈根; 爱尔兰: 都柏林; 埃及: 开罗; 日本: 东京; 中国: 北京;
    泰国: 曼谷; 越南: 河内; 韩国: 首尔; 加拿大: 渥太华; 古巴: 哈瓦那; 巴西: 巴西利亚; 智利: 圣地亚哥; 秘鲁: 利马;
    英国: 伦敦; 俄罗斯: 莫斯科; 美国: 华盛顿; 澳大利亚: 堪培拉
    """
)
EMOJI = pairs(
    """
    cat: 🐱; dog: 🐶; fish: 🐟; horse: 🐴; rabbit: 🐰; tiger: 🐯; bear: 🐻; apple: 🍎; banana: 🍌; pizza: 🍕; bread: 🍞;
    cake: 🎂; coffee: ☕; tree: 🌳; flower: 🌸; sun: ☀️; moon: 🌙; star: ⭐; rain: 🌧️; snow: ❄️; fire: 🔥; house: 🏠;
    car: 🚗; train: 🚆; plane: ✈️; ship: 🚢; bicycle: 🚲; rocket: 🚀; book: 📖; phone: 📱; clock: ⏰; key: 🔑; heart: ❤️;
    music: 🎵; ball: ⚽; gift: 🎁; crown: 👑; robot: 🤖; ghost: 👻; family: 👨‍👩‍👧; astronaut: 👩‍🚀; teacher: 👩‍🏫;
    farmer: 👨‍🌾;
    rainbow: 🌈; smile: 😊; thumbs up: 👍🏽; Norway: 🇳🇴; Japan: 🇯🇵; France: 🇫🇷; Germany: 🇩🇪; Italy: 🇮🇹; Spain: 🇪🇸;
    Brazil: 🇧🇷
    """
)
# (question forms, answer), fixed.
FIXED = (
    (("你是谁？", "你叫什么名字？", "请介绍一下你自己。", "你是什么？"), "我是 ninfer-tiny，一个小型语言模型。"),
    (("你好", "你好！", "您好", "嗨", "早上好！"), "你好！有什么可以帮你？"),
    (("谢谢", "谢谢你！", "非常感谢。", "多谢！"), "不客气！"),
    (("再见", "再见！", "拜拜", "明天见！"), "再见！"),
    (("你会说中文吗？", "你懂中文吗？", "你会中文吗？"), "会一点。我可以做算术、翻译单词、说出首都。"),
)
TO_CHINESE = (
    "Translate {w} into Chinese.", "What is {w} in Chinese?", "How do you say {w} in Chinese?", "{w} in Chinese",
    "Chinese word for {w}?", "Say {w} in Chinese.", "用中文怎么说 {w}？", "{w} 用中文怎么说？", "{w} 是什么意思？",
)  # fmt: skip
TO_ENGLISH = (
    "What does {c} mean?", "Translate {c} into English.", "{c} in English", "What is {c} in English?",
    "{c} 用英语怎么说？", "请把 {c} 翻译成英语。", "{c} 的英语是什么？",
)  # fmt: skip
CAPITAL = (
    "{x}的首都是哪里？",
    "{x}的首都是什么？",
    "哪个城市是{x}的首都？",
    "请问{x}的首都？",
    "{x}首都",
    "请告诉我{x}的首都。",
)
SUM = ("{a}加{b}等于多少？", "{a} + {b} 等于几？", "请计算 {a} + {b}。", "{a}加{b}是多少？", "算一下：{a}加{b}")
SHOW = (
    "Show the emoji for {w}.", "Emoji for {w}?", "{w} emoji", "Which emoji is a {w}?", "Give me a {w} emoji.",
    "Send me the {w} emoji.",
)  # fmt: skip
SEVERAL = (
    "Show {n} {w} emojis.",
    "Give me {n} times the {w} emoji.",
    "{n} x {w} emoji",
    "Repeat the {w} emoji {n} times.",
)
NAME = ("What is {e}?", "Which word is {e}?", "Name this emoji: {e}", "{e} means?", "What does {e} show?")
ROW = ("Write as emojis: {words}.", "Turn these into emojis: {words}", "{words} as emojis")
COUNT_WORDS = ("two", "three", "four", "five", "six")


def chinese(rng: random.Random) -> Episode:
    draw = rng.random()
    word, hanzi = rng.choice(WORDS)
    if draw < 0.1:
        asks, answer = rng.choice(FIXED)
        exchange = Exchange(rng.choice(asks), answer, "用户说中文。", "我用中文回答。")
        return single("chinese", exchange, graded=False)
    if draw < 0.4:
        user = loosen(rng, rng.choice(TO_CHINESE)).format(w=word)
        answer = f"“{word}”的中文是“{hanzi}”。"
        return single("chinese", Exchange(user, answer, f"I need {word} in Chinese.", f"{word}: {hanzi}."))
    if draw < 0.6:
        user = loosen(rng, rng.choice(TO_ENGLISH)).format(c=hanzi)
        return single(
            "chinese", Exchange(user, f"{hanzi} means {word}.", f"I need {hanzi} in English.", f"{hanzi}: {word}.")
        )
    if draw < 0.85:
        country, city = rng.choice(COUNTRIES)
        user = rng.choice(CAPITAL).format(x=country)
        return single(
            "chinese", Exchange(user, f"{country}的首都是{city}。", f"用户问{country}的首都。", f"{country}：{city}。")
        )
    a, b = rng.randint(1, 99), rng.randint(0, 20)
    exchange = Exchange(
        rng.choice(SUM).format(a=a, b=b), f"{a} + {b} = {a + b}。", "这是加法。", f"{a} + {b} = {a + b}。"
    )
    return single("chinese", exchange, split_key=f"{a}+{b}")


def emoji(rng: random.Random) -> Episode:
    draw = rng.random()
    word, symbol = rng.choice(EMOJI)
    if draw < 0.3:
        user = loosen(rng, rng.choice(SHOW)).format(w=word)
        return single("emoji", Exchange(user, symbol, f"I need the emoji for {word}.", f"{word}: {symbol}"))
    if draw < 0.55:
        count = rng.randint(2, 6)
        shown = str(count) if rng.random() < 0.6 else COUNT_WORDS[count - 2]
        user = loosen(rng, rng.choice(SEVERAL)).format(w=word, n=shown)
        steps = f"{word}: {symbol}, {count} times."
        return single("emoji", Exchange(user, symbol * count, f"I need {count} times the emoji for {word}.", steps))
    if draw < 0.75:
        user = rng.choice(NAME).format(e=symbol)
        return single(
            "emoji", Exchange(user, f"{symbol} is {word}.", "I need the word for an emoji.", f"{symbol}: {word}")
        )
    chosen = rng.sample(EMOJI, rng.randint(2, 5))
    user = loosen(rng, rng.choice(ROW), polite=False).format(words=", ".join(name for name, _ in chosen))
    steps = "\n".join(f"{name}: {sign}" for name, sign in chosen)
    return single("emoji", Exchange(user, " ".join(sign for _, sign in chosen), "I need several emojis.", steps))
