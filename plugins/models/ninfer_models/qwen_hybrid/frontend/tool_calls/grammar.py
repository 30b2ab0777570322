"""The markup of a call (contract TOOL-1), and reading it out of text that arrives in any cuts.

region    = call (blank* call)* blank*                                        up to the end of the answer
call      = <tool_call> blank* function blank* </tool_call>
function  = <function=NAME> blank* (parameter blank*)* </function>
parameter = <parameter=KEY> VALUE </parameter>
VALUE     = any text in which <parameter=KEY> and </parameter> are balanced   (TOOL-9, TOOL-10)
blank     = space | tab | CR | LF
KEY       = one or more characters other than < > CR LF
"""

from __future__ import annotations

import re

CALL_OPEN = "<tool_call>"
CALL_CLOSE = "</tool_call>"
FUNCTION_OPEN = "<function="
FUNCTION_CLOSE = "</function>"
PARAMETER_OPEN = "<parameter="
PARAMETER_CLOSE = "</parameter>"

BLANK = " \t\r\n"

NAME_END = re.compile(r"[<>\r\n]")
"""What ends the name inside an opening tag; only `>` ends it well."""

VALUE_TAG = re.compile(f"{PARAMETER_OPEN}|{PARAMETER_CLOSE}")
NOT_BLANK = re.compile(f"[^{BLANK}]")

_LONGEST_TAG = max(map(len, (CALL_CLOSE, FUNCTION_CLOSE, PARAMETER_CLOSE)))


def skip_blank(text: str, at: int) -> int:
    """Index of the first character from `at` on that is not blank; the length of `text` if there is none."""
    found = NOT_BLANK.search(text, at)
    return len(text) if found is None else found.start()


def unfinished_tag(text: str, at: int, tags: tuple[str, ...]) -> int:
    """Index from which the end of `text` may be the beginning of one of `tags`; the length of `text` if it cannot.

    Looks at no more characters than a tag has, and not before `at`. Every tag begins with the only `<` in it.
    """
    start = text.rfind("<", max(at, len(text) - _LONGEST_TAG))
    if start >= 0 and any(tag.startswith(text[start:]) for tag in tags):
        return start
    return len(text)
