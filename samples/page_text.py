"""A page of HTML as plain text: paragraphs, headings and code, without menus."""

from __future__ import annotations

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

BLOCK_NAMES = "p h1 h2 h3 h4 h5 h6 li ul ol dl dt dd div section table tr td th blockquote main article"
BLOCK_TAGS = frozenset(BLOCK_NAMES.split())
UNWANTED = (
    "script, style, nav, header, footer, button, noscript, .headerlink, .relatedtopics, .buttons, "
    "span.MAC, .sphinxsidebar, .contents, #toc, .boring"
)
HAN = r"[\u3400-\u9fff\u3001-\u3011\uff01-\uff5e]"
BETWEEN_HAN = re.compile(rf"(?<={HAN})\s+(?={HAN})")


def inline(text: str) -> str:
    """One line of text. A line break between two Chinese characters was only the page's wrapping."""
    return BETWEEN_HAN.sub("", " ".join(text.replace("\u200b", "").replace("¶", "").split()))


class PageText:
    """Turns an HTML element into paragraphs: headings marked ``#``, code kept as it stands."""

    def __init__(self, root: LexborNode, fence: str = "") -> None:
        self.paragraphs: list[str] = []
        self.prose = 0
        self._line: list[str] = []
        self._mark = ""
        self._fence = fence
        self._walk(root)
        self._flush()

    def _flush(self) -> None:
        text = inline("".join(self._line))
        self._line = []
        if text:
            self.paragraphs.append(self._mark + text)
            self.prose += len(text.encode())

    def _walk(self, node: LexborNode) -> None:
        for child in node.iter(include_text=True):
            tag = child.tag or ""
            if tag == "-text":
                self._line.append(child.text_content or "")
            elif tag == "br":
                self._line.append(" ")
            elif tag == "pre":
                self._flush()
                code = [self._fence, child.text().strip("\n"), self._fence]
                self.paragraphs.append("\n".join(filter(None, code)))
            elif tag in BLOCK_TAGS:
                self._flush()
                self._mark = "#" * int(tag[1]) + " " if re.fullmatch("h[1-6]", tag) else ""
                self._walk(child)
                self._flush()
                self._mark = ""
            else:
                self._walk(child)

    def __str__(self) -> str:
        return "\n\n".join(self.paragraphs) + "\n"


def page(html: bytes, main: str) -> LexborNode | None:
    """The element that holds a page's own text, without navigation."""
    tree = LexborHTMLParser(html.decode())
    for node in tree.css(UNWANTED):
        node.decompose()
    return tree.css_first(main)


def page_text(html: bytes, main: str, *, least: int = 400, fence: str = "") -> str | None:
    """A page's text, or None when it holds less than ``least`` bytes of prose (redirects, bare code)."""
    node = page(html, main)
    text = PageText(node, fence) if node else None
    return str(text) if text and text.prose >= least else None
