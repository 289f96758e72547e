"""Whole seeds: a drawn world, drawn faults, then everything must come right; and seeds that once found a bug.

In drawn seeds `explain` must name the faults that stand when the faults end, and none when everything is healed.
"""

import pytest

from tests.hash_seeds import outputs_under_two_hash_seeds
from tests.simulation.explaining import Explained
from tidelog.sim.plan import Plan, dice_of
from tidelog.sim.run import run, run_timed
from tidelog.sim.workload import CLIENTS, LATER

DRAWN, SEEDS, STANDARD, CHUNK = 1000, 200, 25, 5
"""The first drawn seed, how many there are, how many of them the standard selection runs, and how many a test runs."""

QUORUM, QUORUM_SEEDS = 22_000_000, 20
"""The first seed whose brokers may keep the metadata themselves, and how many of these run here."""

SLOW_FOLDERS = range(24_000_000, 24_000_006)
"""Seeds of which half have replicas that are not durable yet."""

PARTS = ("transactions", "compaction", "moves")
"""Parts that the first of these seeds did not have yet."""

KEPT = {
    2: "a caught-up follower of an idle partition never rejoined the ISR",
    4: "a partition folder whose topic id was torn by a power loss kept its broker from starting",
    26: "a follower whose fetch waited for its fsync woke without end",
    51: "the last high watermark was lost when an fsync ended while a fetch was under way",
    66: "a follower that had lost its power was taken back into the ISR unseen, and then led",
    85: "a controller that resigned woke without end for log ends that nobody asked for any more",
    127: "a broker that registered anew was proposed for the ISR with its old epoch for ever",
    147: "with a flush for every message the leader sent the same records again and again",
    480: "a new producer's later batch was taken first: allowed, as in Kafka",
    2043: "a folder that refused at start brought the broker down with it",
    2175: "a read that failed within a fetch brought the broker down with it",
    8042: "records below min stayed uncommitted though the ISR had grown, until the next append",
    8063: "a high watermark that came with a diverging answer was never told again",
    9055: "a group's offset could not be read for a high watermark that nobody tried again",
    30394: "a log that begins where an unclean leader's ends already asked without end, and then went on behind a gap",
}


WHOLE = {
    50440: "a registration reached the store when its broker had lost its power: what it shows is of the life before",
    100027: "epochs were cut with a deletion that a crash forgot; a cut below the recovery point was forgotten by a kill",
    100299: "an emptied marker says nothing of its producer, as in Kafka",
    102112: "producers whose records retention had deleted were forgotten by a kill, and their retries taken twice",
    210984: "a cut that a kill left unsynced was undone by a power loss in a later life: nothing stood behind it",
    211494: "the same, and the life between was over before its first step",
    210966: "a fetch of a life that was over came late, and its epoch was proposed for the in-sync set for ever",
    211231: "producers whose records had been deleted by an operator were forgotten by a truncation",
    2000862: "what compaction had hidden from the check was taken for truncated below what was committed",
    2000872: "a transaction that began below the log's start is open only to those who held its beginning",
    2000920: "changes of in-sync sets waited behind hundreds of operators' wishes at a slow store",
    2001056: "a replica that was moved away stayed, where the broker was told all before it knew who leads",
    2001317: "a fetch that came before its leader knew of its role waited for old records, and nobody noted its place",
    2001391: "an unclean election of a broker whose log was not seen was held to what was committed",
    400018: "the fault of rot looked for a batch in the torn end that an earlier fault had left",
    300363: "a lost answer, given again, jumped over the leader's new replicas, and the move hung",
    211258: "nobody need hold what was acknowledged of a topic that is being deleted",
    3000783: "a batch that a full disk refused left a log that was to begin inside it ending below its start",
    3001108: "a new controller counts whoever shows a clean end: what that life had fetched is there still",
    3001945: "a guest's question came late, when the broker it pretends to be had become a replica",
    3002114: "two changes of an in-sync set reached their leader in one step, and the first let the watermark move",
    3007787: "a compacted log was cut between two of its records, and ends there, as Kafka's does",
    3002052: "a log's start within a batch, to which its high watermark was raised: what is deleted is not compared",
    3007110: "a follower keeps what it has below its leader's start, of a leader whose records were lost",
    3007302: "an unclean election while a member was away again was held to what that one has",
    3007037: "a leader that nobody had told of its successor went on with all its followers, and they compacted",
    3000347: "a log whose records were all deleted forgot its last epoch with a kill, and one that lacked its end led",
    3006238: "a log that was cut back to where its leader's begins, inside a batch, could never take that batch",
    3008221: "a position in a topic that was gone became one in the next of its name, whose epochs never reached its own",
    3006191: "what a life told of its full folder was said of the next one, which was passed over in an election",
    3002826: "a life whose disk refused it at once left the proof of the clean end before it",
    3001604: "a coordinator that had lost its log, as it may, ended anew what it had ended",
    3009822: "a leader told the end of its log, and appended, before it heard that it leads no more",
    5000019: "a producer sent a new leader more batches than it knows again, while the old one owed answers for the first",
    5000471: "a transaction that began by a clock far ahead was open for as long",
    5001087: "whoever was woken when all was healed lost its session later, as if it had slept on",
    5002626: "who was a replica before an unclean election and came back as none was held to what was committed since",
    6000747: "what was deleted before a follower started over was sent again, and held to its first place",
    7007281: "an election for what a life had told was held to what the next life of that broker had left",
    7005616: "what of a compacted log was left by a cut, and read again, was taken for appended",
    7003055: "a follower that started over where its leader begins was held to what that had deleted",
    6003126: "a position in a topic that was gone was asked for by name, and became one in the next of its name",
    6002950: "a broker led on in a topic that had moved elsewhere and then gone while it was away",
    101013: "a compacted log proves nothing of what was committed below",
}
"""Found with transactions, compaction and moves."""

NEWEST = {
    30330: "an answer to what was produced was waited for before an operator was asked for a leader",
    30094: "an empty consumer group became a classic one, and counted its generations from the start, as in Kafka",
    10407: "a core was waited for though an operator was, too: no in-sync replica had the log directories that it had",
    20071: "static members went on with what a rebalance in two steps had left them, as in Kafka",
    1007069: "a static leader assigned before it heard of the topic, and who came back for it goes on so, as in Kafka",
    381: "of an old producer only a marker was replayed, and what the log knows of it was held against that",
}
"""Found with all parts."""


ALL = {
    1002574: "in-sync sets that changed without end at a slow store kept a topic from being created",
    1004095: "a partition that nobody led has no offsets, and nobody was reached who could say so",
    1009414: "a leader whose replica had moved to another folder forgot its own epoch, and a follower was never cut",
    1009640: "with one log folder nobody looked after a partition whose only in-sync disk had been replaced",
    1003593: "the same, where the disk had been replaced with the loss of power after a log end was reported",
    100033: "a copy of a compacted replica in another log folder took its epochs to begin where its records do",
    110128: "who missed another log folder was not asked, and a log that a loss of power had shortened led",
    300113: "a replica whose log folder had failed was taken back into the in-sync set, and failed within a step",
    700036: "a reader was sent to a follower that its metadata lacked, and asked its leader without end",
    100122: "a partition whose only member may have been in a folder that is gone waits for an operator",
    110069: "a success came when its leader was a follower already, with a lower high watermark",
    110189: "a partition that never had a leader has no first offset, and a consumer's look-up runs out of time",
    111311: "a leader that had deleted the beginning of a transaction was more stable than the next one",
    1004741: "a replica made anew beside a log folder that was away, in a step nobody saw the end of, was no prefix of it",
    1004913: "an operator took a nameless leftover of a loss of power for a replica, and removed the real one for it",
    1005554: "a batch for a partition that came to be led while the coordinator was asked for others began a transaction",
    1007374: "a producer that had sent nothing asked for a new epoch, again at a coordinator that forgot, and was fenced",
    1004516: "a static member whose double was dead had its place back under its old id, and was held to be replaced",
    1005566: "a copier was away until all members of its group were fenced, and the group without positions was deleted",
    1005629: "the same, of members that asked who had been their coordinator, until the positions had expired",
    1006689: "a group became a classic one while a member still waited for a partition, which it was never given",
}
"""Found with all parts and kinds that there were."""

ELIGIBLE = {
    21002284: "the epoch since which a log directory is missing was lost on its way to the store, and nobody could lead",
    22020104: "messages later than a quorum waits for its leader kept a topic from being created before any fault",
    22020288: "the same kept brokers from being registered all at once, with sessions of two seconds",
    22100209: "a transaction coordinator that was replaced unknowingly refused an epoch that its successor had given",
    22500021: "the core that had to suffice was without the only voter of the metadata quorum",
}
"""Found with eligible leader replicas, or brokers that keep the metadata."""

SHORT = {
    Plan(23002774, seconds=12, kinds=("eligible_replicas", "kill", "power_loss"), brokers=3): (
        "a consumer group without members expired, and what its next life owned was held against the one before"
    ),
}
"""Found with few kinds of faults, in a shorter time."""

NOT_YET = ("old-consumers",)
"""What came after those."""


@pytest.mark.parametrize("seed", sorted(KEPT))
def test_a_seed_that_once_found_a_bug_passes(seed):
    outcome = run(Plan(seed, without=(*PARTS, *LATER)))
    assert outcome.ok, outcome.violation


@pytest.mark.parametrize("seed", sorted(WHOLE))
def test_a_seed_that_found_a_bug_with_transactions_and_compaction_passes(seed):
    outcome = run(Plan(seed, without=LATER))
    assert outcome.ok, outcome.violation


@pytest.mark.parametrize("seed", sorted(NEWEST))
def test_a_seed_that_found_a_bug_with_new_kinds_of_clients_passes(seed):
    outcome = run(Plan(seed, without=tuple(part for part in LATER if part not in CLIENTS)))
    assert outcome.ok, outcome.violation


@pytest.mark.parametrize("seed", sorted(ALL))
def test_a_seed_that_found_a_bug_with_all_that_came_later_passes(seed):
    outcome = run(Plan(seed, without=NOT_YET))
    assert outcome.ok, outcome.violation


@pytest.mark.parametrize("seed", sorted(ELIGIBLE))
def test_a_seed_that_found_a_bug_with_eligible_replicas_or_a_quorum_passes(seed):
    outcome = run(Plan(seed))
    assert outcome.ok, outcome.violation


@pytest.mark.parametrize("plan", SHORT, ids=lambda plan: plan.seed)
def test_a_short_seed_that_found_a_bug_passes(plan):
    outcome = run(plan)
    assert outcome.ok, outcome.violation


def check_explained(seed):
    explained = Explained()
    outcome = run_timed(Plan(seed), explained.watch)
    assert outcome.ok, outcome.violation
    explained.check_health()
    assert not explained.missed, "explain did not name a standing fault"
    assert not explained.wrong, "explain found a problem in a healed cluster"
    return outcome


def check_seeds(first):
    outcomes = [check_explained(seed) for seed in range(first, first + CHUNK)]
    assert any(outcome.acked for outcome in outcomes)


@pytest.mark.parametrize("first", range(DRAWN, DRAWN + STANDARD, CHUNK))
def test_drawn_seeds_pass(first):
    check_seeds(first)


@pytest.mark.parametrize("first", range(DRAWN + STANDARD, DRAWN + SEEDS, CHUNK))
def test_more_drawn_seeds_pass(first):
    check_seeds(first)


def test_the_same_seed_gives_the_same_digest_whatever_the_hash_seed():
    script = (
        "from tidelog.sim.plan import Plan\n"
        "from tidelog.sim.run import run\n"
        "for seed in (3, 7):\n"
        "    outcome = run(Plan(seed, seconds=8))\n"
        "    print(outcome.digest, outcome.violation)\n"
    )
    outputs = outputs_under_two_hash_seeds(script)
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0].split())) == 2


def test_seeds_pass_whose_replicas_exist_before_they_are_durable():
    seeds = [seed for seed in SLOW_FOLDERS if dice_of(seed, "slow-folders") is not None]
    assert seeds, "half of them have slow folders"
    for seed in seeds:
        outcome = run_timed(Plan(seed))
        assert outcome.ok, outcome.violation


@pytest.mark.parametrize("first", range(QUORUM, QUORUM + QUORUM_SEEDS, CHUNK))
def test_seeds_whose_brokers_keep_the_metadata_pass(first):
    seeds = [seed for seed in range(first, first + CHUNK) if dice_of(seed, "quorum") is not None]
    assert seeds, "half of them have a metadata quorum"
    for seed in seeds:
        assert check_explained(seed).counts["quorum.state"] > 0
