//! Choices that follow from a number: the same number gives the same input on every machine.
//!
//! What does not belong here: the choices themselves.

/// Numbers at which arithmetic ends, and times far from every watch.
const EXTREMES: &[i64] = &[
    0,
    1,
    -1,
    i64::MAX,
    i64::MIN,
    i64::MAX - 1,
    1 << 31,
    (1 << 31) - 1,
    1 << 32,
    1 << 52,
    -(1 << 52),
    1 << 62,
    // Thirty years, and fifty minutes.
    946_080_000_000_000_000,
    3_000_000_000_000,
];

/// Names that hurt a terminal, a page, a shell, a spreadsheet or a parser.
const NAMES: &[&str] = &[
    "",
    "\u{1b}[31m\u{1b}]0;title\u{7}",
    "\u{202e}\u{0}\r\n\t",
    "</script><script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "../../../../etc/passwd",
    "$(touch /tmp/pwned)`id`;[global]",
    "{\"a\": [",
    "\u{10ffff}\u{fffd}\u{301}",
];

/// A generator of numbers that are alike on every machine: SplitMix64, by Sebastiano Vigna.
pub struct Chance(u64);

impl Chance {
    /// The choices of input `number`.
    pub fn for_input(number: u64) -> Chance {
        // Neighbouring numbers begin far apart.
        Chance(number.wrapping_mul(0xd134_2543_de82_ef95))
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One below `bound`; 0 where that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound.max(1) as u64) as usize
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns one of the choices, of which there is at least one.
    pub fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// An extreme number, or any.
    pub fn extreme(&mut self) -> i64 {
        match self.below(4) {
            0 => self.number().cast_signed(),
            _ => *self.one_of(EXTREMES),
        }
    }

    /// A name that hurts; some are very long.
    pub fn name(&mut self) -> String {
        match self.once_in(8) {
            true => (*self.one_of(NAMES)).repeat(1 + self.below(20_000)),
            false => (*self.one_of(NAMES)).to_owned(),
        }
    }
}
