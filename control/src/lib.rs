//! The control plane: what streams there are, who changed it, and who is told.
//!
//! [`catalog`] is what there is, [`rules`] what may be done to it: pure, and the same wherever it is
//! kept. Every change has a [`Sequence`] in one total order.

pub mod catalog;
pub mod change;
pub mod edit;
pub mod limits;
pub mod refusal;
pub mod rules;
pub mod spelling;

pub use change::{Change, Op, Sequence, Version};
pub use edit::{Edit, EditId, Proposal};
pub use refusal::Refusal;
