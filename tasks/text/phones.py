"""Telephone numbers: the shapes people write them in, and what looks like one and is none.

Digits alone prove nothing, so a shape needs evidence: a country code with a plus sign, the numbering plan of China
(mobiles 13 to 19, area codes that begin with 0) or that of North America (area code and exchange begin with 2 to 9),
separators where those plans put them. Versions, decimals, dates, hashes and ISBNs have none of it.
"""

from __future__ import annotations

import re

# Before a number: nothing that would make it a part of something longer. A dot may stand behind a letter ("Tel.").
_BEFORE = r"(?<![0-9A-Za-z_+\-])(?<![^A-Za-z]\.)"
_AFTER = r"(?![0-9A-Za-z_]|[.\-][0-9])"

_MOBILE = r"(?:(?:\+|00)86[ \-]?|86[ \-])?1[3-9][0-9](?:[0-9]{8}|(?P<m>[ \-])[0-9]{4}(?P=m)[0-9]{4})"
_LANDLINE = (
    r"(?:(?:\+|00)86[ \-]?)?(?:"
    r"0(?:10|2[0-9])[0-9]{8}"
    r"|(?:0(?:10|2[0-9]|[3-9][0-9]{2})-|[(（]0(?:10|2[0-9]|[3-9][0-9]{2})[)）][ \-]?)[0-9]{3,4}[ \-]?[0-9]{4}"
    r"(?:-[0-9]{1,5})?)"
)
_SERVICE = r"[48]00-[0-9]{3}-[0-9]{4}"
_NORTH_AMERICA = (
    r"(?:\+?1[ .\-])?(?:\([2-9][0-9]{2}\)[ .\-]?[2-9][0-9]{2}[ .\-]"
    r"|[2-9][0-9]{2}(?P<n>[.\-])[2-9][0-9]{2}(?P=n))[0-9]{4}"
)
_INTERNATIONAL = r"\+[1-9][0-9]{0,2}(?P<i>[ .\-]?)\(?[0-9]{1,5}\)?(?:[ .\-]?[0-9]{2,5}){1,5}"

PHONE = re.compile(f"{_BEFORE}(?:{_MOBILE}|{_LANDLINE}|{_SERVICE}|{_NORTH_AMERICA}|(?P<plus>{_INTERNATIONAL})){_AFTER}")

_MIN_DIGITS, _MAX_DIGITS = 8, 15
"""Digits of an international number: at most 15 (ITU-T E.164); the shortest in use have 8 with the country code."""
_MIN_UNSEPARATED = 10


def is_phone(match: re.Match[str]) -> bool:
    """Whether a match of :data:`PHONE` is a telephone number; only the international shape needs more than its form.

    Without a separator "+12345678" is as well a signed number, so such a number needs ten digits.
    """
    number = match.group()
    if match.group("plus") is None:
        return True
    num_digits = sum(ch.isdigit() for ch in number)
    is_separated = re.search(r"[ \-()]", number) is not None
    is_decimal = number.count(".") == 1 and not is_separated
    return not is_decimal and (_MIN_DIGITS if is_separated else _MIN_UNSEPARATED) <= num_digits <= _MAX_DIGITS
