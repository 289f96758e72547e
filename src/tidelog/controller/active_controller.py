"""What a leading controller does with each input: commands into the journal, pushes out, answers back.

Requests become commands. A finished command is answered at once or, where clients would look for the effect, when the
brokers have received it (`Settling`), bounded by the request's own timeout.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidelog.controller import tree
from tidelog.controller.commands import configs
from tidelog.controller.commands.acls import create_acls, delete_acls, describe_acls
from tidelog.controller.commands.config_changes import notice_configs
from tidelog.controller.commands.configs import alter_quotas
from tidelog.controller.commands.delegation_tokens import create_token, expire_token, remove_expired_tokens, renew_token
from tidelog.controller.commands.deletion import Deletions, delete_as_written, delete_topics, remove_topics
from tidelog.controller.commands.elections import (
    LogEnds,
    elect_as_written,
    elect_most_complete,
    elect_on_request,
    rebalance,
)
from tidelog.controller.commands.extension import create_partitions
from tidelog.controller.commands.features import update_features
from tidelog.controller.commands.isr import alter_partitions
from tidelog.controller.commands.liveness import (
    find_replicas,
    lose_replicas,
    notice_brokers,
    notice_log_folders,
    shut_down,
    unregister,
)
from tidelog.controller.commands.reassignment import (
    alter_reassignments,
    begin_requested,
    finish_moves,
    list_reassignments,
)
from tidelog.controller.commands.scram_credentials import alter_scram_credentials
from tidelog.controller.commands.topics import create_topics
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.journal import Command, Steps
from tidelog.controller.loading import load
from tidelog.controller.state import Topic
from tidelog.effects import Effect, Reply, Store
from tidelog.errors import ErrorCode
from tidelog.model import Time, earliest
from tidelog.ports import Delete, Read, StoreResult
from tidelog.wire.messages.cluster.alter_partition import AlterPartitionRequest
from tidelog.wire.messages.cluster.brokers import ControlledShutdownRequest, UnregisterBrokerRequest
from tidelog.wire.messages.cluster.client_quotas import AlterClientQuotasRequest
from tidelog.wire.messages.cluster.features import UpdateFeaturesRequest
from tidelog.wire.messages.configs.alter_configs import AlterConfigsRequest
from tidelog.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from tidelog.wire.messages.security.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from tidelog.wire.messages.security.delegation_tokens import (
    CreateDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from tidelog.wire.messages.security.scram_credentials import AlterUserScramCredentialsRequest
from tidelog.wire.messages.topics.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from tidelog.wire.messages.topics.topic_changes import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from tidelog.wire.refusals import refuse

SETTLE_MS = 2000
"""The longest time that an answer waits until brokers have received the change."""


@dataclass(slots=True)
class Settling:
    """An answer that waits until `brokers` have received all pushes and `topics` are deleted (or only dead brokers are
    missing)."""

    token: int
    response: Any
    deadline: int
    brokers: set[int]
    topics: list[Topic]


OF_REPLICATION = (AlterPartitionRequest, ControlledShutdownRequest)


class ActiveController:
    def __init__(self, term: ControllerTerm, last_token: int, now: Time) -> None:
        self.term = term
        self.last_token = last_token
        self.logs = LogEnds()
        self.deletions = Deletions()
        self.requests: dict[int, Any] = {}
        self.settling: list[Settling] = []
        self.store_token = 0
        self.rebalance_at: int | None = None
        self.sweep_at: int | None = None
        """When expired tokens are removed next."""
        self.out: list[Effect] = []
        self.commands: dict[type, tuple[str, Callable[[Any], Steps[Any]]]] = {
            AlterPartitionRequest: ("alter partition", lambda r: alter_partitions(term, r)),
            ControlledShutdownRequest: ("controlled shutdown", lambda r: shut_down(term, self.logs, r)),
            CreateTopicsRequest: ("create topics", lambda r: create_topics(term, r)),
            CreatePartitionsRequest: ("create partitions", lambda r: create_partitions(term, r)),
            DeleteTopicsRequest: ("delete topics", lambda r: delete_topics(term, self.deletions, r)),
            AlterClientQuotasRequest: ("alter quotas", lambda r: alter_quotas(term, self.logs, r)),
            AlterUserScramCredentialsRequest: (
                "alter SCRAM credentials",
                lambda r: alter_scram_credentials(term, self.logs, r),
            ),
            DescribeAclsRequest: ("describe ACLs", describe_acls),
            CreateAclsRequest: ("create ACLs", lambda r: create_acls(term, r)),
            DeleteAclsRequest: ("delete ACLs", lambda r: delete_acls(term, r)),
            CreateDelegationTokenRequest: ("create token", lambda r: create_token(term, r)),
            RenewDelegationTokenRequest: ("renew token", lambda r: renew_token(term, r)),
            ExpireDelegationTokenRequest: ("expire token", lambda r: expire_token(term, r)),
            AlterConfigsRequest: ("alter configs", lambda r: configs.replace(term, self.logs, r)),
            IncrementalAlterConfigsRequest: (
                "alter configs",
                lambda r: configs.alter_incrementally(term, self.logs, r),
            ),
            ElectLeadersRequest: ("elect leaders", lambda r: elect_on_request(term, self.logs, r)),
            AlterPartitionReassignmentsRequest: (
                "reassign",
                lambda r: alter_reassignments(term, self.logs, self.deletions, r),
            ),
            UnregisterBrokerRequest: ("unregister broker", lambda r: unregister(term, self.deletions, r)),
            UpdateFeaturesRequest: ("update features", lambda r: update_features(term, self.logs, r)),
            ListPartitionReassignmentsRequest: ("list reassignments", lambda r: list_reassignments(term, r)),
        }
        self._at(now)
        self._load()

    def __repr__(self) -> str:
        return f"ActiveController({self.term} {self.deletions})"

    @property
    def deposed(self) -> bool:
        return self.term.journal.deposed

    def handle(self, token: int, request: Any, now: Time) -> None:
        self._at(now)
        name, steps = self.commands[type(request)]
        self.requests[token] = request
        self.term.run(name, partial(steps, request), token=token, urgent=type(request) in OF_REPLICATION)

    def store_result(self, token: int, result: StoreResult, now: Time) -> None:
        self._at(now)
        if token == self.store_token:
            self.store_token = 0
            self.term.journal.result(result, now.mono)

    def store_event(self, path: str, now: Time) -> None:
        self._at(now)
        if _at_or_below(path, tree.BROKER_IDS):
            self._run_once("brokers", self._notice_brokers)
        elif _at_or_below(path, tree.LOG_DIR_EVENTS):
            self._run_once("log folders", lambda: notice_log_folders(self.term))
        elif path != tree.CONFIG and _at_or_below(path, tree.CONFIG_CHANGES):  # that is what the mirror here watches
            self._run_once("configs", lambda: notice_configs(self.term, self.logs))
        elif _at_or_below(path, tree.REASSIGN_PARTITIONS):
            self._run_once("reassignment requests", lambda: begin_requested(self.term))
        elif _at_or_below(path, tree.PREFERRED_ELECTION):
            self._run_once("preferred", lambda: elect_as_written(self.term, self.logs))
        elif _at_or_below(path, tree.DELETE_TOPICS):
            self._run_once("marks", lambda: delete_as_written(self.term, self.deletions))

    def answered(self, token: int, response: Any, now: Time) -> None:
        self._at(now)
        if token in self.logs.flights:
            known = self.logs.answered(token, response, now.mono)
            if known:
                self.term.run("most complete log", lambda: elect_most_complete(self.term, self.logs, known))
            return
        answered = self.term.pushes.answered(token, response, now.mono)
        if answered is None:
            return
        if answered.failed:
            if answered.code == ErrorCode.STALE_CONTROLLER_EPOCH:
                self._run_once("step down", self._step_down)
        elif answered.kind == "deletions":
            self.deletions.answered(answered)
        elif answered.kind == "roles":
            self._notice_lost(answered.broker, answered.partitions, answered.errors)

    def wake(self, now: Time) -> None:
        self._at(now)
        self.term.journal.wake(now.mono)
        if self.rebalance_at is not None and now.mono >= self.rebalance_at:
            self.rebalance_at = None
            self._run_once("rebalance", lambda: rebalance(self.term))
        if self.sweep_at is not None and now.mono >= self.sweep_at:
            self.sweep_at = None
            self._run_once("sweep tokens", lambda: remove_expired_tokens(self.term))

    @property
    def next_deadline(self) -> int | None:
        term = self.term
        settled = [settling.deadline for settling in self.settling] if self.settling else ()
        return earliest(
            term.now.mono if term.journal.is_paused else None,
            term.journal.retry_at,
            term.pushes.next_deadline,
            self.logs.retry_at,
            self.rebalance_at,
            self.sweep_at,
            *settled,
        )

    def end(self) -> list[Effect]:
        """Resignation: undecided requests are for another controller; decided ones are answered."""
        replies: list[Effect] = [Reply(settling.token, settling.response) for settling in self.settling]
        replies += [Reply(token, refuse(request, ErrorCode.NOT_CONTROLLER)) for token, request in self.requests.items()]
        return replies

    def pump(self) -> None:
        """Advance everything that can advance, after every input."""
        journal, term = self.term.journal, self.term
        while not journal.deposed:
            if journal.stale:
                journal.stale = False
                self._load()
            operations = journal.take()
            if operations is not None:
                self.last_token += 1
                self.store_token = self.last_token
                self.out.append(Store(self.store_token, operations))
            finished, journal.finished = journal.finished, []
            for command, answer in finished:
                self._finish(command, answer)
            if term.loaded and term.arrived and not journal.has("finish moves"):
                term.run("finish moves", lambda: finish_moves(term, self.deletions))
            done = self.deletions.ready() if term.loaded else []
            if done:
                term.run("remove topics", partial(remove_topics, term, done))
            if not finished and not done and not journal.stale:
                break
        if term.loaded and not journal.deposed:
            self._send()
            self._settle()

    def drain(self) -> list[Effect]:
        out = self.term.effects + self.out
        self.term.effects, self.out = [], []
        return out

    def _at(self, now: Time) -> None:
        self.term.now = now

    def _load(self) -> None:
        self.term.loaded = False
        self.term.run("load", lambda: load(self.term, self.logs, self.deletions), first=True)

    def _run_once(self, name: str, start: Callable[[], Steps[Any]]) -> None:
        """Reactions go before requests; one that waits already will see the newest state."""
        if not self.term.journal.has(name) and not self.term.journal.has("load"):
            self.term.run(name, start, first=True)

    def _notice_brokers(self) -> Steps[None]:
        came = yield from notice_brokers(self.term, self.logs)
        self.deletions.brokers_came(self.term, came)

    def _step_down(self) -> Steps[None]:
        """A broker refuses the pushes of this term. Either another controller leads, which the check before every
        change detects; or the broker accepted a push with this term's epoch and a number that was never sent. A higher
        epoch is accepted whatever its numbers, so the node is removed, and the next term begins, here or elsewhere."""
        (node,) = yield [Read(tree.CONTROLLER)]
        if node is not None:
            yield [Delete(tree.CONTROLLER, node.version)]

    def _notice_lost(self, broker: int, partitions: Any, errors: dict[Any, int]) -> None:
        """In the order of the answers, which are of this life of the broker; and before in-sync changes that depend on
        replicas being back."""
        term, live = self.term, self.term.cluster.brokers[broker]
        lost = [
            p for p in partitions if errors.get(p.name) == ErrorCode.KAFKA_STORAGE_ERROR and broker not in p.offline
        ]
        is_pending = term.journal.has("lost replicas")
        if lost:
            term.run("lost replicas", lambda: lose_replicas(term, self.logs, live, lost), urgent=True)
        found = [p for p in partitions if p.name not in errors and (is_pending or broker in p.offline)]
        if found:
            term.run("found replicas", lambda: find_replicas(term, self.logs, live, found), urgent=True)

    def _send(self) -> None:
        for source in (self.term.pushes, self.logs):
            requests = source.take(self.term.now.mono, self.last_token + 1)
            self.last_token += len(requests)
            self.out += requests

    def _finish(self, command: Command, answer: Any) -> None:
        if command.name in ("load", "rebalance"):
            self._plan_rebalance()
        if command.name in ("load", "sweep tokens"):
            self._plan_sweep()
        if command.token is None:
            return
        request = self.requests.pop(command.token)
        if answer is None:
            answer = refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR)
        timeout_ms = _settle_ms(request)
        if timeout_ms <= 0:
            self.out.append(Reply(command.token, answer))
            return
        topics = self._going(answer) if isinstance(answer, DeleteTopicsResponse) else []
        queues = self.term.pushes.queues
        busy = {broker for broker, queue in queues.items() if not queue.idle}
        self.settling.append(Settling(command.token, answer, self.term.now.mono + timeout_ms, busy, topics))

    def _plan_rebalance(self) -> None:
        config = self.term.config
        if config.auto_leader_rebalance_enable:
            self.rebalance_at = self.term.now.mono + config.leader_imbalance_check_interval_seconds * 1000

    def _plan_sweep(self) -> None:
        if self.term.cluster.tokens.is_enabled:
            self.sweep_at = self.term.now.mono + self.term.config.delegation_token_expiry_check_interval_ms

    def _going(self, answer: DeleteTopicsResponse) -> list[Topic]:
        ids = {result.topic_id for result in answer.responses if not result.error_code}
        return [topic for topic in (*self.deletions.remaining, *self.deletions.moving) if topic.id in ids]

    def _settle(self) -> None:
        if not self.settling:
            return
        queues, now = self.term.pushes.queues, self.term.now.mono
        busy = {broker for broker, queue in queues.items() if not queue.idle}
        still: list[Settling] = []
        for settling in self.settling:
            settling.brokers &= busy
            while settling.topics and not self._awaits(settling.topics[-1]):
                settling.topics.pop()  # one is enough to wait for: this is done after every input
            if (settling.brokers or settling.topics) and now < settling.deadline:
                still.append(settling)
                continue
            settling.topics = [topic for topic in settling.topics if self._awaits(topic)]
            _mark_late(settling)
            self.out.append(Reply(settling.token, settling.response))
        self.settling = still

    def _awaits(self, topic: Topic) -> bool:
        if self.term.cluster.topics.get(topic.name) is not topic:
            return False
        return not self.deletions.held_up(topic, self.term.cluster.lives)


def _at_or_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/") or root.startswith(path.rstrip("/") + "/")


def _settle_ms(request: Any) -> int:
    if isinstance(request, UpdateFeaturesRequest):
        return 0 if request.validate_only else min(request.timeout_ms, SETTLE_MS)
    if isinstance(request, DeleteTopicsRequest):
        return request.timeout_ms
    if isinstance(request, CreateTopicsRequest | CreatePartitionsRequest) and not request.validate_only:
        return min(request.timeout_ms, SETTLE_MS)
    return 0


def _mark_late(settling: Settling) -> None:
    """Topics that are not gone in time, although brokers that live hold them, are answered so."""
    late = {topic.id for topic in settling.topics}
    for result in settling.response.responses if late else ():
        if result.topic_id in late:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
