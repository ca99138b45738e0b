"""The parts of the tooling that decide something."""

import json
from pathlib import Path

import pytest

from rexec_e2e import deploy, venvs
from rexec_e2e.client import Answer
from rexec_e2e.environments import conditions_table
from rexec_e2e.errors import E2eError
from rexec_e2e.idp import introspect
from rexec_e2e.steps import eventually
from rexec_e2e.world import column


def test_an_overlay_gets_images_by_registry_and_tag_and_flags_by_deployment(tmp_path: Path) -> None:
    wanted = deploy.Deployment(tmp_path / "overlay", "test", {"rexec-operator": ["--index-url=http://i/"], "other": []})
    references = {"rexec-gateway": "registry.example:5000/team/rexec-gateway:0.1.0-abc"}
    content = deploy.kustomization(tmp_path / "out" / "deep", wanted, references)
    assert content["resources"] == ["../../overlay"]
    assert content["images"] == [
        {"name": "rexec-gateway", "newName": "registry.example:5000/team/rexec-gateway", "newTag": "0.1.0-abc"}
    ]
    (patch,) = content["patches"]
    assert patch["target"] == {"kind": "Deployment", "name": "rexec-operator"}
    (operation,) = json.loads(patch["patch"])
    assert operation["value"] == "--index-url=http://i/"


@pytest.mark.parametrize(
    ("title", "expected"),
    [("NAME", "alice"), ("READY", "False"), ("STATE", ""), ("ACTIVE", "False"), ("AGE", "2m")],
)
def test_a_cell_of_a_table_is_found_by_its_title_even_when_it_is_empty(title: str, expected: str) -> None:
    table = "NAME    READY   STATE     ACTIVE   AGE\nalice   False             False    2m\n"
    assert column(table, title) == expected


def test_the_identity_provider_knows_the_tokens_that_name_somebody() -> None:
    assert introspect(b'{"token": "token-of-alice"}')[1]["sub"] == "alice"
    assert introspect(b'{"token": "token-of-"}')[0] == 401
    assert introspect(b'{"token": "alice"}')[0] == 401
    assert introspect(b'{"token": 1}')[0] == 401
    assert introspect(b"{}")[0] == 400
    assert introspect(b"no json")[0] == 400


def test_conditions_are_a_table_for_people() -> None:
    conditions = [{"type": "Ready", "status": "True", "reason": "Serving", "message": "takes calls"}]
    assert conditions_table({"status": {"conditions": conditions}}).splitlines() == [
        "TYPE   STATUS  REASON   MESSAGE",
        "Ready  True    Serving  takes calls",
    ]
    assert conditions_table(None) == "TYPE  STATUS  REASON  MESSAGE"


def test_waiting_returns_the_first_answer_that_is_true_and_gives_up_in_time() -> None:
    answers = iter([None, 0, "", "yes", "later"])
    assert eventually("something", 5, lambda: next(answers), pause=0) == "yes"
    with pytest.raises(E2eError, match=r"something: not so after 0 s \(last answer: None\)"):
        eventually("something", 0, lambda: None, pause=0)


def test_a_python_that_is_not_there_is_said_in_a_sentence() -> None:
    with pytest.raises(E2eError, match=r"Python 2\.99 is needed"):
        venvs.find_python("2.99", which=lambda _: None)


def test_an_answer_tells_returned_from_raised() -> None:
    assert Answer(0, "", "", [{"returned": "1"}]).returned == "1"
    raised = Answer(0, "", "", [{"raised": "RuntimeError", "message": "no"}])
    assert raised.raised.message == "no"
    with pytest.raises(AssertionError, match="did not return"):
        _ = raised.returned
    with pytest.raises(AssertionError, match="not one"):
        _ = Answer(0, "", "", []).one
    with pytest.raises(AssertionError, match="exit status 1"):
        Answer(1, "out", "err").ok()
