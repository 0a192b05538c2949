//! CRC-32C, and what a change of some bytes does to the checksum of all.
//!
//! A CRC is linear: the checksums of two texts of one length differ by a number that depends only
//! on where and how the texts differ. So the checksum of a patched batch follows from the old one
//! and the patch; the rest of the batch is not read, and damage in it is not blessed.

/// The Castagnoli polynomial, lowest power in the highest bit; the power 32 is implied.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The polynomial 1: lowest power in the highest bit.
pub const ONE: u32 = 1 << 31;

/// `POWERS[k]` is x^(8 * 2^k) modulo the polynomial: the effect of 2^k bytes that follow.
const POWERS: [u32; 32] = powers();

/// The checksum of `bytes`.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// The checksum of a text whose checksum was `crc`, after `change` (the bits that flip) has been
/// applied to a part of it that `following` more bytes follow. O(log `following`).
pub(super) fn checksum_after_change(crc: u32, change: &[u8], following: u32) -> u32 {
    crc ^ multiply(bytes_power(following), linear(change))
}

/// The linear part of the checksum: initial and final inversion left out.
fn linear(change: &[u8]) -> u32 {
    // The crate inverts before and after; starting from all ones undoes the first.
    !crc32c::crc32c_append(u32::MAX, change)
}

/// x^(8 * count) modulo the polynomial.
fn bytes_power(count: u32) -> u32 {
    POWERS
        .iter()
        .enumerate()
        .filter(|(bit, _)| count >> bit & 1 == 1)
        .fold(ONE, |product, (_, power)| multiply(*power, product))
}

/// The product of two polynomials modulo the Castagnoli polynomial. What bytes do to a checksum
/// that come after it is such a factor, and depends on their number alone.
#[must_use]
pub const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut bit = ONE;
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        bit >>= 1;
        b = if b & 1 == 1 {
            (b >> 1) ^ POLYNOMIAL
        } else {
            b >> 1
        };
    }
    product
}

#[expect(
    clippy::indexing_slicing,
    reason = "runs at compile time, over a table of known length"
)]
const fn powers() -> [u32; 32] {
    // x^8, then squares.
    let mut table = [ONE >> 8; 32];
    let mut k = 1;
    while k < table.len() {
        table[k] = multiply(table[k - 1], table[k - 1]);
        k += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn combination_equals_recomputation(
            text in proptest::collection::vec(any::<u8>(), 1..5000),
            at in any::<proptest::sample::Index>(),
            change in proptest::collection::vec(any::<u8>(), 1..40),
        ) {
            let at = at.index(text.len());
            let change: Vec<u8> = change.into_iter().take(text.len() - at).collect();
            let mut changed = text.clone();
            for (byte, flip) in changed.iter_mut().skip(at).zip(&change) {
                *byte ^= flip;
            }
            let following = u32::try_from(text.len() - at - change.len()).unwrap();
            prop_assert_eq!(
                checksum_after_change(checksum(&text), &change, following),
                checksum(&changed)
            );
        }

        #[test]
        fn bytes_that_follow_count_as_in_the_crate(crc: u32, following in 1..u32::MAX) {
            let length = usize::try_from(following).unwrap();
            prop_assert_eq!(
                multiply(bytes_power(following), crc),
                crc32c::crc32c_combine(crc, 0, length)
            );
        }
    }

    #[test]
    fn checksum_is_castagnoli() {
        // The check value of the CRC catalogue; IEEE would give cbf43926 (claim 143).
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
    }
}
