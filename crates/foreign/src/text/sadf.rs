//! Lines of `sadf -d`, which a database would take: `host;interval;timestamp;sda;1.00;…`, as lines
//! of sar.
//!
//! What does not belong here: what the columns mean (see `columns`).

/// A line of `sadf -d`.
#[derive(Debug, PartialEq)]
pub(super) struct SadfLine {
    /// The host that it is of.
    pub host: String,
    /// The length of its interval, seconds; `None` in a header.
    pub interval_s: Option<f64>,
    /// The same as sar prints it; a header without the time of day.
    pub text: String,
}

/// The line as sar prints it; `None` if it is none of `sadf -d`.
pub(super) fn database(line: &str) -> Option<SadfLine> {
    let mut fields = line.split(';');
    let host = fields.next()?;
    let (second, third) = (fields.next()?, fields.next()?);
    if let Some(host) = host.strip_prefix("# ") {
        let is_header = (host, second, third) == ("hostname", "interval", "timestamp");
        let columns: Vec<&str> = fields.map(|field| field.trim_end_matches("[...]")).collect();
        let text = columns.join(" ");
        return is_header.then(|| SadfLine { host: String::new(), interval_s: None, text });
    }
    let interval_s: f64 = second.parse().ok().filter(|it| *it >= 0.0)?;
    let time = time_of(third)?;
    let words: Vec<&str> = fields.collect();
    let is_figure = |word: &&str| word.parse::<f64>().is_ok();
    if words.len() < 2 || !words.iter().skip(1).any(is_figure) {
        return None;
    }
    // All CPUs together are -1.
    let words: Vec<&str> =
        words.into_iter().map(|word| if word == "-1" { "all" } else { word }).collect();
    let text = format!("{time} {}", words.join(" "));
    Some(SadfLine { host: host.to_owned(), interval_s: Some(interval_s), text })
}

/// The time of day in `2019-04-18 13:20:19 UTC`, or in seconds since 1970 (`sadf -U`).
fn time_of(timestamp: &str) -> Option<String> {
    if let Ok(seconds) = timestamp.parse::<u64>() {
        let of_day = seconds % 86_400;
        return Some(format!("{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60));
    }
    let time = timestamp.split_whitespace().nth(1)?;
    super::figures::clock(time).map(|_| time.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_sar() {
        let header = "# hostname;interval;timestamp;DEV;tps;rkB/s;%util";
        assert_eq!(database(header).unwrap().text, "DEV tps rkB/s %util");
        let row = database("db1;600;2026-11-25 22:10:00 UTC;sda;150.00;1200.00;97.00").unwrap();
        assert_eq!(row.text, "22:10:00 sda 150.00 1200.00 97.00");
        assert_eq!((row.host.as_str(), row.interval_s), ("db1", Some(600.0)));
        let row = database("db1;600;1795644600;-1;5.00;95.00").unwrap();
        assert_eq!(row.text, "22:10:00 all 5.00 95.00");
        for other in ["a;b;c;d", "x", "1;2;3", "db1;-1;2026-11-25 22:10:00 UTC;LINUX-RESTART"] {
            assert_eq!(database(other), None, "{other}");
        }
    }
}
