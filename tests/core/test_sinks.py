from tasks.core import sinks
from tasks.core.sinks import ConsoleSink


def told(monkeypatch, capsys, calls):
    """What the console says of ``(time, done)`` of 1,000 each."""
    with ConsoleSink("hum") as console:
        for at_s, done in calls:
            monkeypatch.setattr(sinks.time, "monotonic", lambda at_s=at_s: at_s)
            console.progress(done, 1000, "notes")
    return capsys.readouterr().err.splitlines()


def test_the_rate_is_that_of_this_run_also_when_it_goes_on_from_where_another_stopped(monkeypatch, capsys):
    assert told(monkeypatch, capsys, [(0, 500), (5, 550), (10, 600), (15, 650), (20, 700)]) == [
        "hum: 600 of 1,000 notes (60%), 10.0/s, ETA 40 s",
        "hum: 700 of 1,000 notes (70%), 10.0/s, ETA 30 s",
    ]


def test_a_second_count_of_the_same_unit_has_a_rate_of_its_own(monkeypatch, capsys):
    assert told(monkeypatch, capsys, [(0, 0), (10, 1000), (20, 100), (30, 300)]) == [
        "hum: 1,000 of 1,000 notes (100%), 100.0/s, ETA 0 s",
        "hum: 300 of 1,000 notes (30%), 20.0/s, ETA 35 s",
    ]
