//! How a screen is drawn: its width, colours and characters, and how to choose them.

use std::borrow::Cow;

/// How a screen is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// Columns; below [`Style::MIN_WIDTH`] that many are assumed.
    pub width: usize,
    /// Whether escape sequences may colour it.
    pub colour: bool,
    /// Whether characters beyond ASCII may be used; if not, those in names are escaped.
    pub unicode: bool,
    /// Rows shown of each table before the rest is one row.
    pub rows: usize,
}

/// What a piece of text is, for the eye.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Paint {
    /// A figure or a name.
    #[default]
    Plain,
    /// A heading.
    Heading,
    /// Less important: units, explanations, what is left over.
    Faint,
    /// Something to look at.
    Alert,
}

impl Style {
    /// The fewest columns that a screen is drawn for.
    pub const MIN_WIDTH: usize = 40;
    /// Columns where nobody says how many there are: a pipe or a file.
    pub const DEFAULT_WIDTH: usize = 80;

    /// Without colours, with all characters.
    pub fn plain(width: usize) -> Style {
        Style { width: width.max(Self::MIN_WIDTH), colour: false, unicode: true, rows: 5 }
    }

    /// The columns to draw for.
    pub fn columns(&self) -> usize {
        self.width.max(Self::MIN_WIDTH)
    }

    /// Whether to colour: only a terminal, unless `NO_COLOR` is set to anything but the empty text
    /// (no-color.org) or `TERM` is `dumb` or not set.
    pub fn wants_colour(terminal: bool, no_color: Option<&str>, term: Option<&str>) -> bool {
        let refused = no_color.is_some_and(|value| !value.is_empty());
        let capable = term.is_some_and(|term| !term.is_empty() && term != "dumb");
        terminal && !refused && capable
    }

    /// Whether the locale has more than ASCII: the first of `LC_ALL`, `LC_CTYPE` and `LANG` that is
    /// set and not empty names UTF-8.
    pub fn wants_unicode(lc_all: Option<&str>, lc_ctype: Option<&str>, lang: Option<&str>) -> bool {
        let set = [lc_all, lc_ctype, lang].into_iter().flatten().find(|value| !value.is_empty());
        let name = set.unwrap_or_default().to_ascii_lowercase();
        name.contains("utf-8") || name.contains("utf8")
    }

    /// `text` as `paint` looks.
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

    /// A text of iowhy's own, in ASCII where nothing else may be used.
    pub fn own<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.unicode || text.is_ascii() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(text.replace('≥', ">=").replace('…', "...").replace('×', "x"))
    }

    /// The first where characters beyond ASCII may be used, else the second.
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
