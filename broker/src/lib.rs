//! The broker: where everything meets.
//!
//! [`main`] reads the settings, chooses processors, starts the log, asks the kernel whether it will
//! do (`probe`), takes the data directory, and then runs one pinned thread per core (`core_task`).
//! A control thread beside them serves HTTP and hears signals; the main thread waits for what they
//! tell it (`boot`) and brings everything to an end (`shutdown`).
//!
//! [`engine`] is a core's storage alone, for `felix-log bench`.

mod announce;
mod blocking;
mod boot;
mod catalog_file;
mod catalog_state;
mod check;
mod clock;
mod collect;
mod control;
mod core_task;
mod cpus;
mod crash;
mod credentials;
mod data_dir;
mod dev;
mod device_waiters;
mod door;
pub mod engine;
mod executor;
mod exposition;
mod file_fault;
mod given_file;
mod giving_way;
mod handshakes;
mod http;
mod identity;
mod kafka_core;
mod listeners;
mod logging;
mod mailbox;
mod ports;
mod probe;
mod prober;
mod quotas;
mod readiness;
mod reload;
mod rfc3339;
mod serve;
mod settings;
mod shutdown;
mod state_error;
mod state_text;
mod stream_dirs;
mod sweep;
mod tls_files;
mod tls_source;
mod token_auth;
mod token_file;
mod tokens;
mod troubles;

pub use boot::main;
