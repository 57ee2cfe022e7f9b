//! Bandwidth and patience: the rate of sending, and the wait before another try.
//!
//! What does not belong here: the data that is sent.

use crate::error::{FleetError, Result};
use rand::Rng;
use std::time::{Duration, Instant};

/// The first wait is at most this; each further one at most twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Bandwidth and patience of one run.
#[derive(Debug)]
pub struct PushPace {
    bytes_per_second: Option<u64>,
    patience: Duration,
    failing_since: Option<Instant>,
    tries: u32,
    retries: u32,
}

impl PushPace {
    /// At most so many bytes a second; gives up when the store has failed for `patience`.
    pub const fn new(bytes_per_second: Option<u64>, patience: Duration) -> PushPace {
        PushPace { bytes_per_second, patience, failing_since: None, tries: 0, retries: 0 }
    }

    /// Tries that failed.
    pub const fn retries(&self) -> u32 {
        self.retries
    }

    /// Waits as long as so many bytes may take at least.
    pub async fn sent(&mut self, bytes: u64) {
        self.failing_since = None;
        self.tries = 0;
        if let Some(limit) = self.bytes_per_second {
            tokio::time::sleep(Duration::from_secs_f64(bytes as f64 / limit.max(1) as f64)).await;
        }
    }

    /// Waits before another try, for a random time: thousands of hosts must not come back at once.
    ///
    /// # Errors
    /// Returns the error if another try would meet it again or patience is at its end.
    pub async fn wait_after(&mut self, error: FleetError) -> Result<()> {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        let wait = self.next_wait(rand::rng().random());
        if !error.is_transient || since.elapsed() + wait > self.patience {
            return Err(error);
        }
        self.retries += 1;
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// `share` of the longest that the next wait may be.
    fn next_wait(&mut self, share: f64) -> Duration {
        let most = FIRST_WAIT.saturating_mul(1 << self.tries.min(16)).min(LONGEST_WAIT);
        self.tries += 1;
        most.mul_f64(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let mut pace = PushPace::new(None, Duration::from_secs(1));
        let waits: Vec<Duration> = (0..40).map(|_| pace.next_wait(1.0)).collect();
        assert_eq!(waits[..3], [FIRST_WAIT, FIRST_WAIT * 2, FIRST_WAIT * 4]);
        assert!(waits.is_sorted() && *waits.last().unwrap() == LONGEST_WAIT);
        assert_eq!(pace.next_wait(0.0), Duration::ZERO);
    }

    #[tokio::test]
    async fn what_another_try_would_meet_is_not_tried_again() {
        let mut pace = PushPace::new(None, Duration::from_secs(60));
        assert!(pace.wait_after(FleetError::new("no permission")).await.is_err());
        assert_eq!(pace.retries(), 0);
        let mut hasty = PushPace::new(None, Duration::ZERO);
        hasty.failing_since = Some(Instant::now() - Duration::from_secs(1));
        assert!(hasty.wait_after(FleetError::new("timed out").transient()).await.is_err());
    }
}
