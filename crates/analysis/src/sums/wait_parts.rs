//! A wait as parts by class.
//!
//! What does not belong here: which class a stack has, and which part is which (`waits`).

use iowhy_model::{Wait, WaitClass};

/// The parts of a wait, which add up to it: one of each class.
pub(crate) fn parts_of(wait: &Wait) -> impl Iterator<Item = (WaitClass, u64)> {
    let mut parts = [
        (WaitClass::Device, wait.device_ns),
        (WaitClass::Queue, wait.queue_ns),
        (WaitClass::RunQueue, wait.run_queue_ns),
        (wait.class, 0),
    ];
    let known = parts.iter().fold(0_u64, |sum, (_, time)| sum.saturating_add(*time));
    let rest = wait.duration_ns.saturating_sub(known);
    if let Some((_, own)) = parts.iter_mut().find(|(class, _)| *class == wait.class) {
        *own = own.saturating_add(rest);
    }
    parts.into_iter().filter(|(_, time)| *time > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::script::Script;

    #[test]
    fn a_wait_is_one_of_each_class_and_its_parts_add_up() {
        let of = |class| {
            let mut script = Script::new(1);
            script.wait((7, "cat"), class, 10, 4, 1);
            let wait = Wait { queue_ns: 3, ..script.batch.waits[0].clone() };
            parts_of(&wait).collect::<Vec<_>>()
        };
        use WaitClass::{Device, Fsync, Queue, RunQueue};
        assert_eq!(of(Device), [(Device, 6), (Queue, 3), (RunQueue, 1)]);
        assert_eq!(of(Queue), [(Device, 4), (Queue, 5), (RunQueue, 1)]);
        assert_eq!(of(Fsync), [(Device, 4), (Queue, 3), (RunQueue, 1), (Fsync, 2)]);
    }
}
