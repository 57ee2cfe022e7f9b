//! The memory that this process uses: a limit that includes memory outside of any pool.
//!
//! What does not belong here: memory that queries request.

use std::time::Duration;

/// Bytes of a page of memory, as the kernel counts them here.
const PAGE_BYTES: usize = 4096;
/// The interval of sampling it.
const PERIOD: Duration = Duration::from_millis(50);

/// Returns the memory of this process, bytes; 0 if the kernel does not report it.
pub(super) fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * PAGE_BYTES
}

/// Waits until this process uses more than `most` bytes.
pub(super) async fn beyond(most: usize) {
    while resident_bytes() <= most {
        tokio::time::sleep(PERIOD).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_seen_when_it_grows() {
        let before = resident_bytes();
        assert!(before > 1_000_000);
        let waits = tokio::time::timeout(Duration::from_millis(200), beyond(usize::MAX));
        assert!(waits.await.is_err());
        tokio::time::timeout(Duration::from_secs(5), beyond(before / 2)).await.unwrap();
    }
}
