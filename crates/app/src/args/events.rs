//! `iowhy events`. Short options are those of blkparse where it has an equivalent.

use super::SourceOrWatch;
use super::candidates::devices;
use clap::Args;
use clap_complete::ArgValueCandidates;
use iowhy_blktrace::events::mask;
use iowhy_blktrace::trace::EventFormat;

/// `iowhy events`.
#[derive(Args, Debug)]
pub struct Events {
    /// The source to read, or how long to watch.
    #[command(flatten)]
    pub source: SourceOrWatch,
    /// The format of a line, as in blkparse: %a action, %c CPU, %C process, %d rwbs, %D device, %e
    /// error, %n sectors, %N bytes, %p PID, %s sequence, %S sector, %T.%t time, %u time since the
    /// request was queued in µs, %U requests, %z time of day; widths as in %12S or %-8a
    #[arg(short, long, value_name = "FORMAT", value_parser = EventFormat::parse)]
    pub format: Option<EventFormat>,
    /// The format for one action (repeat for more): D,%S\n
    #[arg(
        short = 'F',
        long = "format-spec",
        value_name = "ACTION,FORMAT",
        value_parser = format_of,
    )]
    pub formats: Vec<(u8, EventFormat)>,
    /// Only events of this kind (repeat for more): read, write, queue, issue, complete, sync …
    #[arg(short, long = "action", value_name = "KIND", value_parser = kind)]
    pub actions: Vec<u32>,
    /// The same as a mask of categories in hexadecimal, as blkparse's -A
    #[arg(short = 'A', long, value_name = "MASK", value_parser = hexadecimal)]
    pub set_mask: Option<u32>,
    /// Accepted for scripts of blkparse: messages are text here, and in no dump
    #[arg(short = 'M', long, hide = true)]
    pub no_msgs: bool,
    /// Accepted for scripts of blkparse: what is damaged is always said
    #[arg(short, long, hide = true)]
    pub verbose: bool,
    /// Only this device (repeat for more): sda, or 8,0
    #[arg(short, long = "device", value_name = "DEV", add = ArgValueCandidates::new(devices))]
    pub devices: Vec<String>,
    /// Only events between these seconds after the first: 1.5:2, or 2 for 0:2
    #[arg(short, long, value_name = "FROM:TO", value_parser = window)]
    pub window: Option<(u64, u64)>,
    /// Don't print statistics per CPU and device at the end
    #[arg(short, long)]
    pub quiet: bool,
    /// Print only the statistics at the end
    #[arg(short = 'O', long, conflicts_with = "quiet")]
    pub no_text: bool,
    /// Print each event as one line of JSON, without statistics at the end
    #[arg(long, conflicts_with_all = ["format", "formats", "no_text", "blkparse_compat"])]
    pub json: bool,
    /// Show seconds since the first event (CLOCK_MONOTONIC) instead of the time of day
    #[arg(long, conflicts_with = "json")]
    pub monotonic: bool,
    /// Print exactly what blkparse prints, including its dropped records and truncated sectors
    #[arg(long)]
    pub blkparse_compat: bool,
}

fn format_of(text: &str) -> Result<(u8, EventFormat), String> {
    let wrong = || "expected an action's letter, a comma and a format, as in D,%S\\n".to_owned();
    let (action, format) = text.split_once(',').ok_or_else(wrong)?;
    let [letter] = action.as_bytes() else { return Err(wrong()) };
    Ok((*letter, EventFormat::parse(format).map_err(|error| error.to_string())?))
}

fn kind(text: &str) -> Result<u32, String> {
    mask::parse(text).ok_or_else(|| {
        let words: Vec<&str> = mask::WORDS.iter().map(|(word, _)| *word).collect();
        format!("expected one of {}", words.join(", "))
    })
}

fn hexadecimal(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u32::from_str_radix(digits, 16).map_err(|_| "expected a hexadecimal number: 3".to_owned())
}

impl Events {
    /// The categories of which an event must have one; 0 for all events.
    pub fn mask(&self) -> u32 {
        let kinds = self.actions.iter().fold(0, |all, kind| all | kind);
        kinds | self.set_mask.unwrap_or(0)
    }
}

/// Parses a window as the nanoseconds of its begin and end.
fn window(text: &str) -> Result<(u64, u64), String> {
    let time = |text: &str| {
        let time = super::amounts::moment(text)?;
        Ok::<u64, String>(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    };
    let (from, to) = text.split_once(':').unwrap_or(("0", text));
    let (from, to) = (time(from)?, time(to)?);
    if from <= to { Ok((from, to)) } else { Err("the window ends before it begins".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::window;

    #[test]
    fn a_window_may_begin_at_0() {
        const SECOND: u64 = 1_000_000_000;
        for (text, from, to) in [
            ("2", 0, 2 * SECOND),
            ("0:2", 0, 2 * SECOND),
            ("00:1", 0, SECOND),
            ("0.5", 0, SECOND / 2),
            ("1.5:2", SECOND * 3 / 2, 2 * SECOND),
        ] {
            assert_eq!(window(text), Ok((from, to)), "{text}");
        }
        assert!(window("2:1").is_err() && window("-1:1").is_err() && window("x").is_err());
    }
}
