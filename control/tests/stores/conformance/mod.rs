//! What every store promises, as one suite that runs against any of them.

pub(crate) mod desk;
mod edits;
mod feed;
mod names;
mod restart;

use felix_control::Store;
use std::pin::Pin;
use std::sync::Arc;

/// Where a catalog is kept.
pub(crate) trait Site {
    /// Opens the catalog there, with a window of so many changes. Founds it the first time.
    fn open(&self, window: usize) -> Pin<Box<dyn Future<Output = Arc<dyn Store>> + '_>>;

    /// Whether it can be opened by several at once.
    fn is_shared(&self) -> bool;
}

/// A window that nothing in a case overflows.
pub(crate) const WIDE: usize = 10_000;

/// Runs all cases, each at a site of its own.
pub(crate) async fn run<S: Site>(fresh: impl AsyncFn() -> S) {
    macro_rules! cases {
        ($($module:ident::$case:ident),* $(,)?) => {$(
            eprintln!("case {}", stringify!($case));
            $module::$case(&fresh().await).await;
        )*};
    }
    cases![
        edits::what_was_made_is_seen_by_everybody,
        edits::a_clash_or_an_old_version_is_refused_and_changes_nothing,
        edits::of_edits_based_on_one_version_one_is_made,
        edits::edits_at_once_are_all_made_in_one_order,
        edits::a_proposal_is_made_once_however_often_it_is_brought,
        feed::a_follower_sees_every_change_once_and_has_what_a_snapshot_has,
        feed::who_is_behind_the_window_starts_over,
        feed::a_position_of_another_catalog_is_none_of_this,
        feed::who_waits_is_woken_by_the_next_change,
        names::a_deleted_stream_is_restored_as_it_was,
        names::generations_of_a_name_only_grow,
        restart::all_is_there_after_a_restart_and_goes_on,
        restart::a_window_that_became_smaller_starts_followers_over,
        restart::a_proposal_that_was_made_before_a_restart_is_not_made_again,
    ];
}
