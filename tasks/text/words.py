"""Words of a text, aware of the script.

Latin, Cyrillic, Hangul and every other script that puts spaces between words: a word is a run of letters and digits,
with inner apostrophes ("don't"). Chinese and Japanese put no spaces: each Han or kana character is a word, which is
what published Chinese filters and character-shingle de-duplication count.
"""

import re

# Han (unified, extensions A to H, compatibility), the ideographic iteration mark and zero, hiragana and katakana.
CJK_RANGES = "\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"

_CJK = re.compile(f"[{CJK_RANGES}]")
# [^\W_] is "letter or digit". Combining marks are no letters to `re`; between letters they do not split a word. Text
# is in NFC by the time it counts, so few are left. The grammar is also that of the dedup kernel, class by class.
_LETTER = rf"(?:(?![{CJK_RANGES}])[^\W_])"
_WORD = re.compile(rf"[{CJK_RANGES}]|{_LETTER}+(?:['\u2019]?[\u0300-\u036f]*{_LETTER}+)*")


def is_cjk(ch: str) -> bool:
    """Whether one character is written without spaces around words: Han, hiragana or katakana."""
    return _CJK.match(ch) is not None


def count_cjk(text: str) -> int:
    """How many characters of the text are Han, hiragana or katakana."""
    return len(_CJK.findall(text))


def words(text: str) -> list[str]:
    """The words of a text in order, lower-cased. Punctuation, symbols and white space are no words.

    >>> words("Don't panic: 你好, world")
    ["don't", 'panic', '你', '好', 'world']
    """
    return _WORD.findall(text.lower())
