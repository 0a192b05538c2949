//! What the corpus begins with: valid inputs of every kind, made by independent implementations
//! where there are any, and the lies that come to mind.

pub mod batches;
pub mod bombs;
pub mod frames;
pub mod logs;
pub mod producers;

/// A named input. [`corpus`](crate::corpus) says what names mean.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seed {
    /// The name of its file.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

impl Seed {
    fn ok(name: impl AsRef<str>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            name: format!("ok-{}", name.as_ref()),
            bytes: bytes.into(),
        }
    }

    fn bad(name: impl AsRef<str>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            name: format!("bad-{}", name.as_ref()),
            bytes: bytes.into(),
        }
    }
}
