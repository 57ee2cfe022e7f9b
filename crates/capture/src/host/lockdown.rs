//! The kernel's lockdown mode.

use super::read_text;

/// The mode that blocks all reads of kernel memory.
pub const CONFIDENTIALITY: &str = "confidentiality";

/// The mode: `none`, `integrity` or `confidentiality`; `None` if it is not known. Without
/// securityfs, the kernel's command line may show the strictest one.
pub fn mode() -> Option<String> {
    let text = read_text("/sys/kernel/security/lockdown");
    let chosen = text.as_deref().and_then(|text| text.split(['[', ']']).nth(1));
    chosen.map(str::to_owned).or_else(|| asked_for(&read_text("/proc/cmdline")?))
}

fn asked_for(command_line: &str) -> Option<String> {
    let mut asked =
        command_line.split_whitespace().filter_map(|word| word.strip_prefix("lockdown="));
    asked.next_back().filter(|mode| *mode == CONFIDENTIALITY).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_tells_the_strictest_mode_only() {
        assert_eq!(asked_for("quiet lockdown=confidentiality").as_deref(), Some(CONFIDENTIALITY));
        // The level may have been raised since.
        assert_eq!(asked_for("quiet lockdown=integrity"), None);
    }
}
