//! The control plane: what streams there are, who changed it, and who is told.
//!
//! [`catalog`] is what there is, [`rules`] what may be done to it: pure, and the same for every
//! store. Every change has a [`Sequence`] in one total order, and a [`Store`] keeps the changes and
//! hands them on. `docs/decisions/0017-catalog-stores.md` says why it is made that way.

pub mod catalog;
pub mod change;
pub mod edit;
pub mod embedded;
pub mod limits;
pub mod postgres;
pub mod refusal;
pub mod rules;
pub mod spelling;
pub mod store;
mod view;
mod window;

pub use change::{Change, Op, Sequence, Version};
pub use edit::{Edit, EditId, Proposal};
pub use embedded::EmbeddedStore;
pub use postgres::PostgresStore;
pub use refusal::Refusal;
pub use store::{CatalogId, CommitError, Committed, Page, Position, Snapshot, Store, StoreError};
