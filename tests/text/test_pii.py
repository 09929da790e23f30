import random
import re
import time

import pytest

from tasks.text.pii import KINDS, PLACEHOLDERS, redact

FOUND = [
    ("email", "li.hua+news@example.com"),
    ("email", "a_b%c@mail.example.com.cn"),
    ("phone", "13812345678"),
    ("phone", "138-1234-5678"),
    ("phone", "138 1234 5678"),
    ("phone", "+86 138 1234 5678"),
    ("phone", "+8613812345678"),
    ("phone", "86-13812345678"),
    ("phone", "010-12345678"),
    ("phone", "0755-2688-8888"),
    ("phone", "(0755)26888888"),
    ("phone", "（010）65529988"),
    ("phone", "021-12345678-801"),
    ("phone", "400-123-4567"),
    ("phone", "(212) 555-0123"),
    ("phone", "212-555-0123"),
    ("phone", "212.555.0123"),
    ("phone", "+1 212 555 0123"),
    ("phone", "1-800-555-0199"),
    ("phone", "+44 20 7946 0958"),
    ("phone", "+442079460958"),
    ("phone", "+49 (0)30 1234567"),
    ("phone", "+33 1 23 45 67 89"),
    ("ip", "203.0.113.7"),
    ("ip", "45.33.32.156"),
    ("ip", "8.8.8.8:53"),
    ("ip", "2001:db8::1"),
    ("ip", "2606:4700:4700:0:0:0:0:1111"),
    ("card", "4111111111111111"),
    ("card", "5500 0000 0000 0004"),
    ("card", "4111-1111-1111-1111"),
    ("card", "3782 822463 10005"),
    ("cn_id", "11010519491231002X"),
    ("cn_id", "11010519491231002x"),
    ("cn_id", "440524188001010014"),
    ("cn_id", "990101199003071237"),
    ("cn_id", "000000197806152321"),
    ("cn_id", "110105 19491231 002X"),
    ("cn_id", "11010519491231002 X"),
]
LEFT = [
    "1.2.3",
    "version 1.2.3.4",
    "v1.2.3.4",
    "版本1.2.3.4",
    "section 10.2.3.4",
    "#### 4.8.3.1. Arguments",
    "novas-3.1.1.3.tar.gz",
    "novas (3.1.1.3)",
    "release 24.100.2.3",
    "1.2.3.4567890",
    "1.2.3.4.5",
    "999.1.1.1",
    "pandas==2.1.4",
    "package==2024.10.11.20",
    "3.14159265358979323846",
    "0.13812345678",
    "0.4111111111111111",
    "978-7-111-12345-6",
    "ISBN 9787111123453",
    "0-306-40615-2",
    "2024-01-15 12:30:45",
    "20240115-123045",
    "1622547800",
    "1622547800123",
    "d670460b4b4aece5915caf5c68d12f560a9fe3e4",
    "a13812345678b",
    "4242424242424242a",
    "123e4567-e89b-12d3-a456-426614174000",
    "256 512 1024",
    "+1.2345678",
    "x = +12345678",
    "UTC+08:00",
    "+0800",
    "std::fmt::Display",
    "a::b",
    "de::Deserialize",
    "12:30:45",
    "00:1a:2b:3c:4d:5e",
    "icon@2x.png",
    "react@18.2.0",
    "git@github.com:owner/name.git",
    "@property",
    "user@localhost",
    "110105194912310021",
    "11010519491331002X",
    "4111111111111112",
    "1,234,567,890",
]
LOCAL = ["127.0.0.1", "0.0.0.0", "192.168.1.10", "10.0.0.0/8", "169.254.0.1", "fe80::1", "::1", "255.255.255.255"]


@pytest.mark.parametrize(("kind", "value"), FOUND)
@pytest.mark.parametrize("around", ["{}", "请联系{}谢谢", "see {}.", "（{}）", "“{}”", "x: {}, y", "{}\n", "\t{}；"])
def test_personal_data_is_replaced_wherever_it_stands(kind, value, around):
    text, counts = redact(around.format(value))
    assert text == around.format(PLACEHOLDERS[kind] + (":53" if value.endswith(":53") else ""))
    assert counts == {kind: 1}


@pytest.mark.parametrize("value", LEFT)
@pytest.mark.parametrize("around", ["{}", "数字 {} 不是", "see {} here"])
def test_what_only_looks_like_personal_data_is_left(value, around):
    assert redact(around.format(value)) == (around.format(value), {})


@pytest.mark.parametrize("address", LOCAL)
def test_addresses_that_mean_the_same_in_every_network_are_a_knob(address):
    assert redact(f"在 {address} 上") == (f"在 {address} 上", {})


@pytest.mark.parametrize("address", ["127.0.0.1", "192.168.1.10", "fe80::1", "::1", "fd00::17"])
def test_they_are_replaced_when_the_knob_is_off(address):
    assert redact(f"在 {address} 上", keep_local=False) == ("在 <IP> 上", {"ip": 1})


@pytest.mark.parametrize("text", ["ping 8.8.4.4", "地址为8.8.4.4。", "the host 8.8.4.4 is", "http://8.8.4.4/x"])
def test_four_small_numbers_are_an_address_where_the_text_says_so(text):
    assert redact(text) == (text.replace("8.8.4.4", "<IP>"), {"ip": 1})


def test_only_the_kinds_asked_for_are_replaced():
    text = "a@example.com 13812345678"
    assert redact(text, ["phone"])[0] == "a@example.com <PHONE>"


def test_lists_of_numbers_are_all_found():
    assert redact("13812345678,13912345678/13712345678、13612345678")[0] == "<PHONE>,<PHONE>/<PHONE>、<PHONE>"


def scattered(seed: int) -> tuple[str, dict[str, int]]:
    """A text of values, of what only looks like values and of prose, and how many of each kind it holds."""
    source = random.Random(seed)
    pieces, counts = [], dict.fromkeys(KINDS, 0)
    for _ in range(30):
        kind, value = source.choice([*FOUND, *(("", value) for value in LEFT[20:])])
        if kind:
            counts[kind] += 1
        pieces += [value, source.choice(["，然后 ", " and ", "；\n", " 和 "])]
    return "".join(pieces), {kind: count for kind, count in counts.items() if count}


@pytest.mark.parametrize("seed", range(30))
def test_every_value_in_a_long_text_is_found_and_counted(seed):
    text, expected = scattered(seed)
    assert redact(text)[1] == expected


@pytest.mark.parametrize("seed", range(30))
def test_redacting_twice_changes_nothing_more(seed):
    once = redact(scattered(seed)[0])[0]
    assert redact(once) == (once, {})


@pytest.mark.parametrize("seed", range(30))
def test_the_rest_of_the_text_is_kept_to_the_letter(seed):
    text = scattered(seed)[0]
    pieces = re.split("|".join(PLACEHOLDERS.values()), redact(text)[0])
    place = 0
    for piece in pieces:
        place = text.index(piece, place) + len(piece)


@pytest.mark.parametrize("unit", ["1", "a", "@", "a@", "1 ", "1.", "+1", ":", "::1", "(", "1-", "a.", "4111 ", "0755-"])
def test_no_text_takes_more_than_linear_time(unit):
    seconds = []
    for size in (20_000, 200_000):
        text = unit * (size // len(unit))
        start_s = time.process_time()
        redact(text)
        seconds.append(time.process_time() - start_s)
    # Ten times the text: quadratic work would take a hundred times as long.
    assert seconds[1] < 40 * max(seconds[0], 0.005)
