"""Personal data in text: found by shape, verified by check digit or grammar, replaced by typed placeholders.

Shapes are bounded by ASCII look-arounds and never by ``\\b``: to Python a Chinese character is a word character, so
``\\b`` sees no boundary in "电话13812345678找我". Every repeat is bounded and every shape starts where the character
before cannot belong to it, so the time is linear in the text.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable

from tasks.text.checksums import is_card_number, is_resident_id
from tasks.text.phones import PHONE, is_phone

KINDS = ("email", "cn_id", "card", "ip", "phone")
"""In the order they are looked for: a number is first asked whether it passes a check digit."""

PLACEHOLDERS = {"email": "<EMAIL>", "cn_id": "<CN_ID>", "card": "<CARD>", "ip": "<IP>", "phone": "<PHONE>"}

# What a text must hold for a kind to be worth looking for: these run at many times the speed of the shapes.
_LONG_NUMBER = re.compile(r"[0-9](?:[-. ()（）]{0,3}[0-9]){6}")
_DOTTED_OR_COLONS = re.compile(r"[0-9]\.[0-9]{1,3}\.[0-9]|:[0-9A-Fa-f]{0,4}:")

_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+\-])([A-Za-z0-9_][A-Za-z0-9._%+\-]{0,63})@"
    r"((?:[A-Za-z0-9](?:[A-Za-z0-9\-]{0,62})\.){1,8})([A-Za-z]{2,24})(?![A-Za-z0-9\-])"
)
# Names like icon@2x.png are files of a picture's resolution, not addresses.
_FILE_ENDINGS = frozenset(("png", "jpg", "jpeg", "gif", "svg", "webp", "js", "ts", "css", "py", "rs", "html", "json"))

_CN_ID = re.compile(
    r"(?<![0-9A-Za-z_.])[0-9]{6} ?(?:18|19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"
    r" ?[0-9]{3} ?[0-9Xx](?![0-9A-Za-z_]|\.[0-9])"
)
_CARD = re.compile(
    r"(?<![0-9A-Za-z_.\-])(?:[2-6][0-9]{12,18}"
    r"|[2-6][0-9]{3}(?P<four>[ \-])(?:[0-9]{4}(?P=four)){2}[0-9]{1,7}"
    r"|3[0-9]{3}(?P<six>[ \-])[0-9]{6}(?P=six)[0-9]{4,5})(?![0-9A-Za-z_]|[.\-][0-9])"
)

_IPV4 = re.compile(r"(?<![0-9A-Za-z_.])(?<![0-9A-Za-z]-)(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9A-Za-z_]|\.[0-9])")
_IPV6 = re.compile(r"(?<![0-9A-Za-z_:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![0-9A-Za-z_:])")
# Four numbers with dots are as often a version or the number of a section.
_NUMBERED = re.compile(
    r"(?:versions?|ver\.?|v\.|release|sections?|chapter|clause|appendix|§|[=<>~]=|版本号?|第|章节)\s{0,2}$",
    re.IGNORECASE,
)
_ADDRESSED = re.compile(
    r"(?:ips?|ip address|address|addresses|hosts?|server|servers|from|ping|://|@|地址|主机|服务器|来自)[\s:：是为]{0,3}$",
    re.IGNORECASE,
)
_PORT_OR_PREFIX = re.compile(r"[:/][0-9]")

Verify = Callable[[re.Match[str]], bool]


def redact(text: str, kinds: Iterable[str] = KINDS, *, keep_local: bool = True) -> tuple[str, Counter[str]]:
    """The text with personal data replaced, and how many of each kind there were.

    ``keep_local`` leaves IP addresses that mean the same in every network (loopback, private, link-local,
    unspecified, multicast): they name nobody, and much technical text is about them. Addresses reserved for
    documentation are replaced, since they stand for public ones.
    """
    counts: Counter[str] = Counter()
    wanted = set(kinds) & _possible_kinds(text)
    for kind in KINDS:
        if kind in wanted:
            for shape, verify in _rules(kind, keep_local):
                text = _replaced(text, kind, shape, verify, counts)
    return text, counts


def _possible_kinds(text: str) -> set[str]:
    """The kinds that may be in a text; for most texts none."""
    kinds = {"email"} if "@" in text else set()
    if _LONG_NUMBER.search(text):
        kinds |= {"cn_id", "card", "phone"}
    return kinds | {"ip"} if _DOTTED_OR_COLONS.search(text) else kinds


def _rules(kind: str, keep_local: bool) -> list[tuple[re.Pattern[str], Verify]]:
    rules: dict[str, list[tuple[re.Pattern[str], Verify]]] = {
        "email": [(_EMAIL, _is_email)],
        "cn_id": [(_CN_ID, lambda match: is_resident_id(match.group().replace(" ", "")))],
        "card": [(_CARD, _is_card)],
        "ip": [
            (_IPV4, lambda match: _is_ipv4(match, keep_local)),
            (_IPV6, lambda match: _is_ipv6(match, keep_local)),
        ],
        "phone": [(PHONE, is_phone)],
    }
    return rules[kind]


def _replaced(text: str, kind: str, shape: re.Pattern[str], verify: Verify, counts: Counter[str]) -> str:
    def replacement(match: re.Match[str]) -> str:
        if not verify(match):
            return match.group()
        counts[kind] += 1
        return PLACEHOLDERS[kind]

    return shape.sub(replacement, text)


def _is_email(match: re.Match[str]) -> bool:
    # git@host is how every Git server is reached, and nobody's mailbox.
    return match.group(1) != "git" and match.group(3).lower() not in _FILE_ENDINGS


def _is_card(match: re.Match[str]) -> bool:
    return is_card_number(re.sub(r"[ \-]", "", match.group()))


def _is_ipv4(match: re.Match[str], keep_local: bool) -> bool:
    try:
        address = ipaddress.IPv4Address(match.group())
    except ValueError:
        return False
    return _is_meant_as_address(match, address) and not (keep_local and _is_local(address))


def _is_meant_as_address(match: re.Match[str], address: ipaddress.IPv4Address) -> bool:
    """Whether the text around four numbers speaks of an address and not of a version or a section.

    Of all addresses 98% have a number of three digits ((100/256)^4 have none); versions and sections have none.
    Four smaller numbers need a word such as "host" before them, or a port or prefix length behind.
    """
    before = match.string[max(0, match.start() - 16) : match.start()]
    if _NUMBERED.search(before):
        return False
    return (
        max(address.packed) >= 100
        or _ADDRESSED.search(before) is not None
        or _PORT_OR_PREFIX.match(match.string, match.end()) is not None
        or _is_local(address)
    )


def _is_ipv6(match: re.Match[str], keep_local: bool) -> bool:
    try:
        address = ipaddress.IPv6Address(match.group())
    except ValueError:
        return False
    # "a::b" is a path in several languages and, by accident, an address; who is reachable is in 2000::/3.
    return address in _GLOBAL_UNICAST or (not keep_local and address.is_private)


_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_DOCUMENTATION = tuple(ipaddress.IPv4Network(net) for net in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"))


def _is_local(address: ipaddress.IPv4Address) -> bool:
    return not address.is_global and not any(address in network for network in _DOCUMENTATION)
