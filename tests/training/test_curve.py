from __future__ import annotations

from tasks.training.curve import CurveReader, CurveWriter, cut_curve, read_curve


def test_a_half_written_last_line_is_left_out(tmp_path):
    path = tmp_path / "curve.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert read_curve(path) == [{"step": 1}, {"step": 2}]


def test_what_came_after_the_checkpoint_is_forgotten(tmp_path):
    path = tmp_path / "curve.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"st')
    cut_curve(path, 2)
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'


def test_a_reader_sees_each_whole_line_once(tmp_path):
    path = tmp_path / "curve.jsonl"
    reader, writer = CurveReader(path), CurveWriter(path)
    assert list(reader.new_lines()) == []
    writer.append({"step": 1})
    with path.open("a") as file:
        file.write('{"step"')
    assert list(reader.new_lines()) == [{"step": 1}]
    with path.open("a") as file:
        file.write(": 2}\n")
    assert list(reader.new_lines()) == [{"step": 2}]
    assert list(reader.new_lines()) == []


def test_a_reader_can_leave_out_the_past(tmp_path):
    path = tmp_path / "curve.jsonl"
    CurveWriter(path).append({"step": 1})
    reader = CurveReader(path)
    reader.skip()
    CurveWriter(path).append({"step": 2})
    assert list(reader.new_lines()) == [{"step": 2}]


def test_numbers_come_back_to_the_last_bit(tmp_path):
    path, loss = tmp_path / "curve.jsonl", 1 / 3
    CurveWriter(path).append({"step": 1, "loss": loss})
    assert read_curve(path)[0]["loss"] == loss
