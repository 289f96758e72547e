"""Where a follower cuts, by generation (rule 5)."""

from tidelog.partition.truncation import KIP_101, KIP_279, KIP_320, Cut, EpochEnd


def cut(leader, own, generation, end=10, start=0, high_watermark=3):
    return generation.cut_point(EpochEnd(*leader), EpochEnd(*own), end=end, start=start, high_watermark=high_watermark)


def test_the_same_epoch_cuts_at_the_earlier_end_and_is_settled():
    assert cut((4, 7), (4, 10), KIP_320) == Cut(7, settled=True)
    assert cut((4, 12), (4, 9), KIP_320) == Cut(9, settled=True)


def test_an_epoch_that_the_follower_does_not_have_cuts_to_its_own_older_one_and_asks_again():
    assert cut((4, 7), (2, 5), KIP_320) == Cut(5, settled=False)


def test_kip_101_believes_the_offset_alone():
    assert cut((4, 7), (2, 5), KIP_101) == Cut(7, settled=True)
    assert cut((4, 7), (2, 5), KIP_279) == Cut(5, settled=False)


def test_a_leader_that_knows_no_epoch_leaves_the_high_watermark():
    assert cut((-1, -1), (-1, -1), KIP_320) == Cut(3, settled=True)


def test_nothing_is_cut_below_the_log_start():
    assert cut((4, 2), (4, 10), KIP_320, start=5) == Cut(5, settled=True)
