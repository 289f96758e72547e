"""Finding one's way in a log: from an offset, or a time, to a place in a segment's file."""
