//! What is offered, and how it is timed.
//!
//! A `Pace` says when each request is due, whatever became of the ones before; a `worker` on its
//! pinned thread sends each when it is due and counts its latency from that moment. What is sent
//! are `Batches` made beforehand; `round::take` lets the workers run and watches the machine
//! meanwhile.

mod batches;
mod chance;
mod join;
mod link;
mod pace;
mod reader;
mod recorder;
pub(crate) mod round;
mod steal;
mod stop;
mod waits;
mod work;
mod worker;

pub(crate) use batches::Batches;
pub use batches::{Contents, Recipe};
pub(crate) use chance::PartitionChooser;
pub use chance::{Keys, Sizes, Skew};
pub(crate) use link::Link;
pub use pace::Arrivals;
pub(crate) use pace::Pace;
pub(crate) use reader::{Cursor, Reader};
pub(crate) use recorder::Recorder;
pub use round::{Job, Timing, Watched};
pub use stop::Stop;
pub(crate) use waits::EARLY;
pub use waits::Waiting;
pub use work::Brought;
pub(crate) use work::{Answers, Asker, Asking, Identity, Place, Until, Work};
