//! A filter that keeps of redacted rows what the user's filter keeps of the original ones.
//!
//! What does not belong here: operations, flags and times, which are not redacted.

use super::Redactor;
use iowhy_model::{Filter, WorkloadFilter};

impl Redactor {
    /// Returns the filter for redacted rows. A path that ends within a word keeps nothing.
    pub fn filter(&self, filter: &Filter) -> Filter {
        let words = |texts: &[String]| texts.iter().map(|text| self.words(text)).collect();
        let process = |text: &String| match text.parse::<u32>() {
            Ok(_) => text.clone(),
            Err(_) => self.process(text),
        };
        Filter {
            devices: filter.devices.iter().map(|name| self.device_name(name)).collect(),
            processes: filter.processes.iter().map(process).collect(),
            cgroups: words(&filter.cgroups),
            workloads: WorkloadFilter {
                pods: words(&filter.workloads.pods),
                namespaces: words(&filter.workloads.namespaces),
                units: words(&filter.workloads.units),
            },
            files: words(&filter.files),
            volumes: words(&filter.volumes),
            operations: filter.operations.clone(),
            flags: filter.flags.clone(),
            latency_ns: filter.latency_ns,
        }
    }
}
