//! The style of a screen: its width, colours and characters, and how to choose them.

use std::borrow::Cow;

/// The style in which a screen is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// Width in columns; at least [`Style::MIN_WIDTH`] is assumed.
    pub width: usize,
    /// Whether to colour it with escape sequences.
    pub colour: bool,
    /// Whether non-ASCII characters may be used; if not, those in names are escaped.
    pub unicode: bool,
    /// Rows shown of each table; the remainder is one row.
    pub rows: usize,
}

/// The role of a piece of text, which decides its colour.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Paint {
    /// A figure or a name.
    #[default]
    Plain,
    /// A heading.
    Heading,
    /// Less important: units, explanations, remainders.
    Faint,
    /// Something that needs attention.
    Alert,
}

impl Style {
    /// Minimum width of a screen, columns.
    pub const MIN_WIDTH: usize = 40;
    /// Width if none is known (a pipe or a file), columns.
    pub const DEFAULT_WIDTH: usize = 80;

    /// Without colours, with non-ASCII characters.
    pub fn plain(width: usize) -> Style {
        Style { width: width.max(Self::MIN_WIDTH), colour: false, unicode: true, rows: 5 }
    }

    /// The width to draw for, columns.
    pub fn columns(&self) -> usize {
        self.width.max(Self::MIN_WIDTH)
    }

    /// Whether to colour: only on a terminal, unless `NO_COLOR` is set and not empty (no-color.org)
    /// or `TERM` is `dumb` or unset.
    pub fn wants_colour(terminal: bool, no_color: Option<&str>, term: Option<&str>) -> bool {
        let refused = no_color.is_some_and(|value| !value.is_empty());
        let capable = term.is_some_and(|term| !term.is_empty() && term != "dumb");
        terminal && !refused && capable
    }

    /// Whether the locale is UTF-8: the first of `LC_ALL`, `LC_CTYPE` and `LANG` that is set and
    /// not empty decides.
    pub fn wants_unicode(lc_all: Option<&str>, lc_ctype: Option<&str>, lang: Option<&str>) -> bool {
        let set = [lc_all, lc_ctype, lang].into_iter().flatten().find(|value| !value.is_empty());
        let name = set.unwrap_or_default().to_ascii_lowercase();
        name.contains("utf-8") || name.contains("utf8")
    }

    /// `text` in the colour of `paint`.
    pub fn paint(&self, text: &str, paint: Paint) -> String {
        let code = match paint {
            Paint::Heading => "1",
            Paint::Faint => "2",
            Paint::Alert => "1;31",
            Paint::Plain => return text.to_owned(),
        };
        if self.colour && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// A text of iowhy's own, reduced to ASCII if necessary.
    pub fn own<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.unicode || text.is_ascii() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(text.replace('≥', ">=").replace('…', "...").replace('×', "x"))
    }

    /// The first if non-ASCII characters may be used, else the second.
    pub fn either(&self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.unicode { unicode } else { ascii }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_only_where_it_is_wanted() {
        let wants = Style::wants_colour;
        assert!(wants(true, None, Some("xterm-256color")));
        assert!(wants(true, Some(""), Some("xterm")));
        assert!(!wants(false, None, Some("xterm")));
        assert!(!wants(true, Some("1"), Some("xterm")));
        assert!(!wants(true, None, Some("dumb")));
        assert!(!wants(true, None, None));
    }

    #[test]
    fn the_locale_decides_the_characters() {
        let wants = Style::wants_unicode;
        assert!(wants(None, None, Some("de_DE.UTF-8")));
        assert!(wants(Some(""), Some("C.utf8"), None));
        assert!(!wants(Some("C"), Some("C.UTF-8"), Some("C.UTF-8")));
        assert!(!wants(None, None, None));
    }
}
