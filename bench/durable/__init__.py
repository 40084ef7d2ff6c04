"""The sections of bench/durability.py: each measures what one of the design's aims of durability is about."""
