"""Pipeline *mirror*: topics of one cluster to another, each record once, and the groups' offsets translated.

`pipeline` has the two stages. A record goes to the partition of its own number, with a header that holds its offset at
home; as a partition is written in order, these rise with the offsets there, and `places` finds an offset of home by
halving. `offsets` reads what groups have committed at home and commits what that means on the other side. A copy has
the time of its copying; its time at home is in a second header.
"""
