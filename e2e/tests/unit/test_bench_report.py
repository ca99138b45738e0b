"""The figures that a benchmark reports."""

import json
from pathlib import Path

import pytest

from bench.report import Row, against_limit, all_hold, at_least_share, at_most, percentile, table, write
from bench.trivial_call import rows
from bench.zmtp_echo import whole_request


def test_a_percentile_is_a_sample_that_was_measured() -> None:
    samples = [float(number) for number in range(1, 101)]
    assert percentile(samples, 0.5) == 50
    assert percentile(samples, 0.99) == 99
    assert percentile([7.0], 0.99) == 7


@pytest.mark.parametrize(("ours", "holds"), [(0.8, True), (0.81, False)])
def test_a_goal_is_a_share_of_the_limit(ours: float, holds: bool) -> None:
    assert against_limit("id", "what", "ms", ours, 1.0, 0.8).holds is holds


@pytest.mark.parametrize(("ours", "holds"), [(5.0, True), (5.1, False)])
def test_a_goal_can_stand_alone(ours: float, holds: bool) -> None:
    assert at_most("id", "what", "ms", ours, 5).holds is holds


@pytest.mark.parametrize(("ours", "holds"), [(50.0, True), (49.9, False)])
def test_more_can_be_better(ours: float, holds: bool) -> None:
    assert at_least_share("id", "what", "lines/s", ours, 100, 0.5).holds is holds


def test_the_first_row_holds_only_where_all_do() -> None:
    good, bad, open_ = (at_most("a", "", "ms", 1, 2), at_most("b", "", "ms", 3, 2), Row("c", "", "ms", 1.0))
    assert [row.holds for row in all_hold([good, open_])] == [True, None]
    assert [row.holds for row in all_hold([good, bad, open_])] == [False, False, None]


def test_the_files_are_what_programs_read(tmp_path: Path) -> None:
    row = against_limit("e2e-x", "what", "ms", 1.0, 2.0, 0.8)
    write(tmp_path, "e2e-x", [row], {"ours": [1.0]})
    assert json.loads((tmp_path / "e2e-x.json").read_text()) == [
        {
            "id": "e2e-x",
            "what": "what",
            "unit": "ms",
            "ours": 1.0,
            "peer": None,
            "limit": 2.0,
            "goal": 0.8,
            "holds": True,
        }
    ]
    assert json.loads((tmp_path / "e2e-x.samples.json").read_text()) == {"ours": [1.0]}


def test_an_id_stands_once(tmp_path: Path) -> None:
    row = Row("e2e-x", "what", "ms", 1.0)
    with pytest.raises(ValueError, match="twice"):
        write(tmp_path, "e2e-x", [row, row], {})


def test_the_table_shows_what_is_missing_as_a_dash_and_a_missed_goal_in_capitals() -> None:
    text = table([Row("a", "no limit", "ms", 1.0), against_limit("b", "missed", "ms", 2.0, 1.0, 0.8)])
    assert [line.split() for line in text.splitlines()[1:]] == [
        ["a", "1", "-", "-", "ms", "-", "-", "-", "no", "limit"],
        ["b", "2", "-", "1", "ms", "2", "0.8", "NO", "missed"],
    ]


def test_the_limit_of_a_trivial_call_is_a_fork_and_the_clients_own_time() -> None:
    decided, shown = rows({"ours": [2.0] * 10, "fork": [1.0] * 10, "floor": [1.5] * 10})
    assert (decided.id, decided.limit, decided.holds) == ("e2e-trivial-call", 2.5, True)
    assert (shown.id, shown.limit, shown.holds) == ("e2e-trivial-call-p99", 2.5, None)


def test_a_request_is_whole_with_its_last_frame() -> None:
    greeting = b"\xff" + b"\0" * 63
    ready = b"\x04\x02ab"
    long_frame = b"\x03" + (300).to_bytes(8, "big") + b"f" * 300
    request = greeting + ready + b"\x01\x00" + b"\x01\x03tok" + long_frame + b"\x00\x02()"
    assert whole_request(request)
    assert not any(whole_request(request[:length]) for length in range(len(request)))
