import random
from datetime import date, timedelta

import pytest

from tasks.text.checksums import is_card_number, is_luhn, is_resident_id

# Numbers the networks publish for testing; nobody owns them.
TEST_CARDS = [
    "4111111111111111",
    "4012888888881881",
    "5555555555554444",
    "2223000048400011",
    "378282246310005",
    "6011111111111117",
    "3530111333300000",
    "30569309025904",
    "6200000000000005",
]


def luhn_by_table(digits: str) -> bool:
    """The witness: the check as a table of doubled digits, from the left."""
    doubled = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]
    total = 0
    for number, digit in enumerate(map(int, digits)):
        total += doubled[digit] if (len(digits) - number) % 2 == 0 else digit
    return total % 10 == 0


def id_check_by_horner(first: str) -> str:
    """The witness: ISO 7064 MOD 11-2 by its recursive definition, P = (P + digit) * 2 mod 11."""
    product = 0
    for digit in first:
        product = (product + int(digit)) * 2 % 11
    return "0123456789X"[(12 - product) % 11]


def made_ids(count: int, seed: int = 7):
    source = random.Random(seed)
    for _ in range(count):
        born = date(1930, 1, 1) + timedelta(days=source.randrange(30_000))
        place = f"{source.choice([11, 31, 44, 51, 65])}{source.randrange(10_000):04d}"
        first = f"{place}{born:%Y%m%d}{source.randrange(1000):03d}"
        yield first + id_check_by_horner(first)


def test_luhn_agrees_with_a_second_implementation():
    source = random.Random(3)
    for _ in range(2000):
        digits = str(source.randrange(10 ** source.randint(1, 19)))
        assert is_luhn(digits) == luhn_by_table(digits), digits


@pytest.mark.parametrize("number", TEST_CARDS)
def test_the_networks_test_numbers_are_cards_and_any_one_digit_changed_is_none(number):
    assert is_card_number(number)
    for place in range(len(number)):
        for digit in set("0123456789") - {number[place]}:
            assert not is_luhn(number[:place] + digit + number[place + 1 :])


@pytest.mark.parametrize("number", ["0000000000000000", "9999999999999995", "42424242424242424", "1111111111111117"])
def test_a_check_digit_alone_makes_no_card(number):
    assert is_luhn(number) == luhn_by_table(number)
    assert not is_card_number(number)


def test_the_example_of_the_standard_is_an_identity_number():
    # GB 11643-1999, section 4.3: 11010519491231002X and 440524188001010014.
    assert is_resident_id("11010519491231002X")
    assert is_resident_id("440524188001010014")


def test_identity_numbers_agree_with_a_second_implementation_of_the_check():
    for number in made_ids(500):
        assert is_resident_id(number), number
        for check in set("0123456789X") - {number[-1]}:
            assert not is_resident_id(number[:-1] + check)


@pytest.mark.parametrize("number", ["110105194913310025", "110105190002300026", "110105170001010025"])
def test_a_date_on_which_nobody_can_be_born_makes_no_identity_number(number):
    assert not any(is_resident_id(number[:-1] + check) for check in "0123456789X")
