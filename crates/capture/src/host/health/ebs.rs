//! The statistics of an Amazon EBS volume: log page 0xD0 of its controller, by the layout that
//! Amazon's own driver for Kubernetes reads (aws-ebs-csi-driver, pkg/metrics/nvme.go). Those of
//! instance storage are on the same page with another number in front, by the layout that Amazon's
//! CloudWatch agent reads (receiver/awsnvmereceiver); the fields of the volume's limits have no
//! meaning there.
//!
//! What does not belong here: how it is fetched (`passthrough`).

use super::nvme::number;
use super::passthrough::{AdminRead, AnswersAdmin};
use iowhy_model::health::VolumeStatistics;

/// A kind of storage that has the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AmazonStorage {
    /// A volume on the network.
    Volume,
    /// A drive in the machine.
    Instance,
}

impl AmazonStorage {
    /// By the controller's model; no other one is asked for a vendor's page.
    pub fn from_model(model: &str) -> Option<AmazonStorage> {
        if model.contains("Amazon Elastic Block Store") {
            return Some(AmazonStorage::Volume);
        }
        model.contains("Amazon EC2 NVMe Instance Storage").then_some(AmazonStorage::Instance)
    }

    /// Returns the number that the page begins with, and its length in bytes. Behind it are four
    /// bytes without meaning on instance storage.
    fn begins(self) -> (u64, usize) {
        match self {
            AmazonStorage::Volume => (0x3c23_b510, WIDTH),
            AmazonStorage::Instance => (0xec2c_0d7e, 4),
        }
    }
}

const PAGE: u8 = 0xd0;
const PAGE_BYTES: u32 = 4096;
/// Numbers behind it, and the bytes of each.
const NUMBERS: usize = 11;
const WIDTH: usize = 8;

/// Reads the page.
///
/// # Errors
///
/// Fails if the page cannot be read, with the reason in half a sentence.
pub(super) fn read(
    controller: &dyn AnswersAdmin,
    storage: AmazonStorage,
) -> Result<VolumeStatistics, String> {
    let page =
        AdminRead::LogPage { page: PAGE, namespace: 1, bytes: PAGE_BYTES, keeps_events: true };
    parse(&controller.read(page)?, storage)
}

fn parse(page: &[u8], storage: AmazonStorage) -> Result<VolumeStatistics, String> {
    if page.len() < (NUMBERS + 1) * WIDTH {
        return Err(format!("its statistics are cut off after {} bytes", page.len()));
    }
    let (expected, width) = storage.begins();
    let magic = number(page, 0, width);
    if magic != expected {
        return Err(format!("its statistics have a layout that is not known ({magic:#x})"));
    }
    let at = |index: usize| number(page, (index + 1) * WIDTH, WIDTH);
    let of_volume = |index: usize| if storage == AmazonStorage::Volume { at(index) } else { 0 };
    Ok(VolumeStatistics {
        reads: at(0),
        writes: at(1),
        read_bytes: at(2),
        write_bytes: at(3),
        read_us: at(4),
        write_us: at(5),
        volume_iops_exceeded_us: of_volume(6),
        volume_throughput_exceeded_us: of_volume(7),
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

    const VOLUME: u64 = 0x3c23_b510;
    const INSTANCE: u64 = 0xec2c_0d7e;

    #[test]
    fn numbers_are_in_the_published_order() {
        let found = read(&Double(VOLUME), AmazonStorage::Volume).expect("a page");
        assert_eq!((found.reads, found.write_us), (100, 105));
        assert_eq!(found.volume_iops_exceeded_us, 106);
        assert_eq!(found.volume_throughput_exceeded_us, 107);
        assert_eq!(found.instance_iops_exceeded_us, 108);
        assert_eq!((found.instance_throughput_exceeded_us, found.queue_length), (109, 110));
        // The bytes behind the number of instance storage have no meaning.
        for magic in [INSTANCE, INSTANCE | 7 << 32] {
            let found = read(&Double(magic), AmazonStorage::Instance).expect("a page");
            assert_eq!((found.reads, found.write_us, found.queue_length), (100, 105, 110));
            assert_eq!(
                (found.volume_iops_exceeded_us, found.volume_throughput_exceeded_us),
                (0, 0)
            );
            assert_eq!(found.instance_iops_exceeded_us, 108);
            assert_eq!(found.instance_throughput_exceeded_us, 109);
        }
    }

    #[test]
    fn another_layout_is_refused() {
        for storage in [AmazonStorage::Volume, AmazonStorage::Instance] {
            let error = read(&Double(0xdead), storage).expect_err("another magic");
            assert_eq!(error, "its statistics have a layout that is not known (0xdead)");
            assert!(parse(&page(storage.begins().0)[..95], storage).is_err());
            assert!(parse(&[], storage).is_err());
        }
        assert!(read(&Double(INSTANCE), AmazonStorage::Volume).is_err(), "the other one's");
        assert!(read(&Double(VOLUME), AmazonStorage::Instance).is_err(), "the other one's");
        assert!(read(&Double(VOLUME | 1 << 32), AmazonStorage::Volume).is_err(), "eight bytes");
    }

    #[test]
    fn other_drives_are_not_asked() {
        let of = AmazonStorage::from_model;
        assert_eq!(of("Amazon Elastic Block Store              "), Some(AmazonStorage::Volume));
        assert_eq!(of("Amazon EC2 NVMe Instance Storage"), Some(AmazonStorage::Instance));
        assert_eq!((of("Samsung SSD 990 PRO"), of("")), (None, None));
    }
}
