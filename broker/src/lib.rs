//! The broker: where everything meets.
