//! How many files and sockets this process may have open.

use crate::problem::Problem;
use rustix::process::{Resource, getrlimit, setrlimit};

/// Open files of our own beside those asked for.
const OURS: usize = 100;

/// Raises the limit as far as it goes without rights.
///
/// # Errors
/// So far it does not hold `wanted` files.
pub fn raise(wanted: usize) -> Result<(), Problem> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)
        .map_err(|error| Problem::new(format!("the limit of open files stays: {error}")))?;
    let needed = u64::try_from(wanted.saturating_add(OURS)).unwrap_or(u64::MAX);
    match limit.maximum {
        Some(maximum) if maximum < needed => Err(Problem::new(format!(
            "{needed} open files are needed and {maximum} are allowed; raise the limit with \
             `ulimit -n {needed}`, or ask for fewer connections"
        ))),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_refused_with_the_way_to_get_it() {
        raise(10).unwrap();
        if getrlimit(Resource::Nofile).maximum.is_some() {
            let problem = raise(usize::MAX).unwrap_err().to_string();
            assert!(problem.contains("ulimit -n"), "{problem}");
        }
    }
}
