import json

from tasks.dedup.sides import equal_sides, side_keys


def meta(en, zh):
    return json.dumps({"en": en, "zh": zh}, ensure_ascii=False)


def test_sides_are_equal_without_case_and_punctuation():
    assert side_keys(meta("Open File…", "打开文件。")) == side_keys(meta("open file", "打开 文件"))


def test_pairs_that_share_either_side_are_joined():
    metas = [meta("Save", "保存"), meta("Quit", "退出"), meta("Store", "保存"), meta("save!", "储存")]
    assert equal_sides(metas).tolist() == [[0, 2], [0, 3]]


def test_the_same_words_on_different_sides_do_not_join():
    assert len(equal_sides([meta("OK", "确定"), meta("确定", "OK")])) == 0


def test_documents_that_are_no_pairs_are_left_alone():
    assert len(equal_sides(['{"en": "Save"}', '{"en": "Save"}', "{}", '{"en": 1, "zh": 2}'])) == 0


def test_a_side_without_words_joins_nothing():
    assert len(equal_sides([meta("…", "甲"), meta("…", "乙")])) == 0
