"""The options that hold replication back (KIP-73): which replicas, by topic, and how much, by broker."""

LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LISTS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
RATES = (LEADER_RATE, FOLLOWER_RATE)
