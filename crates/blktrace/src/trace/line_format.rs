//! blkparse's format strings: `%` field specifiers with a width, and a few escapes.
//!
//! What does not belong here: writing events in such a format (see [`crate::events::format`]) and
//! reading them (see [`super::text_events`]).

/// The reason why a format string is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatError {
    /// A backslash before something else than `b`, `n`, `r`, `t`.
    #[error("failed to read the format: \\{0} is no escape\nhint: use \\b \\n \\r \\t")]
    Escape(char),
    /// A field is missing without which lines tell no event.
    #[error(
        "failed to read lines of this format: it has no {0}\nhint: an event needs at least its \
         action (%a), direction (%d), time (%T and %t), sector (%S) and size (%n or %N)"
    )]
    Missing(&'static str),
}

/// A part of a format string.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    /// Text that is printed as it is.
    Text(Vec<u8>),
    /// A field.
    Field { letter: u8, width: usize, has_width: bool, left: bool },
}

/// A format string that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventFormat(Vec<Piece>);

impl EventFormat {
    /// The widest column that a width makes.
    const MAX_WIDTH: usize = 4096;

    /// Reads `text`.
    ///
    /// # Errors
    /// Fails if the text has an escape that does not exist.
    pub fn parse(text: &str) -> Result<EventFormat, FormatError> {
        let (mut pieces, mut literal) = (Vec::new(), Vec::new());
        let mut rest = text.as_bytes();
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            match first {
                b'%' => match after.split_first() {
                    None => literal.push(b'%'),
                    Some((b'%', after)) => {
                        literal.push(b'%');
                        rest = after;
                    }
                    Some(_) => {
                        let (piece, after) = field(after);
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                        pieces.extend(piece);
                        rest = after;
                    }
                },
                b'\\' => {
                    literal.push(escape(after.first().copied())?);
                    rest = after.get(1..).unwrap_or(&[]);
                }
                other => literal.push(*other),
            }
        }
        pieces.push(Piece::Text(literal));
        Ok(EventFormat(pieces))
    }

    /// The text and the fields in order.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.0
    }
}

fn escape(letter: Option<u8>) -> Result<u8, FormatError> {
    match letter {
        Some(b'b') => Ok(8),
        Some(b'n') => Ok(b'\n'),
        Some(b'r') => Ok(b'\r'),
        Some(b't') => Ok(b'\t'),
        other => Err(FormatError::Escape(other.map_or(' ', char::from))),
    }
}

/// Parses the field after a `%`.
fn field(text: &[u8]) -> (Option<Piece>, &[u8]) {
    let left = text.first() == Some(&b'-');
    let text = if left { text.get(1..).unwrap_or(&[]) } else { text };
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at(digits);
    let width = number.iter().fold(0usize, |sum, digit| {
        sum.saturating_mul(10).saturating_add(usize::from(digit - b'0')).min(EventFormat::MAX_WIDTH)
    });
    match rest.split_first() {
        Some((letter, rest)) => {
            let (letter, has_width) = (*letter, digits > 0);
            (Some(Piece::Field { letter, width, has_width, left }), rest)
        }
        None => (None, rest),
    }
}
