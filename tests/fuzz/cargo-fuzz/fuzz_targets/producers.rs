#![no_main]

use felix_fuzz::{Watched, targets};

#[global_allocator]
static MEMORY: Watched = Watched;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    targets::producers::run(data);
});
