//! The statistics of an Amazon EBS volume: log page 0xD0 of its controller, by the layout that
//! Amazon's own driver for Kubernetes reads (aws-ebs-csi-driver, pkg/metrics/nvme.go).
//!
//! What does not belong here: how it is fetched (`passthrough`).

use super::nvme::number;
use super::passthrough::{AdminRead, AnswersAdmin};
use iowhy_core::model::health::VolumeStatistics;

/// The model of a volume; no other controller is asked for a vendor's page.
pub(super) const MODEL: &str = "Amazon Elastic Block Store";
const PAGE: u8 = 0xd0;
const PAGE_BYTES: u32 = 4096;
/// What the page begins with.
const MAGIC: u64 = 0x3c23_b510;
/// Numbers behind it, and the bytes of each.
const NUMBERS: usize = 11;
const WIDTH: usize = 8;

/// Reads the page.
///
/// # Errors
///
/// Why it cannot be read, in half a sentence.
pub(super) fn read(controller: &dyn AnswersAdmin) -> Result<VolumeStatistics, String> {
    let page =
        AdminRead::LogPage { page: PAGE, namespace: 1, bytes: PAGE_BYTES, keeps_events: true };
    parse(&controller.read(page)?)
}

fn parse(page: &[u8]) -> Result<VolumeStatistics, String> {
    if page.len() < (NUMBERS + 1) * WIDTH {
        return Err(format!("its statistics are cut off after {} bytes", page.len()));
    }
    let magic = number(page, 0, WIDTH);
    if magic != MAGIC {
        return Err(format!("its statistics have a layout that is not known ({magic:#x})"));
    }
    let at = |index: usize| number(page, (index + 1) * WIDTH, WIDTH);
    Ok(VolumeStatistics {
        reads: at(0),
        writes: at(1),
        read_bytes: at(2),
        write_bytes: at(3),
        read_us: at(4),
        write_us: at(5),
        volume_iops_exceeded_us: at(6),
        volume_throughput_exceeded_us: at(7),
        instance_iops_exceeded_us: at(8),
        instance_throughput_exceeded_us: at(9),
        queue_length: at(10),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(magic: u64) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES as usize];
        page[..8].copy_from_slice(&magic.to_le_bytes());
        for index in 0..NUMBERS {
            let at = (index + 1) * WIDTH;
            page[at..at + WIDTH].copy_from_slice(&(index as u64 + 100).to_le_bytes());
        }
        page
    }

    struct Double(u64);

    impl AnswersAdmin for Double {
        fn read(&self, command: AdminRead) -> Result<Vec<u8>, String> {
            let AdminRead::LogPage { page: 0xd0, namespace: 1, bytes: 4096, .. } = command else {
                return Err(format!("{command:?}"));
            };
            Ok(page(self.0))
        }
    }

    #[test]
    fn numbers_are_in_the_published_order() {
        let found = read(&Double(MAGIC)).expect("a page");
        assert_eq!((found.reads, found.write_us), (100, 105));
        assert_eq!(found.volume_iops_exceeded_us, 106);
        assert_eq!(found.volume_throughput_exceeded_us, 107);
        assert_eq!(found.instance_iops_exceeded_us, 108);
        assert_eq!((found.instance_throughput_exceeded_us, found.queue_length), (109, 110));
    }

    #[test]
    fn another_layout_is_refused() {
        let error = read(&Double(0xdead)).expect_err("another magic");
        assert_eq!(error, "its statistics have a layout that is not known (0xdead)");
        assert!(parse(&page(MAGIC)[..95]).is_err());
        assert!(parse(&[]).is_err());
    }
}
