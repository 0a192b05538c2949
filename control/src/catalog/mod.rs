//! What there is: records of eight kinds, each under its key, and the [`State`] they make up.

pub mod assignment;
pub mod cache;
pub mod floor;
pub mod host_port;
pub mod name;
pub mod namespace;
pub mod node;
pub mod quota;
pub mod record;
pub mod retention;
pub mod settings;
pub mod state;
pub mod stream;
pub mod tenant;

pub use assignment::Assignment;
pub use cache::Cache;
pub use floor::Floor;
pub use host_port::HostPort;
pub use name::{
    CacheName, CachePath, NameError, NamespaceName, NamespacePath, StreamName, StreamPath,
    TenantName,
};
pub use namespace::Namespace;
pub use node::{Node, NodeError};
pub use quota::{PublishBudget, Quota};
pub use record::{Key, Record};
pub use retention::{RetentionBound, RetentionPolicy};
pub use settings::{Consistency, Delivery, DurabilityPolicy, Kind, StreamSettings};
pub use state::{Entry, State};
pub use stream::{Deletion, Stream};
pub use tenant::Tenant;
