"""A node of a metadata quorum: what it finds in its folder, and how folders of one machine are made."""
