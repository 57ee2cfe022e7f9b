//! Numbers as people paste them, times of day, and lines about the machine.
//!
//! What does not belong here: tables (see `rows`).

use iowhy_model::Environment;
use iowhy_model::health::NvmeHealth;

/// Seconds of a day.
pub(super) const DAY_S: f64 = 86_400.0;
/// The interval of reports that do not tell a time, seconds.
pub const ASSUMED_S: f64 = 1.0;
/// Words of a line that `date` prints.
const MOST_OF_DATE: usize = 7;

/// A number, with a point or a locale's comma.
pub fn number(text: &str) -> Option<f64> {
    let text = text.trim_end_matches('%');
    let value: f64 = match text.parse() {
        Ok(value) => value,
        Err(_) if text.matches(',').count() == 1 => text.replace(',', ".").parse().ok()?,
        Err(_) => return None,
    };
    value.is_finite().then_some(value)
}

/// Whether the last word of a line is a number: no header ends so.
pub(super) fn ends_with_number(line: &str) -> bool {
    line.split_ascii_whitespace().next_back().is_some_and(|word| number(word).is_some())
}

/// Bytes that a number with a unit tells, as sysstat's `--human` prints them: `222.1k`.
pub fn human_bytes(text: &str) -> Option<f64> {
    let unit = match text.bytes().last()? {
        b'B' => 1.0,
        b'k' => 1024.0,
        b'M' => 1024.0 * 1024.0,
        b'G' => 1024.0 * 1024.0 * 1024.0,
        b'T' => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some(number(text.get(..text.len() - 1)?)? * unit)
}

/// Words of locales for the second half of a day, behind a time of twelve hours.
const AFTERNOON: [&str; 5] = ["PM", "pm", "μμ", "م", "अपराह्न"];
/// Words for the first half.
const MORNING: [&str; 5] = ["AM", "am", "πμ", "ص", "पूर्वाह्न"];
/// The word before the times of Norwegian locales, which have no seconds.
const BEFORE_HOUR: &str = "kl.";

/// The time of day that a line begins with, in seconds, and what follows: `22:40:28`, also with
/// `AM` or `PM` behind, and as locales write it: `22.40.28`, `22時40分28秒`, `22시 40분 28초`,
/// `kl. 22.40`, `UTC 10:40:28 م`.
pub fn time_of_day(line: &str) -> (Option<f64>, &str) {
    let line = line.trim_start();
    let Some((time, rest)) = first_time(line) else { return (None, line) };
    let (second, behind) = first_word(rest);
    let half = 12.0 * 3600.0;
    let time = match second {
        _ if MORNING.contains(&second) => time - if time >= half { half } else { 0.0 },
        _ if AFTERNOON.contains(&second) => time + if time < half { half } else { 0.0 },
        _ => return (Some(time), rest),
    };
    (Some(time), behind)
}

/// The time at the beginning of a line, without the half of the day, and what follows.
fn first_time(line: &str) -> Option<(f64, &str)> {
    let (first, rest) = first_word(line);
    if let Some(time) = clock(first) {
        return Some((time, rest));
    }
    let (second, behind) = first_word(rest);
    if first == BEFORE_HOUR {
        return Some((clock(&format!("{second}.00"))?, behind));
    }
    let is_zone = (3..=5).contains(&first.len()) && first.bytes().all(|it| it.is_ascii_uppercase());
    if is_zone {
        return Some((clock(second)?, behind));
    }
    let is_hour = first.ends_with('시') && second.ends_with('분');
    let (third, behind) = first_word(behind);
    is_hour.then(|| Some((clock(&[first, second, third].concat())?, behind)))?
}

/// The first word of a line, and what follows it.
fn first_word(line: &str) -> (&str, &str) {
    let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    (first, rest.trim_start())
}

/// What follows the word of a locale for a mean in the first column, if there is one: `Average:`,
/// `Trung bình:`, `Moyenne :`.
pub(super) fn behind_mean(line: &str) -> Option<&str> {
    const MOST_WORDS: usize = 3;
    let mut rest = line.trim_start();
    for _ in 0..MOST_WORDS {
        let (word, behind) = first_word(rest);
        if word.is_empty() || word.contains(char::is_numeric) {
            return None;
        }
        if word.ends_with([':', '：']) {
            return Some(behind);
        }
        rest = behind;
    }
    None
}

/// Whether a line begins as a row of sar: with a time, or the word for a mean.
pub(super) fn begins_row(line: &str) -> bool {
    time_of_day(line).0.is_some() || behind_mean(line).is_some()
}

/// Seconds of a day as a time of day.
pub(super) fn of_day(seconds: f64) -> String {
    let second = seconds.rem_euclid(DAY_S) as u32;
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// `22:40:28`, with a fraction or not; also `22.40.28`, `22時40分28秒`, and with other digits.
pub(super) fn clock(word: &str) -> Option<f64> {
    if word.is_ascii() && word.contains(':') {
        return clock_of(word.split(':'));
    }
    let is_mark = |character: char| ":.時时시分분秒초".contains(character);
    let is_number = word.is_ascii() && word.matches('.').count() != 2;
    if is_number || !word.starts_with(|character| digit(character).is_some()) {
        return None;
    }
    let plain: String = word
        .chars()
        .map(|character| match digit(character) {
            Some(digit) => char::from(b'0' + digit),
            None if is_mark(character) => ':',
            None => character,
        })
        .collect();
    let plain = plain.strip_suffix(':').unwrap_or(&plain);
    // A figure of a table is no time.
    let is_whole = plain.rsplit(':').next().is_some_and(|seconds| seconds.len() == 2);
    clock_of(plain.split(':')).filter(|_| is_whole)
}

/// The time of day of seconds since 1970, which `pidstat -h` prints.
pub(super) fn since_1970(word: &str) -> Option<f64> {
    let seconds: u64 = word.parse().ok().filter(|_| word.len() >= 9)?;
    Some((seconds % DAY_S as u64) as f64)
}

/// The value of a digit of ASCII, Arabic, Persian, Devanagari or Bengali.
fn digit(character: char) -> Option<u8> {
    const ZEROS: [u32; 5] = [0x30, 0x660, 0x6f0, 0x966, 0x9e6];
    let of = |zero: &u32| u32::from(character).checked_sub(*zero).filter(|value| *value < 10);
    ZEROS.iter().find_map(of).map(|value| value as u8)
}

fn clock_of<'a>(mut parts: impl Iterator<Item = &'a str>) -> Option<f64> {
    let (hours, minutes) = (parts.next()?, parts.next()?);
    let seconds = parts.next()?;
    if parts.next().is_some() || hours.len() > 2 || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes) = (hours.parse::<u32>().ok()?, minutes.parse::<u32>().ok()?);
    let seconds = number(seconds)?;
    (hours < 24 && minutes < 60 && (0.0..61.0).contains(&seconds))
        .then(|| f64::from(hours * 3600 + minutes * 60) + seconds)
}

/// The time between reports.
#[derive(Debug, Default)]
pub struct ReportClock {
    /// The last time that was told: of day, or since boot.
    last: Option<f64>,
    /// Time since then that reports did not use, seconds.
    passed: Option<f64>,
    /// Intervals whose length was not told.
    assumed: u64,
}

impl ReportClock {
    /// Takes a time of day.
    pub fn at(&mut self, second: f64) {
        if let Some(last) = self.last.filter(|last| (last - second).abs() > f64::EPSILON) {
            let since = second - last;
            let since = if since < 0.0 { since + DAY_S } else { since };
            self.passed = Some(self.passed.unwrap_or(0.0) + since);
        }
        self.last = Some(second);
    }

    /// The last time that was told.
    pub fn last(&self) -> Option<f64> {
        self.last
    }

    /// Whether a time of day is another one than the last.
    pub fn is_later(&self, second: f64) -> bool {
        self.last.is_some_and(|last| (last - second).abs() > f64::EPSILON)
    }

    /// Forgets the time since the last report.
    pub fn take_passed(&mut self) -> Option<f64> {
        self.passed.take()
    }

    /// Takes a time that stands alone in a line.
    #[cfg(test)]
    fn line(&mut self, line: &str) -> bool {
        time_alone(line).map(|second| self.at(second)).is_some()
    }
}

/// The time of a line that is nothing else: iostat's `-t`, `date`, `/proc/uptime`.
pub fn time_alone(line: &str) -> Option<f64> {
    // Before sysstat 9.1 a word stood before.
    let line = line.strip_prefix("Time: ").unwrap_or(line);
    // The longest are those of `date`.
    let words: Vec<&str> = line.split_whitespace().take(MOST_OF_DATE + 1).collect();
    if words.len() > MOST_OF_DATE {
        return None;
    }
    let uptime = |text: &str| number(text).filter(|_| text.contains('.'));
    if let [up, idle] = words[..]
        && let (Some(up), Some(_)) = (uptime(up), uptime(idle))
    {
        return Some(up);
    }
    let iso = |text: &str| {
        let (date, time) = text.split_once('T')?;
        let is_date = date.len() == 10 && date.matches('-').count() == 2;
        clock(time.get(..8)?).filter(|_| is_date)
    };
    let is_date = |word: &str| {
        word.len() >= 8 && word.split(['/', '.', '-']).filter(|part| !part.is_empty()).count() == 3
    };
    match words[..] {
        [one] => iso(one).or_else(|| clock(one)),
        [time, "AM" | "PM"] if clock(time).is_some() => time_of_day(line).0,
        [date, ref rest @ ..] if is_date(date) && rest.len() <= 2 => time_of_day(&rest.join(" ")).0,
        _ if is_from_date(&words) => words.iter().find_map(|word| clock(word)),
        _ => words.iter().position(|word| has_year(word)).and_then(|_| behind_date(&words)),
    }
}

/// Whether a word of a date has a year: `2026`, `2026年11月27日`, `2026.eko`.
fn has_year(word: &str) -> bool {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let rest = word.get(digits..).unwrap_or("");
    let is_date = rest.chars().all(|character| {
        character.is_alphanumeric() && !character.is_ascii_uppercase() || ".,".contains(character)
    });
    digits == 4 && (word.starts_with("19") || word.starts_with("20")) && is_date
}

/// The time behind the words of a date, as locales write it; nothing but a half of the day and a
/// zone may follow.
fn behind_date(words: &[&str]) -> Option<f64> {
    const MOST_BEHIND: usize = 2;
    let begins = |word: &str| word == BEFORE_HOUR || clock(word).is_some();
    let at = words.iter().position(|word| begins(word))?;
    if !are_of_date(words.get(..at)?) {
        return None;
    }
    let rest = words.get(at..)?.join(" ");
    let (time, behind) = time_of_day(&rest);
    time.filter(|_| at > 0 && behind.split_whitespace().count() <= MOST_BEHIND)
}

/// Whether words are those of a date alone: no label before it, no row of a table.
fn are_of_date(words: &[&str]) -> bool {
    const MOST_NUMBERS: usize = 3;
    let is_word = |word: &&str| !word.ends_with(':') && word.chars().any(char::is_alphanumeric);
    let is_number = |word: &&&str| word.bytes().all(|byte| byte.is_ascii_digit());
    words.iter().all(is_word) && words.iter().filter(is_number).count() <= MOST_NUMBERS
}

impl ReportClock {
    /// The length of the interval that ends with this report, seconds.
    pub fn interval(&mut self) -> f64 {
        match self.passed.take().filter(|passed| *passed > 0.0) {
            Some(seconds) => seconds,
            None => {
                self.assumed += 1;
                ASSUMED_S
            }
        }
    }

    /// Takes the number of intervals whose length was not told.
    pub fn take_assumed(&mut self) -> u64 {
        std::mem::take(&mut self.assumed)
    }
}

/// Whether these are the words of `date`: `Wed Nov 25 22:40:28 UTC 2026`.
fn is_from_date(words: &[&str]) -> bool {
    const DAYS: &[&str] = &["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    (5..=MOST_OF_DATE).contains(&words.len())
        && words.first().is_some_and(|first| DAYS.contains(first))
}

/// The host of sysstat's first line.
pub fn host_of_banner(line: &str) -> Option<&str> {
    let mut words = line.trim_start().strip_prefix("Linux ")?.split_whitespace();
    words.nth(1)?.strip_prefix('(')?.strip_suffix(')')
}

/// Reads sysstat's first line: `Linux 6.1.0 (host)  11/25/26  _x86_64_  (8 CPU)`.
pub fn banner(line: &str, environment: &mut Environment) -> bool {
    let Some(rest) = line.trim_start().strip_prefix("Linux ") else { return false };
    let mut words = rest.split_whitespace();
    let (Some(kernel), Some(host)) = (words.next(), words.next()) else { return false };
    let Some(host) = host.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
        return false;
    };
    environment.kernel = kernel.to_owned();
    environment.host = host.to_owned();
    for word in words {
        if let Some(count) = word.strip_prefix('(') {
            environment.cpus = count.parse().unwrap_or(environment.cpus);
        } else if word.len() > 2 && word.starts_with('_') {
            environment.architecture = word.trim_matches('_').to_owned();
        }
    }
    true
}

/// Takes a field of `nvme smart-log`: `critical_warning : 0`.
pub fn nvme_field(line: &str, health: &mut NvmeHealth) -> bool {
    let Some((name, value)) = line.split_once(':') else { return false };
    let digits: String = value
        .trim_start()
        .chars()
        .take_while(|character| {
            character.is_ascii_digit() || matches!(character, 'x' | ',' | 'a'..='f')
        })
        .filter(|character| *character != ',')
        .collect();
    let number = match digits.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok(),
        None => digits.trim_end_matches(|character: char| !character.is_ascii_digit()).parse().ok(),
    };
    set_nvme(name.trim(), number.unwrap_or(0), health)
}

/// Sets the field of a health log that nvme calls so, in its text or its JSON.
pub fn set_nvme(name: &str, value: u64, health: &mut NvmeHealth) -> bool {
    let field = match name.to_ascii_lowercase().replace(' ', "_").as_str() {
        "critical_warning" => &mut health.critical_warning,
        "available_spare" | "avail_spare" => &mut health.spare_percent,
        "available_spare_threshold" | "spare_thresh" => &mut health.spare_threshold_percent,
        "percentage_used" | "percent_used" => &mut health.used_percent,
        "media_errors" => &mut health.media_errors,
        "num_err_log_entries" => &mut health.error_log_entries,
        "unsafe_shutdowns" => &mut health.unsafe_shutdowns,
        "power_on_hours" => &mut health.power_on_hours,
        "warning_temperature_time" | "warning_temp_time" => &mut health.warning_minutes,
        "critical_composite_temperature_time" | "critical_comp_time" => {
            &mut health.critical_minutes
        }
        "temperature" => {
            // In JSON it is in kelvins.
            let celsius = if value > 200 { value as i64 - 273 } else { value as i64 };
            health.temperature_c = Some(celsius);
            return true;
        }
        "thermal_management_t1_trans_count" | "thm_temp1_trans_count" => {
            &mut health.light_throttles
        }
        "thermal_management_t2_trans_count" | "thm_temp2_trans_count" => {
            &mut health.heavy_throttles
        }
        "data_units_read"
        | "data_units_written"
        | "host_read_commands"
        | "power_cycles"
        | "host_write_commands"
        | "controller_busy_time"
        | "endurance_group_critical_warning_summary" => {
            return true;
        }
        other => return other.starts_with("temperature_sensor") || other.starts_with("thermal_"),
    };
    *field = value;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times() {
        assert_eq!(
            (number("1.5"), number("1,5"), number("98.00%")),
            (Some(1.5), Some(1.5), Some(98.0))
        );
        assert_eq!((number("sda"), number("1,234,567")), (None, None));
        assert_eq!(time_of_day("22:40:28 sda 1").0, Some(81_628.0));
        assert_eq!(time_of_day("10:40:28 PM sda").0, Some(81_628.0));
        assert_eq!(time_of_day("12:00:01 AM sda"), (Some(1.0), "sda"));
        assert_eq!(time_of_day("sda 1.0"), (None, "sda 1.0"));
    }

    #[test]
    fn times_of_locales() {
        let at = Some(81_628.0);
        for line in [
            "22.40.28    sda",
            "22時40分28秒    sda",
            "22时40分28秒    sda",
            "22시 40분 28초    sda",
            "10:40:28 μμ    sda",
            "10:40:28 अपराह्न    sda",
            "UTC 10:40:28 م    sda",
            "۲۲:۴۰:۲۸    sda",
        ] {
            assert_eq!(time_of_day(line), (at, "sda"), "{line}");
        }
        assert_eq!(time_of_day("kl. 22.40 +0000    sda"), (Some(81_600.0), "+0000    sda"));
        for line in ["1.5.20 sda", "12.50 1.00", "DEV tps", "kl. sda 1", "22시 sda"] {
            assert_eq!(time_of_day(line), (None, line), "{line}");
        }
        for line in [
            "2026年11月25日 22时40分28秒",
            "il-Ġimgħa, 25 ta Nov, 2026 22:40:28 UTC",
            "or., 2026.eko azaren 25a 22:40:28",
            "2026.11.25. 22:40:28",
        ] {
            assert_eq!(time_alone(line), at, "{line}");
        }
        assert_eq!(time_alone("25. nov. 2026 kl. 22.40 +0000"), Some(81_600.0));
        for line in [
            "[Wed Nov 25 22:40:28 2026] a reset",
            "2026 Nov 25 22:40:28 a b c: d",
            "Filesystem created:       Wed Nov 25 22:40:28 2026",
            "root 1 0 0 2026 ? 00:00:05",
            "1 0 0 5 2026 00:00:05 init",
        ] {
            assert_eq!(time_alone(line), None, "{line}");
        }
        for (line, rest) in [
            ("Average:   sda 1.00", Some("sda 1.00")),
            ("Moyenne\u{202f}:   sda 1.00", Some("sda 1.00")),
            ("Trung bình:   sda", Some("sda")),
            ("平均時間：   sda", Some("sda")),
            ("22:40:28 sda: 1.00", None),
            ("sda 1.00 a:", None),
        ] {
            assert_eq!(behind_mean(line), rest, "{line}");
        }
    }

    #[test]
    fn a_clock_passes_midnight() {
        let mut clock = ReportClock::default();
        assert_eq!(clock.interval(), ASSUMED_S);
        assert!(clock.line("11/25/26 23:59:58") && clock.line("11/26/26 00:00:03"));
        assert_eq!(clock.interval(), 5.0);
        assert!(clock.line("2026-11-26T00:00:13+0000"));
        assert_eq!((clock.interval(), clock.take_assumed()), (10.0, 1));
        assert!(!clock.line("sda 1.00 2.00"));
        assert_eq!(time_alone("Time: 03:49:57 PM"), Some(57_000.0 - 3.0));
    }
}
