"""A telling of three steps, of which one message never arrives."""

from tidelog.lab.playback import Message, Playback, RecordView, ReplicaView, Step, Verdict

M1 = RecordView(0, 0, "m1", synced=True)
M2 = RecordView(1, 0, "m2", synced=False)


def replica(broker, role, records, hw, **more):
    return ReplicaView(
        broker, role != "down", role, 0, 0, len(records), hw, records=list(records), epochs=[(0, 0)], **more
    )


def telling(truncation="high_watermark"):
    lost = truncation == "high_watermark"
    ends = [M1] if lost else [M1, M2]
    steps = [
        Step(1, 0.0, "B leads.", "It is the first replica.", [
            replica("broker-0", "follower", [M1], 1),
            replica("broker-1", "leader", [M1], 1, isr=["broker-0", "broker-1"], remote={"broker-0": 1}),
        ]),
        Step(2, 3.5, "B takes m2.", "acks=all waits for A.", [
            replica("broker-0", "follower", [M1], 1),
            replica("broker-1", "leader", [M1, M2], 1, isr=["broker-0", "broker-1"], remote={"broker-0": 1}),
        ], [
            Message("producer", "broker-1", "Produce", "m2", delivered=True),
            Message("broker-1", "broker-0", "Fetch answer", "m2", delivered=False),
        ]),
        Step(3, 9.0, "A leads.", f"It truncates as {truncation} does.", [
            replica("broker-0", "leader", ends, len(ends), isr=["broker-0"]),
            replica("broker-1", "down", [M1, M2], 2),
        ]),
    ]  # fmt: skip
    verdict = Verdict(not lost, [M2] if lost else [], [], ["m2 is gone." if lost else "m2 is there."])
    knobs = {"acks": "all", "truncation": truncation}
    return Playback("loss", "Loss by high watermark", "seed 000, KIP-101", knobs, steps, verdict)
