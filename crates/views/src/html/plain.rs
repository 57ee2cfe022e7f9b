//! Pages without script: their head and foot, and bars over time.
//!
//! What does not belong here: what stands on a page.

use maud::{DOCTYPE, Markup, PreEscaped, html};

const CSS: &str = include_str!("share.css");
/// The size of a picture, and the part of it that its axes take.
const SIZE: (f64, f64) = (720.0, 150.0);
const LEFT: f64 = 70.0;
const BOTTOM: f64 = 22.0;

/// A page that loads and sends nothing.
pub fn plain_page(title: &str, body: &Markup, foot: &str) -> String {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                  form-action 'none'";
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (title) }
                style { (PreEscaped(CSS)) }
            }
            body {
                (body)
                footer { p.faint {
                    "Written by iowhy " (env!("CARGO_PKG_VERSION"))
                    ". It loads nothing and sends nothing. " (foot)
                } }
            }
        }
    };
    markup.into_string() + "\n"
}

/// A picture with its title, the ends of its axes (bottom, top, left, right) and a sentence for
/// those who do not see it.
pub fn picture(title: &str, axes: [&str; 4], drawn: &Markup) -> Markup {
    let (width, height) = SIZE;
    let [bottom, top, first, last] = axes;
    let (ground, middle) = (height - BOTTOM, LEFT - 6.0);
    html! {
        figure {
            figcaption { (title) }
            svg viewBox=(format!("0 0 {width} {height}")) role="img" aria-label=(title) {
                line x1=(LEFT) y1=(ground) x2=(width) y2=(ground) class="axis" {}
                line x1=(LEFT) y1="8" x2=(LEFT) y2=(ground) class="axis" {}
                text x=(middle) y=(ground) text-anchor="end" { (bottom) }
                text x=(middle) y="14" text-anchor="end" { (top) }
                text x=(LEFT) y=(height - 6.0) { (first) }
                text x=(width) y=(height - 6.0) text-anchor="end" { (last) }
                (drawn)
            }
        }
    }
}

/// Values from the left to the right, as bars from the ground.
pub fn bars(values: &[f64], class: &str) -> Markup {
    let most = values.iter().copied().fold(0.0, f64::max);
    let each = (SIZE.0 - LEFT) / values.len().max(1) as f64;
    let room = SIZE.1 - BOTTOM - 8.0;
    let mut path = String::new();
    for (index, value) in values.iter().enumerate().filter(|(_, value)| **value > 0.0) {
        let (x, height) = (LEFT + index as f64 * each, value / most.max(1e-9) * room);
        let ground = SIZE.1 - BOTTOM;
        path.push_str(&format!("M{x:.1} {ground:.0}v{:.1}h{each:.2}V{ground:.0}z", -height));
    }
    html! { path d=(path) class=(class) {} }
}
