"""Tell the control tokens that a template writes from the same text inside a conversation (decision 12).

The template is compiled a second time with a secret mark before every control token in its own text and string
constants. What a conversation brings in carries no mark, so in the marked rendering a control token is one that
the template wrote; also a token that user text forms together with template text is not one. Constants that only
inspect text (`'</think>' in content`, `content.split('</think>')`) stay as they are.
"""

from __future__ import annotations

import re

from jinja2 import nodes

_INSPECTING_METHODS = frozenset(
    {
        *("startswith", "endswith", "find", "rfind", "index", "rindex", "count", "get"),
        *("split", "rsplit", "partition", "rpartition", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix"),
    }
)
_INSPECTING_FILTERS = frozenset({"trim", "select", "reject", "selectattr", "rejectattr", "attr", "groupby", "sort"})


class TokenMarker:
    """Puts `mark` before every match of `pattern` in the strings a template can write out."""

    def __init__(self, mark: str, pattern: re.Pattern[str]) -> None:
        self._mark = mark
        self._pattern = pattern

    def text(self, text: str) -> str:
        return self._pattern.sub(lambda match: self._mark + match[0], text)

    def tree(self, node: nodes.Node) -> None:
        """Mark a parsed template in place."""
        if isinstance(node, nodes.TemplateData):
            node.data = self.text(node.data)
        elif isinstance(node, nodes.Const):
            if isinstance(node.value, str):
                node.value = self.text(node.value)
        elif isinstance(node, nodes.Pair):
            self.tree(node.value)
        elif isinstance(node, (nodes.Compare, nodes.Test)):
            return
        elif isinstance(node, nodes.Getitem):
            self.tree(node.node)
        elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
            self.tree(node.node.node)
            self._arguments(node, node.node.attr, _INSPECTING_METHODS)
        elif isinstance(node, nodes.Filter):
            if node.node is not None:
                self.tree(node.node)
            self._arguments(node, node.name, _INSPECTING_FILTERS)
        else:
            for child in node.iter_child_nodes():
                self.tree(child)

    def _arguments(self, node: nodes.Call | nodes.Filter, name: str, inspecting: frozenset[str]) -> None:
        if name in inspecting:
            return
        # The first argument of `replace` is what to look for, the second what to write.
        for argument in node.args[1:] if name == "replace" else node.args:
            self.tree(argument)
        for keyword in node.kwargs:
            self.tree(keyword.value)
