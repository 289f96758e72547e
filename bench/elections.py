"""How long a metadata quorum has no leader: `python -m bench.elections [SEEDS]`, in virtual time.

Each seed kills the active controller of three or five voters (a connection to it is refused), or makes it resign.
Messages take 0.1 to 20 ms one way, an fsync 0.5 to 20 ms. The time ends when the first record of the next leader is
committed.
"""

import sys
from functools import partial
from random import Random

from tidelog.ports import Create
from tidelog.quorum.records import NO_SESSION, TreeChanges, encode
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.quorum.machines import Machine, Network, World

SEEDS = 1_000
KILLED, RESIGNED = "killed", "resigned"


def failover_ms(seed: int, voters: int, how: str) -> float:
    """Milliseconds from the end of one leader to the next one's first commit."""
    random = Random(f"election {seed}")
    keys = [ReplicaKey(number, bytes([7, number]) * 8) for number in range(voters)]
    world = World(random, voters, VoterSet(keys), keys)
    world.restarts = False
    low = random.choice((100, 500, 1_000, 2_000, 5_000, 10_000, 19_000))
    world.network = Network(delay=(100, 20 * MILLI) if seed % 2 else (low, low + 1_000))
    world.sync_delay = (500, random.choice((2, 5, 20)) * MILLI)
    for machine in world.machines:
        world.after(random.randint(0, 300) * MILLI, partial(world.start, machine))
    _until_led(world, 0)
    world.run(random.randint(500, 3_000) * MILLI)
    if seed % 3:
        _write(world, random, 0)
    world.run(random.randint(100, 1_500) * MILLI)
    former = _until_led(world, 0)
    assert former.quorum is not None
    epoch, begun = former.quorum.epoch, world.micros
    if how == RESIGNED:
        world.give(former, "resign")
    else:
        world.kill(former)
        for machine in world.machines:
            # The connection breaks, a new one is tried, and that is refused.
            noticed = sum(random.randint(*world.network.delay) for _ in range(3))
            world.after(noticed, partial(world.give, machine, "gone", former.id))
    _until_led(world, epoch)
    return (world.micros - begun) / MILLI


def _until_led(world: World, after: int) -> Machine:
    """The machine that is in office in an epoch after this one."""
    end = world.micros + 60 * SECOND
    while world.micros < end:
        for machine in world.machines:
            if machine.quorum is not None and machine.quorum.is_in_office and machine.quorum.epoch > after:
                return machine
        world.run(MILLI)
    raise AssertionError("no leader within a minute")


def _write(world: World, random: Random, number: int) -> None:
    for machine in world.machines:
        if machine.quorum is not None and machine.quorum.is_in_office:
            world.give(machine, "append", [encode(TreeChanges(NO_SESSION, 0, (Create(f"/n{number}", b"x"),)))])
    world.after(random.randint(1, 50) * MILLI, partial(_write, world, random, number + 1))


def main() -> None:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
    print("| leader | voters | p50, ms | p99, ms | longest, ms |\n|---|---|---|---|---|")
    for how in (KILLED, RESIGNED):
        for voters in (3, 5):
            found = sorted(failover_ms(seed, voters, how) for seed in range(seeds))
            p50, p99 = found[len(found) // 2], found[len(found) * 99 // 100]
            print(f"| {how} | {voters} | {p50:.0f} | {p99:.0f} | {found[-1]:.0f} |", flush=True)


if __name__ == "__main__":
    main()
