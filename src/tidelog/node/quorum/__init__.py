"""What connects the metadata quorum with the node. Start from `member.QuorumMember`.

With a quorum no `Store` effect leaves the node. The quorum's log is applied to a copy of the tree on every node
(`local_tree`), which answers queries and watches. Changes go to the leader as MetadataWrite (`tree_writes`), are judged
when they are applied, on every node alike, and answered where they came from once applied there. The leader also
decides how long sessions last (`office`), and its node is the active controller.
"""
