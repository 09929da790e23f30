"""HTML: the text a reader of the page sees, without what is around it."""

from __future__ import annotations

import codecs
import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

# fmt: off
_UNREAD = frozenset((
    "script", "style", "noscript", "template", "nav", "footer", "aside", "svg", "iframe", "button", "select", "head",
))
_PARAGRAPHS = frozenset((
    "blockquote", "dl", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "ol", "p", "pre", "table", "ul",
))
_BLOCKS = _PARAGRAPHS | frozenset((
    "address", "article", "body", "dd", "details", "div", "dt", "fieldset", "figcaption", "hr", "li", "main", "section",
    "summary", "tbody", "tfoot", "thead", "tr",
))
_CELLS = frozenset(("td", "th"))
# fmt: on
FENCE = "```"
"""Line before and after code, as Markdown writes it: later stages and readers can tell code from prose."""
_DECLARED = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{2,40})", re.IGNORECASE)
_SPACE = re.compile(r"[ \t\r\n\f]+")


def declared_encoding(page: bytes) -> str:
    """The codec that the page's own ``<meta charset>`` names, when Python has it; else an empty text."""
    found = _DECLARED.search(page[:4096])
    try:
        return codecs.lookup(found.group(1).decode("ascii")).name if found else ""
    except LookupError:
        return ""


def page_text(page: str) -> tuple[str, str]:
    """Title and main text of a page.

    The text of ``<main>`` or of the only ``<article>`` when the page has one, else of the body; scripts, styles,
    navigation and the page's frame are left out. Blocks are lines, paragraphs are separated by an empty line, and
    white space counts only inside ``<pre>``, which is set between Markdown fences.
    """
    tree = LexborHTMLParser(page)
    title_node = tree.css_first("title")
    title = _SPACE.sub(" ", title_node.text()).strip() if title_node else ""
    root = _main_of(tree)
    return title, _text_below(root) if root else ""


def _main_of(tree: LexborHTMLParser) -> LexborNode | None:
    main = tree.css_first("main, [role=main]")
    articles = tree.css("article")
    # A page of several articles is a list of them, and all of it is its text.
    return main or (articles[0] if len(articles) == 1 else tree.body)


def _is_unread(node: LexborNode) -> bool:
    """Whether a node is the page's frame and not its text; a header with a heading is the text's own."""
    if node.tag in _UNREAD:
        return True
    if node.tag == "header":
        return node.css_first("h1, h2") is None
    # Sphinx puts a link marked with a pilcrow behind every heading.
    return node.tag == "a" and "headerlink" in (node.attributes.get("class") or "").split()


def _text_below(root: LexborNode) -> str:
    """Text of a node; an explicit stack, since pages nest deeper than Python's recursion goes."""
    parts: list[str] = []
    breaks = 0  # line breaks due before the next text: the most that any of the edges between asks for
    stack: list[tuple[LexborNode | int | str, bool]] = [(root, False)]
    while stack:
        node, is_pre = stack.pop()
        if isinstance(node, int):
            breaks = max(breaks, node)
        elif isinstance(node, str) or node.tag == "-text":
            text = node if isinstance(node, str) else node.text_content or ""
            if not is_pre:
                text = _SPACE.sub(" ", text).lstrip(" " if breaks or not parts else "")
            if text:
                # Code usually ends its last line itself.
                has_one = bool(parts) and parts[-1].endswith("\n")
                parts += ["\n" * max(breaks - has_one, 0), text]
                breaks = 0
        elif not _is_unread(node):
            # Within code an element may begin a line; an empty line stands there only where it is written.
            edge = min(_edge(node.tag), 1) if is_pre else _edge(node.tag)
            breaks = max(breaks, edge)
            stack.append((edge, False))
            children: list[LexborNode | int | str] = list(node.iter(include_text=True))
            if node.tag == "pre" and not is_pre:
                children = [FENCE, 1, *children, 1, FENCE]
            inside = is_pre or node.tag == "pre"
            stack.extend((child, inside) for child in reversed(children))
            if node.tag in _CELLS:
                parts.append(" ")
    return "\n".join(line.rstrip() for line in "".join(parts).split("\n")).strip("\n ")


def _edge(tag: str | None) -> int:
    """Line breaks before and after an element: two make an empty line."""
    return 2 if tag in _PARAGRAPHS else int(tag in _BLOCKS or tag == "br")
