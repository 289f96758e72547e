"""Changes of who votes, one at a time (KIP-853): AddRaftVoter (80), RemoveRaftVoter (81), UpdateRaftVoter (82).

A set is effective as soon as it is appended. Two sets that follow each other differ in one voter, so every majority of
one has a voter of every majority of the other; therefore no set is appended while the one before may still be undone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidelog.config.feature_levels import KRAFT_VERSION
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import NO_ID, Time, is_any_address
from tidelog.quorum.options import Options
from tidelog.quorum.outbox import VOTES, Outbox
from tidelog.quorum.replica import Replica
from tidelog.quorum.requests import LeaderAndEpoch
from tidelog.quorum.states import Leader
from tidelog.quorum.voters import ReplicaKey, VoterSet, voter_record
from tidelog.wire.messages.cluster.features import ApiVersionsRequest
from tidelog.wire.messages.cluster.metadata_log import KRaftVersionFeature, Voter, VoterEndpoint
from tidelog.wire.messages.cluster.quorum_voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    CurrentLeader,
    Listener,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from tidelog.wire.messages.cluster.quorum_voters import KRaftVersionFeature as SupportedVersions

VERSIONS, UPDATE = "versions", "update"
"""What requests are about: the versions of a new voter, and the endpoints of a voter."""
CAUGHT_UP_WITHIN_MS = 3_600_000
VoterRequest = AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest

_SENTENCES = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "This controller is not the leader of the metadata quorum.",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "The request is for another cluster.",
    ErrorCode.REQUEST_TIMED_OUT: "Another change of the voters is not committed yet, or this change timed out.",
    ErrorCode.UNSUPPORTED_VERSION: "Voters can be changed from kraft.version 1 on; upgrade the feature kraft.version.",
    ErrorCode.DUPLICATE_VOTER: "A voter with this node ID exists; remove it first.",
    ErrorCode.VOTER_NOT_FOUND: "There is no such voter, or it is the last one.",
}
_NOT_READY = f"Invalid upgrade of {KRAFT_VERSION} to 1 because not all of the voters support it"
_NO_KEY = "The voter needs a node ID, a directory ID and an endpoint on the controllers' listener."
_ANY_ADDRESS = (
    "Nobody can connect to the voter at {}, which opens all addresses; set advertised.listeners of the controller to "
    "the address by which it is reached."
)
_UNREACHABLE = "The new voter did not answer; check that it is running and that its controller listener is reachable."
_NO_VERSION = "The new voter does not support kraft.version 1."
_BEHIND = "The new voter has not caught up with the leader within the last hour; retry once it has caught up."


@dataclass(slots=True)
class Pending:
    """A change in progress. `offset` is that of its set, once that was appended."""

    token: int
    request: AddRaftVoterRequest | RemoveRaftVoterRequest
    deadline: int
    offset: int = -1


class VoterChanges:
    """The changes at one leader. `append` appends a set and returns its offset."""

    def __init__(
        self, replica: Replica, outbox: Outbox, options: Options, append: Callable[[VoterSet, Time], int]
    ) -> None:
        self._replica = replica
        self._outbox = outbox
        self._options = options
        self._append = append
        self._pending: Pending | None = None

    def __repr__(self) -> str:
        return f"VoterChanges({self._pending})"

    @property
    def deadline(self) -> int | None:
        return self._pending.deadline if self._pending is not None else None

    def endpoints(self, node: int) -> list[VoterEndpoint]:
        """Where the node is reached, if it is to be added now."""
        pending = self._pending
        if pending is None or not isinstance(pending.request, AddRaftVoterRequest) or pending.request.voter_id != node:
            return []
        return _endpoints(pending.request)

    def _check(self, *, in_office: bool) -> ErrorCode:
        """Whether a change may begin."""
        replica = self._replica
        if self._pending is not None or not in_office:
            return ErrorCode.REQUEST_TIMED_OUT
        if replica.kraft_versions.latest == 0:
            return ErrorCode.UNSUPPORTED_VERSION
        is_committed = max(replica.voters.latest_offset, replica.kraft_versions.latest_offset) < replica.high_watermark
        return ErrorCode.NONE if is_committed else ErrorCode.REQUEST_TIMED_OUT

    def upgrade(self, state: Leader, me: ReplicaKey, now: Time, *, in_office: bool, validate_only: bool) -> None:
        """Append the static voters with their directories, which are known once each of them fetched in this epoch.
        ApiError if one did not."""
        if self._replica.kraft_versions.latest > 0:
            return
        if not in_office:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT)
        static = self._replica.voters.latest
        known = {key.id: progress.directory for key, progress in state.replicas.items()} | {me.id: me.directory}
        if missing := [str(node) for node in static.ids if known.get(node, NO_ID) == NO_ID]:
            raise ApiError(
                ErrorCode.INVALID_UPDATE_VERSION, f"{_NOT_READY}: start the controllers {', '.join(missing)} first"
            )
        voters = VoterSet.of(
            voter_record(ReplicaKey(record.voter_id, known[record.voter_id]), record.endpoints)
            for record in static.records
        )
        if not validate_only:
            state.rename(voters)
            self._append(voters, now)

    def add(self, token: int, request: AddRaftVoterRequest, now: Time, *, in_office: bool) -> None:
        """Begin to add a voter, whose versions are requested first."""
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        if key.id < 0 or key.directory == NO_ID or not request.listeners:
            self._answer(token, request, ErrorCode.INVALID_REQUEST, _NO_KEY)
            return
        if everywhere := _of_any_address(request):
            self._answer(token, request, ErrorCode.INVALID_REQUEST, _ANY_ADDRESS.format(everywhere))
            return
        code = self._check(in_office=in_office)
        if code == ErrorCode.NONE and key.id in self._replica.voters.latest.ids:
            code = ErrorCode.DUPLICATE_VOTER
        if code != ErrorCode.NONE:
            self._answer(token, request, code)
            return
        self._pending = Pending(token, request, now.mono + max(request.timeout_ms, 0))
        versions = ApiVersionsRequest(client_software_name="tidelog", client_software_version="0")
        self._outbox.ask(key.id, versions, VOTES, (VERSIONS, key.id, token))

    def versions(self, about: tuple[Any, ...], response: Any, state: Leader | None, now: Time) -> None:
        """The new voter answered, or cannot be reached (None)."""
        pending = self._pending
        if pending is None or state is None or about[2] != pending.token or pending.offset >= 0:
            return
        request = pending.request
        assert isinstance(request, AddRaftVoterRequest)
        if response is None:
            self._end(ErrorCode.REQUEST_TIMED_OUT, _UNREACHABLE)
            return
        supported = _kraft_versions(response)
        if supported is None or not supported.min_supported_version <= 1 <= supported.max_supported_version:
            self._end(ErrorCode.INVALID_REQUEST, _NO_VERSION)
            return
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        progress = state.replicas.get(key)
        if progress is None or progress.caught_up_at < now.mono - CAUGHT_UP_WITHIN_MS:
            self._end(ErrorCode.REQUEST_TIMED_OUT, _BEHIND)
            return
        # It becomes one of those that must be heard of: its time begins now.
        progress.fetched_at = now.mono
        record = Voter(
            voter_id=key.id,
            voter_directory_id=key.directory,
            endpoints=_endpoints(request),
            k_raft_version_feature=supported,
        )
        pending.offset = self._append(self._replica.voters.latest.changed(record), now)
        if not request.ack_when_committed:
            self._end(ErrorCode.NONE)

    def remove(self, token: int, request: RemoveRaftVoterRequest, now: Time, *, in_office: bool) -> None:
        """Remove a voter. It may be the leader, which goes on, without counting itself, until that is committed."""
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        if key.id < 0 or key.directory == NO_ID:
            self._answer(token, request, ErrorCode.INVALID_REQUEST, _NO_KEY)
            return
        code, voters = self._check(in_office=in_office), self._replica.voters.latest
        if code == ErrorCode.NONE and (key not in voters or len(voters) == 1):
            code = ErrorCode.VOTER_NOT_FOUND
        if code != ErrorCode.NONE:
            self._answer(token, request, code)
            return
        self._pending = Pending(token, request, now.mono + self._options.request_timeout_ms)
        self._pending.offset = self._append(voters.without(key.id), now)

    def update(self, request: UpdateRaftVoterRequest, now: Time, *, in_office: bool) -> ErrorCode:
        """A voter says where it is reached. The answer does not wait until that is committed."""
        key, feature = ReplicaKey(request.voter_id, request.voter_directory_id), request.k_raft_version_feature
        is_range = 0 <= feature.min_supported_version <= feature.max_supported_version
        if key.id < 0 or key.directory == NO_ID or not request.listeners or not is_range or _of_any_address(request):
            return ErrorCode.INVALID_REQUEST
        code = self._check(in_office=in_office)
        if code != ErrorCode.NONE:
            return code
        if not feature.min_supported_version <= 1 <= feature.max_supported_version:
            return ErrorCode.INVALID_REQUEST
        voters = self._replica.voters.latest
        if key not in voters:
            return ErrorCode.VOTER_NOT_FOUND
        record = Voter(
            voter_id=key.id,
            voter_directory_id=key.directory,
            endpoints=_endpoints(request),
            k_raft_version_feature=KRaftVersionFeature(
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            ),
        )
        if voters.record_of(key.id) != record:
            self._append(voters.changed(record), now)
        return ErrorCode.NONE

    def update_own(self, me: ReplicaKey, endpoints: list[VoterEndpoint], now: Time, *, in_office: bool) -> None:
        """The leader is reached elsewhere than the set says: it cannot send an UpdateRaftVoter to itself."""
        voters = self._replica.voters.latest
        record = voters.record_of(me.id) if endpoints and voters.directories and me in voters else None
        is_other = record is not None and record.endpoints != endpoints
        if (
            is_other
            and not any(is_any_address(each.host) for each in endpoints)
            and self._check(in_office=in_office) == ErrorCode.NONE
        ):
            self._append(voters.changed(voter_record(me, endpoints)), now)

    def act(self, now: Time) -> None:
        """Answer a change that is committed, or whose time is over; its set may be committed later."""
        pending = self._pending
        if pending is None:
            return
        if 0 <= pending.offset < self._replica.high_watermark:
            self._end(ErrorCode.NONE)
        elif now.mono >= pending.deadline:
            self._end(ErrorCode.REQUEST_TIMED_OUT)

    def stop(self) -> None:
        """It leads no more."""
        if self._pending is not None:
            self._end(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def refuse(self, token: int, request: VoterRequest, code: ErrorCode, standing: LeaderAndEpoch) -> None:
        """Another node leads, or the request is for another cluster."""
        if isinstance(request, UpdateRaftVoterRequest):
            self.answer_update(token, code, standing)
        else:
            self._answer(token, request, code)

    def answer_update(self, token: int, code: ErrorCode, standing: LeaderAndEpoch) -> None:
        leader = CurrentLeader(leader_id=standing.leader, leader_epoch=standing.epoch)
        self._outbox.reply(token, UpdateRaftVoterResponse(error_code=code, current_leader=leader))

    def _end(self, code: ErrorCode, sentence: str = "") -> None:
        pending, self._pending = self._pending, None
        assert pending is not None
        self._answer(pending.token, pending.request, code, sentence)

    def _answer(
        self, token: int, request: AddRaftVoterRequest | RemoveRaftVoterRequest, code: ErrorCode, sentence: str = ""
    ) -> None:
        response = AddRaftVoterResponse if isinstance(request, AddRaftVoterRequest) else RemoveRaftVoterResponse
        message = None if code == ErrorCode.NONE else sentence or _SENTENCES.get(code, code.name)
        self._outbox.reply(token, response(error_code=code, error_message=message))


def update_request(
    cluster_id: str, me: ReplicaKey, epoch: int, endpoints: list[VoterEndpoint]
) -> UpdateRaftVoterRequest:
    from_log = [Listener(name=each.name, host=each.host, port=each.port) for each in endpoints]
    return UpdateRaftVoterRequest(
        cluster_id=cluster_id,
        current_leader_epoch=epoch,
        voter_id=me.id,
        voter_directory_id=me.directory,
        listeners=from_log,
        k_raft_version_feature=SupportedVersions(max_supported_version=1),
    )


def _endpoints(request: AddRaftVoterRequest | UpdateRaftVoterRequest) -> list[VoterEndpoint]:
    return [VoterEndpoint(name=each.name, host=each.host, port=each.port) for each in request.listeners]


def _of_any_address(request: AddRaftVoterRequest | UpdateRaftVoterRequest) -> str:
    """The first endpoint that names no machine, so that clients would connect to themselves; '' if there is none."""
    found = (f"{each.host}:{each.port}" for each in request.listeners if is_any_address(each.host))
    return next(found, "")


def _kraft_versions(response: Any) -> KRaftVersionFeature | None:
    """The versions of kraft.version that a node supports, by its answer to ApiVersions."""
    if response.error_code != ErrorCode.NONE:
        return None
    for feature in response.supported_features:
        if feature.name == KRAFT_VERSION:
            return KRaftVersionFeature(
                min_supported_version=feature.min_version, max_supported_version=feature.max_version
            )
    return None
