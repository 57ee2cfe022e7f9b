//! `iowhy events`. The letters are blkparse's where it has the same.

use super::SourceOrWatch;
use clap::Args;
use iowhy_core::formats::events::format::Format;
use iowhy_core::formats::events::mask;

/// `iowhy events`.
#[derive(Args, Debug)]
pub struct Events {
    /// What to read, or how long to watch.
    #[command(flatten)]
    pub source: SourceOrWatch,
    /// The layout of a line, as blkparse's: %a action, %c CPU, %C process, %d rwbs, %D device, %e
    /// error, %n sectors, %N bytes, %p PID, %s sequence, %S sector, %T.%t time, %u time since the
    /// request was queued in µs, %U requests, %z time of day in UTC; widths as in %12S or %-8a
    #[arg(short, long, value_name = "FORMAT", value_parser = Format::parse)]
    pub format: Option<Format>,
    /// The layout of one action (repeat for more): D,%S\n
    #[arg(short = 'F', long = "format-spec", value_name = "ACTION,FORMAT", value_parser = format_of)]
    pub formats: Vec<(u8, Format)>,
    /// Only events of this kind (repeat for more): read, write, queue, issue, complete, sync …
    #[arg(short, long = "action", value_name = "KIND", value_parser = kind)]
    pub actions: Vec<u32>,
    /// Only this device (repeat for more): sda, or 8,0
    #[arg(short, long = "device", value_name = "DEV")]
    pub devices: Vec<String>,
    /// Only events between these seconds after the first: 1.5:2, or 2 for 0:2
    #[arg(short, long, value_name = "FROM:TO", value_parser = window)]
    pub window: Option<(u64, u64)>,
    /// No figures per CPU and device at the end
    #[arg(short, long)]
    pub quiet: bool,
    /// Only the figures at the end
    #[arg(short = 'O', long, conflicts_with = "quiet")]
    pub no_text: bool,
    /// What blkparse prints, to the byte, with the records it drops and the sectors it cuts
    #[arg(long)]
    pub blkparse_compat: bool,
}

fn format_of(text: &str) -> Result<(u8, Format), String> {
    let wrong = || "not like D,%S\\n: the action's letter, a comma, a format".to_owned();
    let (action, format) = text.split_once(',').ok_or_else(wrong)?;
    let [letter] = action.as_bytes() else { return Err(wrong()) };
    Ok((*letter, Format::parse(format).map_err(|error| error.to_string())?))
}

fn kind(text: &str) -> Result<u32, String> {
    mask::parse(text).ok_or_else(|| {
        let words: Vec<&str> = mask::WORDS.iter().map(|(word, _)| *word).collect();
        format!("one of {}", words.join(", "))
    })
}

/// Nanoseconds from and to.
fn window(text: &str) -> Result<(u64, u64), String> {
    let time = |text: &str| super::seconds(text).map(|time| time.as_nanos() as u64);
    let (from, to) = text.split_once(':').unwrap_or(("0", text));
    let (from, to) = (time(from)?, time(to)?);
    if from <= to { Ok((from, to)) } else { Err("it ends before it begins".to_owned()) }
}
