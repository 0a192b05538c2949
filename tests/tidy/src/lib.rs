//! Style and structure, kept by tests.
