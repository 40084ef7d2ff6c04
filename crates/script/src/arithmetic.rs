//! Arithmetic as Lua 5.1 has it.

/// `a % b`, with the sign of `b`.
pub(crate) fn modulo(a: f64, b: f64) -> f64 {
    a - (a / b).floor() * b
}

/// What is done with two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Minus,
}

impl Arithmetic {
    pub(crate) fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Mul => a * b,
            Self::Div => a / b,
            Self::Mod => modulo(a, b),
            Self::Pow => libm::pow(a, b),
            Self::Minus => -a,
        }
    }
}
