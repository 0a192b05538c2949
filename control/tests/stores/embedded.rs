//! The embedded store: what every store promises, and what becomes of its file.

use crate::conformance::{self, Site, WIDE};
use felix_control::embedded::{EmbeddedOptions, EmbeddedStore};
use felix_control::{Store, StoreError};
use felix_core::Timestamp;
use std::fs;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.path().join("catalog.redb")
    }
}

fn open(file: &Path, window: usize) -> Result<EmbeddedStore, StoreError> {
    let now = Timestamp(1_796_083_200_000);
    EmbeddedStore::open(file, EmbeddedOptions { now, window })
}

impl Site for Folder {
    fn open(&self, window: usize) -> Pin<Box<dyn Future<Output = Arc<dyn Store>> + '_>> {
        Box::pin(async move {
            let store: Arc<dyn Store> = Arc::new(open(&self.file(), window).unwrap());
            store
        })
    }

    fn is_shared(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn the_embedded_store_conforms() {
    conformance::run(async || Folder::new()).await;
}

#[tokio::test]
async fn a_file_that_is_in_use_is_refused_with_who_has_it() {
    let folder = Folder::new();
    let first = open(&folder.file(), WIDE).unwrap();
    let refusal = open(&folder.file(), WIDE).unwrap_err().to_string();
    assert!(
        refusal.contains("catalog.redb is in use by another process"),
        "{refusal}"
    );
    drop(first);
    open(&folder.file(), WIDE).unwrap();
}

#[tokio::test]
async fn a_file_that_is_something_else_is_refused_and_left_as_it_is() {
    let folder = Folder::new();
    fs::write(
        folder.file(),
        "[[stream]]\nname = \"clicks\"\n".repeat(1000),
    )
    .unwrap();
    let before = fs::read(folder.file()).unwrap();
    assert!(open(&folder.file(), WIDE).is_err());
    assert_eq!(fs::read(folder.file()).unwrap(), before);
    let missing = folder.0.path().join("none/catalog.redb");
    let refusal = open(&missing, WIDE).unwrap_err().to_string();
    assert!(refusal.contains("none/catalog.redb"), "{refusal}");
}
