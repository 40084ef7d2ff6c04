//! What a node keeps on disk.
