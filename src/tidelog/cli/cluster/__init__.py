"""Commands on the cluster as a whole: finalized features, the metadata quorum."""
