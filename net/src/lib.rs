//! Transports of one CPU core.
