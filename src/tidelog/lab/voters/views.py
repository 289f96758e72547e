"""What a voter has, read from the bytes on its machine's disk, and the state of the running replica."""

from tidelog.lab.playback import RecordView, ReplicaView
from tidelog.lab.views import DOWN, in_folder
from tidelog.lab.voters.world import VoterWorld
from tidelog.model import NO_LEADER
from tidelog.ports import Create
from tidelog.quorum.committed_file import load_committed
from tidelog.quorum.control_records import control_of
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.records import TreeChanges, decode
from tidelog.quorum.state_file import ElectionState, load_state
from tidelog.quorum.states import Leader
from tidelog.quorum.voters import VoterSet
from tidelog.sim.quorum.machines import FOLDER, Machine
from tidelog.wire import records
from tidelog.wire.messages.cluster.metadata_log import KRaftVersionRecord, LeaderChangeMessage, VotersRecord

OBSERVER = "observer"


def voters(world: VoterWorld) -> list[ReplicaView]:
    """Return the view of every machine."""
    return [voter(world, machine) for machine in world.machines]


def voter(world: VoterWorld, machine: Machine) -> ReplicaView:
    machine.disk.quiet = True
    try:
        found = records_on(world, machine)
        quorum = machine.quorum
        if quorum is not None:
            return _running(world, machine, quorum, found)
        end = found[-1].offset + 1 if found else 0
        committed = load_committed(machine.disk, FOLDER)
        view = _view(world, machine, DOWN, load_state(machine.disk, FOLDER), found)
        view.leo, view.hw = end, min(committed.high_watermark, end)
        return view
    finally:
        machine.disk.quiet = False


def _running(world: VoterWorld, machine: Machine, quorum: Quorum, found: list[RecordView]) -> ReplicaView:
    role = type(quorum.state).__name__.lower() if quorum.is_voter else OBSERVER
    view = _view(world, machine, role, quorum.election, found)
    view.leo, view.hw = quorum.replica.end, quorum.replica.high_watermark
    view.voters = names_of(world, quorum.voters)
    if isinstance(quorum.state, Leader):
        view.remote = {world.names[key.id]: progress.end for key, progress in sorted(quorum.state.replicas.items())}
    return view


def _view(
    world: VoterWorld, machine: Machine, role: str, election: ElectionState, found: list[RecordView]
) -> ReplicaView:
    return ReplicaView(
        broker=world.names[machine.id],
        alive=role != DOWN,
        role=role,
        leader_epoch=election.epoch,
        log_start=0,
        leo=0,
        hw=0,
        records=found,
        voted=world.names[election.voted.id] if election.voted.id != NO_LEADER else "",
    )


def names_of(world: VoterWorld, voter_set: VoterSet) -> list[str]:
    return [world.names[voter_id] for voter_id in voter_set.ids]


def records_on(world: VoterWorld, machine: Machine) -> list[RecordView]:
    return in_folder(machine.disk, FOLDER, lambda record, batch: _label(world, record, batch))


def _label(world: VoterWorld, record: records.Record, batch: records.BatchHeader) -> str:
    """A written value's name; of control records who leads, who votes, and the version of the quorum."""
    if batch.is_control:
        match control_of(record):
            case LeaderChangeMessage() as change:
                return f"{world.names[change.leader_id]} leads"
            case VotersRecord() as change:
                return "".join(world.names[each.voter_id] for each in change.voters)
            case KRaftVersionRecord() as change:
                return f"v{change.k_raft_version}"
        return "?"
    found = decode(record.value or b"")
    if isinstance(found, TreeChanges) and isinstance(found.changes[0], Create):
        return found.changes[0].path.removeprefix("/")
    return type(found).__name__
