"""Check digits: what tells a card or identity number from any other row of digits."""

from __future__ import annotations

from datetime import date

_ID_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_ID_CHECK = "10X98765432"
# Ranges of the first digits that networks issue (ISO/IEC 7812), with the lengths they use.
_ISSUERS = (
    ((4, 4), (13, 16, 19)),  # Visa
    ((51, 55), (16,)),  # Mastercard
    ((2221, 2720), (16,)),
    ((34, 34), (15,)),  # American Express
    ((37, 37), (15,)),
    ((300, 305), (14,)),  # Diners Club
    ((36, 36), (14,)),
    ((38, 39), (14,)),
    ((6011, 6011), (16, 17, 18, 19)),  # Discover
    ((644, 659), (16, 17, 18, 19)),
    ((3528, 3589), (16, 17, 18, 19)),  # JCB
    ((62, 62), (16, 17, 18, 19)),  # UnionPay
)


def is_luhn(digits: str) -> bool:
    """Whether the last digit is the check digit of the others (ISO/IEC 7812-1, annex B)."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 * (value > 9)
    return total % 10 == 0


def is_card_number(digits: str) -> bool:
    """Whether digits are a payment card's number: an issuer's first digits, its length, and the Luhn check digit.

    The check digit alone would take one in ten of all numbers of that length.
    """
    issued = any(
        len(digits) in lengths and low <= int(digits[: len(str(low))]) <= high for (low, high), lengths in _ISSUERS
    )
    return issued and is_luhn(digits)


def is_resident_id(number: str) -> bool:
    """Whether 18 characters are a Chinese resident identity number (GB 11643-1999).

    A date of birth that exists, and the check character of ISO 7064 MOD 11-2 over the first 17 digits: one in ten
    thousand of all numbers of that length. The region is not asked, since regions come and go.
    """
    try:
        born = date(int(number[6:10]), int(number[10:12]), int(number[12:14]))
    except ValueError:
        return False
    total = sum(int(digit) * weight for digit, weight in zip(number, _ID_WEIGHTS, strict=False))
    return born.year >= 1800 and _ID_CHECK[total % 11] == number[17].upper()
