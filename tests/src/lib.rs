//! Whole-broker tests: what they share.
