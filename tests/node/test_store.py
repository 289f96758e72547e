"""The node's side of the metadata store: requests while there is no session, and unknown outcomes."""

from tests.node.one_broker import OneBroker
from tidelog.controller import tree
from tidelog.effects import Store
from tidelog.node.store import StoreCalls
from tidelog.ports import Create, Read, StoreResult


def test_without_a_session_nothing_is_submitted_again_and_again():
    out = []
    calls = StoreCalls(out.append)
    calls.session_started()
    answers = []

    def again(result):
        answers.append(result.outcome)
        if result.outcome != "ok":
            calls.submit([Read("/config")], again)

    calls.submit([Read("/config")], again)
    assert len(out) == 1
    calls.session_lost()
    assert answers == ["unknown"]
    assert len(out) == 1, "it waits for the next session"
    calls.session_started()
    assert len(out) == 2
    calls.result(out[-1].token, StoreResult("ok", (None,)))
    assert answers == ["unknown", "ok"]


def test_a_failed_folder_is_told_to_the_controller_until_it_is_known_to_be():
    broker = OneBroker(folders=("/data", "/other"))
    broker.store_answers = False
    broker.give("disk_failed", 0, "/data", "EIO")
    first = broker.stores.pop()
    assert is_notice(first)
    broker.give("store_result", first.token, StoreResult("unknown"))
    second = broker.stores.pop()
    assert is_notice(second)
    broker.give("store_result", second.token, StoreResult("ok", (None,)))
    assert not broker.stores


def is_notice(store):
    (operation,) = store.operations
    return isinstance(store, Store) and isinstance(operation, Create) and operation.path.startswith(tree.LOG_DIR_EVENTS)
