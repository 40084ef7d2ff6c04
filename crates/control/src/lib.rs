//! The meta group's state machine, and the reconciler.
