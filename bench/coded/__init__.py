"""The parts of bench/coding.py: what erasure coding saves and costs, beside the same cluster without it."""
