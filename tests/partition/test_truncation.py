"""Where a follower cuts, by generation (rule 5)."""

from tidelog.partition.truncation import KIP_101, KIP_279, KIP_320, EpochEnd, Truncation


def cut(leader, own, generation, end=10, start=0, high_watermark=3):
    return generation.truncation(EpochEnd(*leader), EpochEnd(*own), end=end, start=start, high_watermark=high_watermark)


def test_the_same_epoch_cuts_at_the_earlier_end_and_is_settled():
    assert cut((4, 7), (4, 10), KIP_320) == Truncation(7, completed=True)
    assert cut((4, 12), (4, 9), KIP_320) == Truncation(9, completed=True)


def test_an_epoch_that_the_follower_does_not_have_cuts_to_its_own_older_one_and_asks_again():
    assert cut((4, 7), (2, 5), KIP_320) == Truncation(5, completed=False)


def test_kip_101_believes_the_offset_alone():
    assert cut((4, 7), (2, 5), KIP_101) == Truncation(7, completed=True)
    assert cut((4, 7), (2, 5), KIP_279) == Truncation(5, completed=False)


def test_a_leader_that_knows_no_epoch_leaves_the_high_watermark():
    assert cut((-1, -1), (-1, -1), KIP_320) == Truncation(3, completed=True)


def test_nothing_is_cut_below_the_log_start():
    assert cut((4, 2), (4, 10), KIP_320, start=5) == Truncation(5, completed=True)
