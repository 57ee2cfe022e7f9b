//! The workload of a cgroup, as rows name it: container, pod, namespace, systemd unit.
//!
//! What does not belong here: where the names come from (crate `iowhy-capture`).

use super::file::FileActivity;
use super::names::{Name, Names};
use super::process::Process;
use super::request::Request;
use super::wait::{Wait, WaitChain};

/// The columns of a row that follow from its cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WorkloadNames {
    /// The container or systemd unit by its best name.
    pub container: Option<Name>,
    /// The Kubernetes pod.
    pub pod: Option<Name>,
    /// The pod's namespace.
    pub namespace: Option<Name>,
    /// The container's name.
    pub container_name: Option<Name>,
    /// The innermost systemd unit or slice.
    pub unit: Option<Name>,
}

/// Rows that have these columns.
macro_rules! rows {
    ($($row:ty),+ $(,)?) => {$(
        impl $row {
            /// Returns the workload of the row's cgroup.
            pub fn workload(&self) -> WorkloadNames {
                WorkloadNames {
                    container: self.container,
                    pod: self.pod,
                    namespace: self.namespace,
                    container_name: self.container_name,
                    unit: self.unit,
                }
            }

            /// Returns the row with these names of its cgroup's workload.
            pub fn running(mut self, names: WorkloadNames) -> Self {
                self.container = names.container;
                self.pod = names.pod;
                self.namespace = names.namespace;
                self.container_name = names.container_name;
                self.unit = names.unit;
                self
            }
        }
    )+};
}

rows!(Request, Wait, WaitChain, FileActivity, Process);

/// The workloads that a filter keeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadFilter {
    /// Pods, as `NAME` or `NAMESPACE/NAME`.
    pub pods: Vec<String>,
    /// Namespaces of pods.
    pub namespaces: Vec<String>,
    /// systemd units and slices; `.service` may be left out.
    pub units: Vec<String>,
}

impl WorkloadFilter {
    /// Whether it keeps everything.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.namespaces.is_empty() && self.units.is_empty()
    }

    /// Whether a row of this cgroup is kept.
    pub fn keeps(
        &self,
        cgroup: Option<Name>,
        pod: Option<Name>,
        namespace: Option<Name>,
        names: &Names,
    ) -> bool {
        let text = |name: Option<Name>| name.map(|name| names.get(name));
        let (pod, namespace) = (text(pod), text(namespace));
        let is_pod = |wanted: &String| match wanted.split_once('/') {
            Some((space, name)) => namespace == Some(space) && pod == Some(name),
            None => pod == Some(wanted.as_str()),
        };
        let is_unit = |wanted: &String| {
            let mut parts = text(cgroup).unwrap_or_default().split('/');
            parts.any(|part| part == wanted || part.strip_suffix(".service") == Some(wanted))
        };
        (self.pods.is_empty() || self.pods.iter().any(is_pod))
            && (self.namespaces.is_empty()
                || self.namespaces.iter().any(|wanted| namespace == Some(wanted.as_str())))
            && (self.units.is_empty() || self.units.iter().any(is_unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_asked_for_by_pod_namespace_or_unit() {
        let mut names = Names::new();
        let mut name = |text: &str| Some(names.intern(text));
        let cgroup = name("/system.slice/db.service/worker");
        let (pod, namespace) = (name("db-0"), name("shop"));
        let keeps = |pods: &[&str], spaces: &[&str], units: &[&str]| {
            let own = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect();
            let filter =
                WorkloadFilter { pods: own(pods), namespaces: own(spaces), units: own(units) };
            filter.keeps(cgroup, pod, namespace, &names)
        };
        assert!(keeps(&["db-0"], &[], &[]) && keeps(&["web", "shop/db-0"], &["shop"], &[]));
        assert!(!keeps(&["db"], &[], &[]) && !keeps(&["test/db-0"], &[], &[]));
        assert!(!keeps(&["db-0"], &["test"], &[]));
        assert!(keeps(&[], &[], &["db"]) && keeps(&[], &[], &["system.slice"]));
        assert!(keeps(&[], &[], &["db.service"]) && !keeps(&[], &[], &["d", "system"]));
        assert!(WorkloadFilter::default().keeps(None, None, None, &names));
    }
}
