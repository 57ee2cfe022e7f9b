//! The SMART and health log of an NVMe controller, by the layout of the NVMe base specification.
//!
//! What does not belong here: how it is fetched (`passthrough`).

use super::passthrough::{ALL_NAMESPACES, AdminRead, AnswersAdmin, CONTROLLER_BYTES};
use iowhy_model::health::{NvmeHealth, PowerState};

/// The page's number and length, bytes.
const SMART: u8 = 2;
const SMART_BYTES: u32 = 512;
/// The first version that knows how to leave events alone: 1.3.
const KEEPS_EVENTS: u64 = 0x0001_0300;
/// Offset of the power states in a controller's description, and the highest number of one.
const POWER_STATES: usize = 2048;
const MOST_STATES: u64 = 31;
/// Temperatures are in kelvin.
const ZERO_C: i64 = 273;

/// Reads the log.
///
/// # Errors
///
/// Fails if the log cannot be read, with the reason in half a sentence.
pub(super) fn read(controller: &dyn AnswersAdmin) -> Result<NvmeHealth, String> {
    let about = controller.read(AdminRead::Controller)?;
    let page = controller.read(AdminRead::LogPage {
        page: SMART,
        namespace: ALL_NAMESPACES,
        bytes: SMART_BYTES,
        keeps_events: number(&about, 80, 4) >= KEEPS_EVENTS,
    })?;
    parse(&about, &page)
}

/// Parses the controller's description and its page.
fn parse(about: &[u8], page: &[u8]) -> Result<NvmeHealth, String> {
    if page.len() < SMART_BYTES as usize {
        return Err(format!("its health log is cut off after {} bytes", page.len()));
    }
    // A controller that does not fill the page: no drive has a temperature of 0 K and no spares.
    if page.iter().all(|byte| *byte == 0) || page.iter().all(|byte| *byte == 0xff) {
        return Err("its health log is empty".to_owned());
    }
    Ok(NvmeHealth {
        critical_warning: number(page, 0, 1),
        temperature_c: celsius(page, 1),
        warning_c: celsius(about, 266),
        critical_c: celsius(about, 268),
        spare_percent: number(page, 3, 1),
        spare_threshold_percent: number(page, 4, 1),
        used_percent: number(page, 5, 1),
        written_bytes: written_bytes(page),
        power_on_hours: number(page, 128, 16),
        unsafe_shutdowns: number(page, 144, 16),
        media_errors: number(page, 160, 16),
        error_log_entries: number(page, 176, 16),
        warning_minutes: number(page, 192, 4),
        critical_minutes: number(page, 196, 4),
        light_throttles: number(page, 216, 4),
        heavy_throttles: number(page, 220, 4),
        light_throttle_s: number(page, 224, 4),
        heavy_throttle_s: number(page, 228, 4),
        power_states: power_states(about),
        sleeps_by_itself: number(about, 265, 1) & 1 != 0,
        wake_limit_us: None,
    })
}

/// Data units written: thousands of 512 bytes; 0 if the controller does not count them.
fn written_bytes(page: &[u8]) -> Option<u64> {
    let units = number(page, 48, 16);
    (units > 0).then(|| units.saturating_mul(512_000))
}

/// The power states in a controller's description: 32 bytes each.
fn power_states(about: &[u8]) -> Vec<PowerState> {
    if about.len() < CONTROLLER_BYTES as usize {
        return Vec::new();
    }
    let count = number(about, 263, 1).min(MOST_STATES) + 1;
    let state = |index: u64| {
        let at = POWER_STATES + index as usize * 32;
        let flags = number(about, at + 3, 1);
        // In units of 10 mW, or of 0.1 mW.
        let power = number(about, at, 2);
        PowerState {
            most_mw: if flags & 1 == 0 { power * 10 } else { power / 10 },
            asleep: flags & 2 != 0,
            enter_us: number(about, at + 4, 4),
            leave_us: number(about, at + 8, 4),
        }
    };
    (0..count).map(state).collect()
}

fn celsius(bytes: &[u8], at: usize) -> Option<i64> {
    let kelvin = number(bytes, at, 2);
    (kelvin > 0).then_some(kelvin as i64 - ZERO_C)
}

/// A little-endian number; one that is larger than 64 bits is the largest there is.
pub(super) fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let digits = bytes.get(at..at + length).unwrap_or_default();
    let number = digits.iter().rev().fold(0_u128, |sum, byte| sum << 8 | u128::from(*byte));
    // Signed 64-bit integers are what other programs read from JSON.
    number.min(i64::MAX as u128) as u64
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A page as a hot drive gives it, and its description.
    pub fn hot() -> (Vec<u8>, Vec<u8>) {
        let (mut about, mut page) = (vec![0; 4096], vec![0; 512]);
        about[80..84].copy_from_slice(&0x0001_0400_u32.to_le_bytes());
        about[266..268].copy_from_slice(&343_u16.to_le_bytes());
        about[268..270].copy_from_slice(&353_u16.to_le_bytes());
        // Two power states: 8.25 W, and 3 mW asleep.
        (about[263], about[265]) = (1, 1);
        about[2048..2050].copy_from_slice(&825_u16.to_le_bytes());
        about[2080..2082].copy_from_slice(&30_u16.to_le_bytes());
        about[2083] = 3;
        about[2084..2088].copy_from_slice(&2000_u32.to_le_bytes());
        about[2088..2092].copy_from_slice(&45_000_u32.to_le_bytes());
        page[0] = 2;
        page[1..3].copy_from_slice(&(273_u16 + 78).to_le_bytes());
        page[3..6].copy_from_slice(&[100, 10, 104]);
        page[48..64].copy_from_slice(&7_u128.to_le_bytes());
        page[128..144].copy_from_slice(&20_000_u128.to_le_bytes());
        page[160..176].copy_from_slice(&3_u128.to_le_bytes());
        page[176..192].copy_from_slice(&u128::MAX.to_le_bytes());
        for (at, value) in [(192, 31_u32), (196, 2), (216, 4), (220, 1), (224, 900), (228, 12)] {
            page[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        (about, page)
    }

    #[test]
    fn fields_are_where_the_specification_has_them() {
        let (about, page) = hot();
        let health = parse(&about, &page).expect("a page");
        assert_eq!(
            health,
            NvmeHealth {
                critical_warning: NvmeHealth::TEMPERATURE,
                temperature_c: Some(78),
                warning_c: Some(70),
                critical_c: Some(80),
                spare_percent: 100,
                spare_threshold_percent: 10,
                used_percent: 104,
                media_errors: 3,
                error_log_entries: i64::MAX as u64,
                unsafe_shutdowns: 0,
                power_on_hours: 20_000,
                written_bytes: Some(7 * 512_000),
                warning_minutes: 31,
                critical_minutes: 2,
                light_throttles: 4,
                heavy_throttles: 1,
                light_throttle_s: 900,
                heavy_throttle_s: 12,
                power_states: vec![
                    PowerState { most_mw: 8250, ..PowerState::default() },
                    PowerState { most_mw: 3, asleep: true, enter_us: 2000, leave_us: 45_000 },
                ],
                sleeps_by_itself: true,
                wake_limit_us: None,
            }
        );
    }

    #[test]
    fn no_more_states_than_there_is_room_for() {
        let (mut about, _) = hot();
        about[263] = 255;
        assert_eq!(power_states(&about).len(), 32);
        about.truncate(3000);
        assert_eq!(power_states(&about), []);
    }

    #[test]
    fn what_is_not_a_page_is_refused() {
        let (about, page) = hot();
        assert!(parse(&about, &page[..511]).is_err());
        assert!(parse(&about, &[0; 512]).is_err());
        assert!(parse(&about, &[0xff; 512]).is_err());
        // A description that is cut off has no limits.
        let short = parse(&[], &page).expect("a page");
        assert_eq!((short.warning_c, short.critical_c), (None, None));
    }

    struct Double(u32);

    impl AnswersAdmin for Double {
        fn read(&self, command: AdminRead) -> Result<Vec<u8>, String> {
            let (mut about, page) = hot();
            about[80..84].copy_from_slice(&self.0.to_le_bytes());
            match command {
                AdminRead::Controller => Ok(about),
                AdminRead::LogPage { page: 2, namespace, bytes: 512, keeps_events } => {
                    assert_eq!(namespace, ALL_NAMESPACES);
                    assert_eq!(keeps_events, self.0 >= 0x0001_0300);
                    Ok(page)
                }
                other => Err(format!("{other:?}")),
            }
        }
    }

    #[test]
    fn old_controllers_are_not_asked_for_what_they_do_not_know() {
        for version in [0x0001_0200, 0x0001_0300, 0x0002_0000] {
            assert_eq!(read(&Double(version)).expect("a page").temperature_c, Some(78));
        }
    }
}
