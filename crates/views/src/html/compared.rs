//! Two watches compared on one page.

use super::sections::drawn;
use super::{PageError, PageInput, answer, charts, data, document, is_embedded, licences, prose};
use super::{reduction, style};
use crate::diff;
use crate::escape::escape;
use crate::text::{parts, readable};
use iowhy_diagnosis::diff::{Comparison, DiffVerdict};
use maud::html;

/// One of the two.
#[derive(Clone, Copy, Debug)]
pub struct PageSide<'a> {
    /// The watch's name, as given by the user.
    pub name: &'a str,
    /// The content that is shown.
    pub page: PageInput<'a>,
}

/// The page of two watches.
///
/// # Errors
/// Fails if the program was built without the page's script.
pub fn compare(comparison: &Comparison, sides: &[PageSide<'_>; 2]) -> Result<String, PageError> {
    if !is_embedded() {
        return Err(PageError::NotEmbedded);
    }
    let style = style();
    let pages: Vec<_> = sides.iter().map(|side| (Some(side.name), &side.page)).collect();
    let data = data::encode(&pages)?;
    let watched = parts(None, &style, |screen| diff::watches(comparison, screen));
    let differences = parts(None, &style, |screen| diff::differences(comparison, screen));
    let severity = match comparison.verdict {
        DiffVerdict::Moved | DiffVerdict::Stalled => "critical",
        DiffVerdict::TailDiffers => "warning",
        _ => "info",
    };
    let body = html! {
        header.top .{(severity)} {
            p.brand { "iowhy diff" }
            h1 { (prose(&readable(&comparison.sentence, &style))) }
            (drawn(&watched))
        }
        main {
            @for (index, side) in sides.iter().enumerate() {
                (answer::findings_of(index, side.name, &side.page, &style))
            }
            (charts())
            section #tables aria-labelledby="figures" {
                h2 #figures { "What differs" }
                (drawn(&differences))
            }
        }
        footer {
            @for (letter, side) in ["A", "B"].into_iter().zip(sides) {
                h3 { (letter) ": " (escape(side.name, &style)) }
                (reduction(&side.page, &style))
            }
            (licences())
        }
    };
    Ok(document("iowhy diff", &body, &data))
}
