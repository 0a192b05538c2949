//! The name that was probably meant.

/// The known name nearest to `name`: one that has it whole, or else the one that takes the fewest
/// changes to reach; the first of equals. Panics without a known name.
pub(super) fn nearest<T: AsRef<str>>(name: &str, known: impl IntoIterator<Item = T>) -> T {
    let distance = |known: &T| {
        let known = known.as_ref();
        // Changes alone would take --print for a slip in --rack, and not for --print-config.
        let is_cut_short = name.len() >= PART_CHARS_MIN && known.contains(name);
        (!is_cut_short, strsim::damerau_levenshtein(known, name))
    };
    known
        .into_iter()
        .min_by_key(distance)
        .expect("there are names to choose from")
}

/// Fewer letters stand in too many names.
const PART_CHARS_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_understood() {
        let known = ["log", "log_format", "cores"];
        assert_eq!(nearest("lgo", known), "log");
        assert_eq!(nearest("log_fromat", known), "log_format");
        assert_eq!(nearest("cors", known), "cores");
    }

    #[test]
    fn a_part_of_a_name_stands_for_the_shortest_name_that_has_it() {
        let known = [
            "rack",
            "print-config",
            "kafka-core-port-base",
            "kafka-core-ports",
        ];
        assert_eq!(nearest("print", known), "print-config");
        assert_eq!(nearest("core-port", known), "kafka-core-ports");
    }
}
