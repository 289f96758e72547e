"""The checks can fail: brokers that are broken on purpose are caught, and the invariant that is broken is named."""

from tidelog.log.producers import Producers
from tidelog.partition.leader import Leader
from tidelog.partition.progress import committed_offset
from tidelog.partition.truncation import HIGH_WATERMARK, KIP_320
from tidelog.sim.run import run_seed

SEEDS = range(30)
KINDS = ("kill", "session", "isolate", "reset", "pause")


def caught(*, generation=KIP_320):
    for seed in SEEDS:
        outcome = run_seed(seed, KINDS, 20, generation)
        if not outcome.ok:
            return outcome.violation.splitlines()[-1]
    return ""


def test_truncation_to_the_high_watermark_is_caught():
    assert caught(generation=HIGH_WATERMARK).startswith(("I20", "I9", "I10", "I4", "I5", "I17"))


def test_a_high_watermark_over_the_committed_isr_only_is_caught(monkeypatch):
    def narrow(self, current, end, now, lag_ms, eligible):
        return committed_offset(current, end, (p.log_end_offset for r, p in self.remote.items() if r in self.isr))

    monkeypatch.setattr(Leader, "high_watermark", narrow)
    assert caught().startswith(("I7", "I9"))


def test_a_leader_that_forgets_what_producers_sent_is_caught(monkeypatch):
    monkeypatch.setattr(Producers, "check", lambda self, *arguments, **options: None)
    assert caught().startswith("I26")


def test_an_unbroken_cluster_passes_the_same_seeds():
    assert [run_seed(seed, KINDS, 20).violation for seed in SEEDS[:5]] == [""] * 5
