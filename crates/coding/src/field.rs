//! The field of 256 elements in which parity is computed.
//!
//! Elements are bytes. The sum of two is their exclusive or, so that each is its own negative. The product is that of polynomials
//! over bits, modulo x^8 + x^4 + x^3 + x^2 + 1, of which the powers of 2 are all elements but zero: the polynomial of RAID-6.

/// What a byte that loses its highest bit by doubling has added to it.
const REDUCTION: u8 = 0x1d;

/// Twice as much.
#[inline(always)]
pub(crate) const fn double(element: u8) -> u8 {
    // An arithmetic shift makes a mask of the highest bit: compilers make one instruction of it for many bytes at a time.
    (element << 1) ^ (((element as i8) >> 7) as u8 & REDUCTION)
}

/// How many elements there are beside zero.
const ORDER: usize = 255;

/// Powers of 2, twice, so that two logarithms can be added.
const POWERS: [u8; 2 * ORDER] = {
    let mut powers = [1; 2 * ORDER];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = double(powers[at - 1]);
        at += 1;
    }
    powers
};

/// Which power of 2 an element is; zero is none.
const LOGARITHMS: [u8; 256] = {
    let mut logarithms = [0; 256];
    let mut at = 0;
    while at < ORDER {
        logarithms[POWERS[at] as usize] = at as u8;
        at += 1;
    }
    logarithms
};

/// That power of 2, for exponents below 255.
pub(crate) const fn power(exponent: usize) -> u8 {
    POWERS[exponent]
}

/// The product.
pub(crate) fn multiply(a: u8, b: u8) -> u8 {
    match (a, b) {
        (0, _) | (_, 0) => 0,
        _ => POWERS[usize::from(LOGARITHMS[usize::from(a)]) + usize::from(LOGARITHMS[usize::from(b)])],
    }
}

/// What times `element` is 1.
///
/// # Panics
/// Of zero: there is none.
pub(crate) fn inverse(element: u8) -> u8 {
    assert!(element != 0, "zero has no inverse");
    POWERS[ORDER - usize::from(LOGARITHMS[usize::from(element)])]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the definition: the product of polynomials, reduced bit by bit.
    fn plain_multiply(a: u8, b: u8) -> u8 {
        let mut product = (0..8)
            .filter(|bit| b >> bit & 1 == 1)
            .fold(0u16, |sum, bit| sum ^ u16::from(a) << bit);
        for bit in (8..16).rev() {
            if product >> bit & 1 == 1 {
                product ^= 0x11d << (bit - 8);
            }
        }
        product as u8
    }

    #[test]
    fn products_are_those_of_polynomials() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(multiply(a, b), plain_multiply(a, b), "{a} * {b}");
            }
            assert_eq!(double(a), plain_multiply(a, 2));
        }
    }

    #[test]
    fn every_element_but_zero_has_an_inverse() {
        for element in 1..=255 {
            assert_eq!(plain_multiply(element, inverse(element)), 1, "{element}");
        }
    }
}
