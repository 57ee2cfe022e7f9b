//! The choice of the next of many streams: a tree of losers, in which the winner's next time meets
//! only those that it has beaten before. The next winner is as good as random, so no branch depends
//! on it.

/// The time of a stream that has ended. Other times are cut to below it.
const ENDED: u64 = u64::MAX;

/// A stream and the time of its next record.
#[derive(Clone, Copy, Debug, Default)]
struct Player {
    time: u64,
    stream: u64,
}

/// The streams by the time of their next record. Among equal times the one that was read last goes
/// on, which is blkparse's order.
#[derive(Debug, Default)]
pub(super) struct Tournament {
    /// The losers of all matches; node 0 holds the winner of all.
    tree: Vec<Player>,
    /// The count of reads at which each stream was read last.
    stamps: Vec<u64>,
    stamp: u64,
    /// The time of the second stream.
    limit: u64,
}

impl Tournament {
    /// Begins with the first time of each stream, in the order of the streams.
    pub(super) fn new(times: impl Iterator<Item = Option<u64>>) -> Tournament {
        let (mut matches, mut players) = (Tournament::default(), Vec::new());
        let mut first: Option<Player> = None;
        for (stream, time) in times.enumerate() {
            let time = time.map_or(ENDED, |time| time.min(ENDED - 1));
            let player = Player { time, stream: stream as u64 };
            players.push(player);
            matches.stamps.push(0);
            if time != ENDED {
                // The loser goes back to wait, which counts as read last.
                let stays = first.filter(|first| first.time <= time);
                let waits = if stays.is_some() { Some(player) } else { first };
                waits.into_iter().for_each(|player| matches.read(player.stream));
                first = stays.or(Some(player));
            }
        }
        first.into_iter().for_each(|player| matches.read(player.stream));
        matches.play(&players);
        matches
    }

    fn read(&mut self, stream: u64) {
        self.stamp += 1;
        if let Some(stamp) = self.stamps.get_mut(stream as usize) {
            *stamp = self.stamp;
        }
    }

    /// Plays all matches.
    fn play(&mut self, players: &[Player]) {
        let count = players.len();
        self.tree = vec![Player { time: ENDED, stream: 0 }; count.max(1)];
        let mut winners = vec![Player::default(); count];
        winners.extend_from_slice(players);
        for node in (1..count).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            let right_wins = self.beats(right, left);
            (winners[node], self.tree[node]) =
                if right_wins { (right, left) } else { (left, right) };
        }
        if let Some(winner) = winners.get(1).or(winners.first()) {
            self.tree[0] = *winner;
        }
        self.limit = self.second();
    }

    #[inline]
    fn beats(&self, one: Player, other: Player) -> bool {
        if one.time == other.time {
            let stamp = |player: Player| self.stamps.get(player.stream as usize);
            return stamp(one) > stamp(other);
        }
        one.time < other.time
    }

    /// The stream that is next; nothing once all have ended.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        self.tree.first().filter(|winner| winner.time != ENDED).map(|winner| winner.stream as usize)
    }

    /// The last time at which the winner still comes before all others.
    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Lets the winner go on from `time`, or end.
    #[inline]
    pub(super) fn advance(&mut self, time: Option<u64>) {
        let Some(winner) = self.tree.first().copied() else { return };
        self.read(winner.stream);
        let time = time.map_or(ENDED, |time| time.min(ENDED - 1));
        let mut best = Player { time, stream: winner.stream };
        let mut node = self.leaf(best) / 2;
        while node > 0 {
            let Some(rival) = self.tree.get(node).copied() else { break };
            // All bits set where the rival wins: the two are swapped without a branch.
            let swap = u64::from(self.beats(rival, best)).wrapping_neg();
            let time = (rival.time ^ best.time) & swap;
            let stream = (rival.stream ^ best.stream) & swap;
            best = Player { time: best.time ^ time, stream: best.stream ^ stream };
            if let Some(loser) = self.tree.get_mut(node) {
                *loser = Player { time: rival.time ^ time, stream: rival.stream ^ stream };
            }
            node /= 2;
        }
        if let Some(first) = self.tree.first_mut() {
            *first = best;
        }
        self.limit = self.second();
    }

    fn leaf(&self, player: Player) -> usize {
        player.stream as usize + self.stamps.len()
    }

    /// The best time on the winner's way up: the second has lost to the winner itself.
    #[inline]
    fn second(&self) -> u64 {
        let mut best = ENDED;
        let mut node = self.tree.first().map_or(0, |winner| self.leaf(*winner)) / 2;
        while let Some(player) = self.tree.get(node).filter(|_| node > 0) {
            best = best.min(player.time);
            node /= 2;
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Merges as blkparse does: the current stream goes on among equal times, then the one that was
    /// put back last.
    fn plain_merge(mut streams: Vec<Vec<u64>>) -> Vec<(usize, u64)> {
        streams.iter_mut().for_each(|times| times.reverse());
        let (mut stamps, mut stamp, mut given) = (vec![0; streams.len()], 0, Vec::new());
        let mut current: Option<usize> = None;
        for index in 0..streams.len() {
            let Some(time) = streams[index].last() else { continue };
            stamp += 1;
            match current {
                Some(other) if streams[other].last() <= Some(time) => stamps[index] = stamp,
                Some(other) => (stamps[other], current) = (stamp, Some(index)),
                None => current = Some(index),
            }
        }
        while let Some(at) = current {
            if let Some(time) = streams[at].pop() {
                given.push((at, time));
                stamp += 1;
                stamps[at] = stamp;
            }
            let left = (0..streams.len()).filter(|index| !streams[*index].is_empty());
            let next = left.min_by_key(|index| (streams[*index].last(), u64::MAX - stamps[*index]));
            current = next;
        }
        given
    }

    #[test]
    fn agrees_with_a_plain_merge() {
        let mut seed = 5u64;
        let mut random = move |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for count in 0..40 {
            let streams: Vec<Vec<u64>> = (0..count)
                .map(|_| {
                    let mut times: Vec<u64> = (0..random(60)).map(|_| random(90)).collect();
                    times.sort_unstable();
                    times
                })
                .collect();
            let mut positions = vec![0; count];
            let next = |index: usize, at: usize| streams[index].get(at).copied();
            let mut matches = Tournament::new((0..count).map(|index| next(index, 0)));
            let mut given = Vec::new();
            while let Some(index) = matches.first() {
                while let Some(time) =
                    next(index, positions[index]).filter(|t| *t <= matches.limit())
                {
                    given.push((index, time));
                    positions[index] += 1;
                }
                matches.advance(next(index, positions[index]));
            }
            assert_eq!(given, plain_merge(streams.clone()), "{count} streams");
        }
    }
}
