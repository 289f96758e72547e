"""The console's application on a cluster of this process: what each route tells, and what it refuses."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from tests.console.asking import console, until
from tidelog.console import diagnosis, group_watch, observer
from tidelog.console.routes import ROUTES
from tidelog.shell.transactions import TransactionalProducer
from tidelog.shell.transport import Consumer, Producer
from tidelog.testing import Cluster

HOSTILE = "<img src=x onerror=alert(1)>&\"'\u202e"


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=2) as running:
        running.create_topic("flights", partitions=2, replicas=2)
        with Producer(running.bootstrap) as producer:
            for number in range(20):
                producer.send("flights", b'{"n": %d}' % number, key=b"k%d" % (number % 3), partition=number % 2)
            producer.send(
                "flights", b"=HYPERLINK(1)", key=HOSTILE.encode(), headers=[(HOSTILE, b"\xff\xfe")], partition=0
            )
            producer.flush()
        with Consumer(running.bootstrap, group=HOSTILE, auto_offset_reset="earliest", client_id="c") as consumer:
            consumer.subscribe(["flights"])
            assert consumer.poll(60, 5)
            consumer.commit()
        yield running


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Looks that follow each other at once; the console's own pauses only save work."""
    monkeypatch.setattr(group_watch, "PAUSE_S", 0.05)
    monkeypatch.setattr(observer, "OFFSETS_S", 0.05)
    monkeypatch.setattr(diagnosis, "WATCH_MS", 0)
    monkeypatch.setattr(diagnosis, "PATIENCE_MS", 0)


@asynccontextmanager
async def opened(cluster, **settings):
    async with console(cluster.bootstrap, **settings) as asking:
        yield asking


def test_a_console_without_leave_changes_nothing(cluster):
    async def run():
        async with opened(cluster) as asking:
            for path, route in ROUTES.items():
                if route.changes:
                    answer = await asking.post(path, {"topic": "flights", "confirm": "flights"})
                    assert (answer.status, "--allow-changes" in answer.json["sentence"]) == (403, True), path
                    assert (await asking.get(path, topic="flights")).status == 405, "and never with GET"
            assert (await asking.get("session")).json["allow_changes"] is False

    asyncio.run(run())


def test_nothing_answers_without_the_token(cluster):
    async def run():
        async with opened(cluster, allow_changes=True) as asking:
            for path in ROUTES:
                for answer in (
                    await asking.get(path, {"authorization": None}),
                    await asking.post(path, {}, {"authorization": "Bearer x"}),
                ):
                    assert answer.status == 401
                    assert b"flights" not in answer.body
            for path in ("/", "/main.js", "/console.css", "/lab/page.js"):
                answer = await asking.ask("GET", path, headers={"authorization": None})
                assert answer.status == 200
                assert cluster.bootstrap.encode() not in answer.body
            for path in ("/../server.py", "/%2e%2e/server.py", "/server.py", "/static/main.js", "//etc/passwd"):
                assert (await asking.ask("GET", path)).status == 404

    asyncio.run(run())


def test_wrong_requests_get_a_sentence(cluster):
    async def run():
        async with opened(cluster, allow_changes=True) as asking:
            for answer in (
                await asking.get("nothing"),
                await asking.get("live", watch="x"),
                await asking.get("topics", page="-1"),
                await asking.get("topics", page="many"),
                await asking.get("topics", size="1000000"),
                await asking.get("messages"),
                await asking.get("messages", topic="missing"),
                await asking.get("messages", topic="flights", partition="7"),
                await asking.get("messages", topic="flights", **{"from": "here"}),
                await asking.get("messages", topic="flights", **{"from": "oldest"}, cursor="[1]"),
                await asking.get("messages/search", topic="flights", text="(", regex="true"),
                await asking.get("message", topic="flights", partition="0", offset="999"),
                await asking.get("why", kind="x"),
                await asking.get("configs", kind="topic", name="missing"),
                await asking.post("topics/delete", {"topic": "flights", "confirm": "flight"}),
                await asking.post("topics/create", {"topic": "a/b"}),
                await asking.post("messages/produce", {"topic": "flights", "value": 3}),
                await asking.post("groups/plan-reset", {"group": "x", "scenario": "y"}),
            ):
                assert 400 <= answer.status < 500 or answer.status == 502, answer
                assert len(answer.json["sentence"]) > 10
            broken = await asking.ask(
                "POST", "/api/topics/create", headers={"content-type": "application/json"}, body=b"{"
            )
            assert broken.status == 400

    asyncio.run(run())


def test_topics_partitions_and_replicas(cluster):
    async def run():
        async with opened(cluster) as asking:
            page = await until(
                lambda: asking.get("topics", find="FLI"),
                lambda found: found.json["rows"][0]["records"] == 21,
                "records",
            )
            assert page.json["total"] == 1
            assert page.json["hidden"] == 1, "internal topics are hidden"
            both = (await asking.get("topics", internal="true", sort="partitions", descending="true")).json
            assert [row["name"] for row in both["rows"]] == ["__consumer_offsets", "flights"]
            live = await asking.events(
                "GET", "/api/live", "watch=topic&topic=flights", enough=lambda body: b'"lag":0' in body
            )
            assert live.headers["content-type"].startswith("text/event-stream")
            data = next(line for line in live.body.decode().splitlines() if line.startswith('data: {"topic"'))
            rows = json.loads(data[6:])["rows"]
            assert [row["replicas"][0]["state"] for row in rows] == ["leader", "leader"]
            assert {replica["end"] for replica in rows[0]["replicas"]} <= {11, None}
            options = (await asking.get("configs", kind="topic", name="flights")).json["options"]
            assert {"retention.ms", "cleanup.policy"} <= {each["name"] for each in options}

    asyncio.run(run())


def test_messages_from_every_place(cluster):
    async def run():
        async with opened(cluster) as asking:

            async def read(**values):
                answer = await asking.get("messages", topic="flights", **values)
                assert answer.status == 200, answer
                return answer.json

            newest = await read(limit="5")
            assert len(newest["rows"]) == 5
            everything, cursor = list(newest["rows"]), newest["cursor"]
            while cursor:
                more = await read(limit="5", cursor=json.dumps(cursor))
                everything, cursor = everything + more["rows"], more["cursor"]
            places = [(row["partition"], row["offset"]) for row in everything]
            assert sorted(places) == [(0, n) for n in range(11)] + [(1, n) for n in range(10)], "each once"
            oldest = await read(limit="500", **{"from": "oldest"})
            assert len(oldest["rows"]) == 21
            assert oldest["cursor"] is None
            from_offset = await read(partition="1", offset="7", **{"from": "offset"})
            assert [row["offset"] for row in from_offset["rows"]] == [7, 8, 9]
            from_time = await read(time=str(2**52), **{"from": "time"})
            assert from_time["rows"] == [], "nothing is that new"
            last = next(row for row in oldest["rows"] if row["key"]["text"] == HOSTILE)
            assert last["headers"] == [[HOSTILE, {"size": 2, "base64": "//4=", "cut": False}]]

    asyncio.run(run())


def test_search_finds_by_text_pattern_and_key_within_its_budget(cluster):
    async def run():
        async with opened(cluster) as asking:

            async def search(**values):
                query = "&".join(f"{name}={value}" for name, value in values.items())
                body = (await asking.ask("GET", "/api/messages/search", f"topic=flights&{query}")).body.decode()
                blocks = [block.split("\n", 1) for block in body.split("\n\n") if block]
                found = [row for kind, data in blocks if kind == "event: found" for row in json.loads(data[6:])]
                return found, json.loads(blocks[-1][1][6:])

            found, done = await search(text="%22N%22:%2019")
            assert [row["value"]["text"] for row in found] == ['{"n": 19}']
            assert (done["records"], done["found"], done["stopped_by"]) == (21, 1, None)
            assert len((await search(text="n.*1%5B0-4%5D", regex="true"))[0]) == 5
            assert len((await search(key="k1", everywhere="true"))[0]) == 7
            assert (await search(text="19", where="key"))[0] == []
            _, spent = await search(text="zzz", bytes="1")
            assert spent["stopped_by"] == "bytes"

    asyncio.run(run())


def test_export_is_exact_and_no_formula(cluster):
    async def run():
        async with opened(cluster) as asking:
            lines = (await asking.get("messages/export", topic="flights", format="jsonl")).body.decode().splitlines()
            assert len(lines) == 21
            assert json.loads(lines[0])["headers"] == []
            hostile = next(each for each in map(json.loads, lines) if each["key"] == HOSTILE)
            assert hostile["headers"] == [[HOSTILE, {"base64": "//4="}]]
            table = await asking.get("messages/export", topic="flights", format="csv")
            assert table.headers["content-disposition"] == 'attachment; filename="flights.csv"'
            assert "'=HYPERLINK(1)" in table.body.decode(), "a spreadsheet must not compute it"
            value = await asking.get("message/download", topic="flights", partition="0", offset="10")
            assert value.body == b"=HYPERLINK(1)"
            assert value.headers["content-type"] == "application/octet-stream"

    asyncio.run(run())


def test_changes_with_leave(cluster):
    async def run():
        async with opened(cluster, allow_changes=True) as asking:
            made = await asking.post(
                "topics/create", {"topic": "made", "partitions": 1, "options": {"retention.ms": "60000"}}
            )
            assert made.status == 200, made

            async def retention():
                found = (await asking.get("configs", kind="topic", name="made")).json["options"]
                kept = next(each for each in found if each["name"] == "retention.ms")
                return kept["value"], kept["source"]

            assert await retention() == ("60000", "DYNAMIC_TOPIC_CONFIG")
            altered = {"kind": "topic", "name": "made", "options": {"retention.ms": None}}
            assert (await asking.post("configs/alter", {**altered, "confirm": ""})).status == 400
            assert (await asking.post("configs/alter", {**altered, "confirm": "made"})).status == 200
            await until(retention, lambda kept: kept == ("604800000", "DEFAULT_CONFIG"), "the option to be gone")
            record = {
                "topic": "made",
                "key": {"text": "k"},
                "value": {"base64": "AAH/"},
                "headers": [["h", {"text": "v"}]],
            }
            assert (await asking.post("messages/produce", record)).json["offset"] == 0
            again = {"topic": "made", "partition": 0, "offset": 0, "target": "made"}
            assert (await asking.post("messages/send-again", again)).json["offset"] == 1
            rows = (await asking.get("messages", topic="made")).json["rows"]
            assert [row["value"]["base64"] for row in rows] == ["AAH/", "AAH/"]
            assert (
                await asking.post("topics/partitions", {"topic": "made", "confirm": "made", "partitions": 3})
            ).status == 200
            assert (await asking.post("topics/delete", {"topic": "made", "confirm": "made"})).status == 200
            await until(lambda: asking.get("topic", topic="made"), lambda found: found.status == 404, "it to be gone")

    asyncio.run(run())


def test_groups_with_hostile_names_and_a_reset_after_its_dry_run(cluster):
    async def run():
        async with opened(cluster, allow_changes=True) as asking:
            listed = await until(
                lambda: asking.get("groups"), lambda answer: any(row["lag"] for row in answer.json["rows"]), "a lag"
            )
            assert [row["name"] for row in listed.json["rows"]] == [HOSTILE]
            found = await until(  # on a busy machine a broker may not have said yet where its partitions end
                lambda: asking.get("group", group=HOSTILE),
                lambda answer: all(row["lag"] is not None for row in answer.json["rows"]),
                "the lag of every partition",
            )
            one = found.json
            assert one["group"]["inactive"]
            assert sum(row["lag"] for row in one["rows"]) == 16
            plan = await asking.post("groups/plan-reset", {"group": HOSTILE, "scenario": "to_earliest"})
            rows = plan.json["rows"]
            assert {row["after"] for row in rows} == {0}
            assert sum(row["before"] for row in rows) == 5, "the dry run changes nothing"
            reset = {"group": HOSTILE, "rows": rows}
            assert (await asking.post("groups/reset", {**reset, "confirm": "x"})).status == 400
            assert (await asking.post("groups/reset", {**reset, "confirm": HOSTILE})).status == 200
            after = (await asking.get("group", group=HOSTILE)).json
            assert sum(row["lag"] for row in after["rows"]) == 21

    asyncio.run(run())


def test_why_shows_what_explain_finds(cluster):
    async def run():
        async with opened(cluster) as asking:
            for kind, name in (("cluster", ""), ("topic", "flights"), ("partition", "flights-0"), ("broker", "1")):
                answer = await asking.get("why", kind=kind, name=name)
                assert answer.status == 200, answer
                assert isinstance(answer.json["findings"], list)

    asyncio.run(run())


def test_transactions_open_and_aborted(cluster):
    async def run():
        async with opened(cluster, allow_changes=True) as asking:
            options = {"transactional_id": HOSTILE, "transaction_timeout_ms": 600_000}
            with TransactionalProducer(cluster.bootstrap, **options) as sender:
                sender.begin()
                sender.send("flights", b"open", partition=0)
                await asyncio.to_thread(sender.flush)
                listed = await until(
                    lambda: asking.get("transactions"), lambda found: found.json["rows"], "the transaction"
                )
                (row,) = listed.json["rows"]
                assert (row["id"], row["state"], row["open"], row["partitions"]) == (
                    HOSTILE, "Ongoing", True, ["flights-0"],
                )  # fmt: skip
                (found,) = (await asking.get("transactions/hanging", minutes="0")).json["rows"]
                assert (found["transactional_id"], found["hangs"]) == (HOSTILE, False)
                assert (await asking.post("transactions/abort", {"id": HOSTILE, "confirm": "x"})).status == 400
                assert (await asking.post("transactions/abort", {"id": HOSTILE, "confirm": HOSTILE})).status == 200
                over = await asking.get("transactions")
                assert [row["open"] for row in over.json["rows"]] == [False]
                sender.abandon()
            rows = (await asking.get("messages", topic="flights", partition="0", limit="2")).json["rows"]
            assert rows[0]["control"] == "abort"
            committed = await asking.get("messages", topic="flights", partition="0", limit="1", committed="true")
            assert [row.get("control") for row in committed.json["rows"]] != [None]

    asyncio.run(run())


def test_a_plan_of_moves_is_carried_out_and_quotas_are_set(cluster):
    async def run():
        async with opened(cluster, allow_changes=True) as asking:
            await asking.post("topics/create", {"topic": "moved", "partitions": 1, "replication": 1})
            (before,) = (await asking.get("moves/plan", topic="moved", replicas="0,1")).json["rows"]
            assert before["before"] in ([0], [1])
            assert before["after"] == [0, 1]
            assert (await asking.get("moves/plan", topic="moved", replicas="0,9")).status == 409
            assert (await asking.get("moves/plan", topic="moved|x")).json["rows"] is not None
            assert (
                await asking.post("moves/start", {"rows": [before], "confirm": "move", "throttle": 10**9})
            ).status == 200

            async def replicas():
                data = (await asking.get("moves/plan", topic="moved", replicas="0,1")).json
                return data.get("rows")

            await until(replicas, lambda rows: rows == [], "the move to end")
            assert (await asking.post("moves/cancel", {"confirm": "move"})).status == 200, "it also lifts the limits"
            entity = [{"kind": "clients", "name": HOSTILE}]
            wanted = {"entity": entity, "values": {"producer_byte_rate": 1000}, "confirm": HOSTILE}
            assert (await asking.post("quotas/set", {**wanted, "confirm": ""})).status == 400
            assert (await asking.post("quotas/set", wanted)).status == 200
            found = await until(lambda: asking.get("quotas"), lambda answer: answer.json["rows"], "the quota")
            assert found.json["rows"] == [{"entity": entity, "values": {"producer_byte_rate": 1000.0}}]
            assert (await asking.get("acls")).json["supported"] is False
            assert (await asking.get("users")).status == 200

    asyncio.run(run())


def test_a_topic_page_names_eligible_leader_replicas():
    async def run(cluster):
        async with opened(cluster) as asking:
            live = await asking.events(
                "GET", "/api/live", "watch=topic&topic=few", enough=lambda body: b'"eligible":[1]' in body
            )
            return next(line for line in reversed(live.body.decode().splitlines()) if line.startswith('data: {"topic"'))

    with Cluster(brokers=2, min_insync_replicas=2) as cluster:
        cluster.create_topic("few", partitions=1, replicas=2)
        cluster.stop(1)
        (shown,) = json.loads(asyncio.run(run(cluster))[6:])["rows"]
        assert (shown["isr"], shown["eligible"], shown["last_known"]) == ([0], [1], [])
