//! Trees as the engines write them, and hostile ones.

use super::path::{CgroupPath, workload_of};
use super::volume::volume_of;
use super::*;
use std::fs;
use std::os::unix::fs::symlink;

const ID: &str = "4f5c0f7d6f0e9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a";
const OTHER: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const UID: &str = "2b698bd8-b22c-4173-bf9d-900c652aab26";

/// A tree of files below a directory of this test.
struct Node(tempfile::TempDir);

impl Node {
    fn new() -> Node {
        Node(tempfile::tempdir().unwrap())
    }

    fn write(self, path: &str, text: &str) -> Node {
        let path = join(self.0.path(), path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn directory(self, path: &str) -> Node {
        fs::create_dir_all(join(self.0.path(), path)).unwrap();
        self
    }

    /// Writes the files that the kubelet makes for a pod with one container.
    fn pod(self, namespace: &str, pod: &str, uid: &str, container: &str, id: &str) -> Node {
        let logs = format!("/var/log/pods/{namespace}_{pod}_{uid}");
        let node = self.write(&format!("{logs}/{container}/0.log"), "");
        let link = format!("/var/log/containers/{pod}_{namespace}_{container}-{id}.log");
        let link = join(node.0.path(), &link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(format!("{logs}/{container}/0.log"), link).unwrap();
        node
    }

    fn of(&self, cgroup: &str) -> Workload {
        Workloads::below(self.0.path()).of(cgroup)
    }
}

fn systemd(uid: &str, id: &str) -> String {
    let uid = uid.replace('-', "_");
    format!(
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice/\
         cri-containerd-{id}.scope"
    )
}

fn named(workload: &Workload) -> [Option<&str>; 5] {
    let Workload { container, pod, namespace, container_name, image, .. } = workload;
    [container, pod, namespace, container_name, image].map(Option::as_deref)
}

#[test]
fn paths_alone_name_engines_units_and_machines() {
    let cases = [
        ("/".to_owned(), None, None),
        ("/user.slice".to_owned(), None, Some("user.slice")),
        (
            "/system.slice/jenkins.service".to_owned(),
            Some("jenkins.service"),
            Some("jenkins.service"),
        ),
        (format!("/docker/{ID}"), Some("docker:4f5c0f7d6f0e"), None),
        (
            format!("/docker/{ID}/system.slice/nginx.service"),
            Some("docker:4f5c0f7d6f0e"),
            Some("nginx.service"),
        ),
        (format!("/system.slice/docker-{ID}.scope"), Some("docker:4f5c0f7d6f0e"), None),
        (format!("/machine.slice/libpod-{ID}.scope/container"), Some("podman:4f5c0f7d6f0e"), None),
        (format!("/some/{ID}"), Some("container:4f5c0f7d6f0e"), None),
        (
            "/user.slice/user-0.slice/session-3.scope".to_owned(),
            Some("session-3.scope"),
            Some("session-3.scope"),
        ),
        (
            "/machine.slice/machine-qemu\\x2d3\\x2dweb\\x2d1.scope/libvirt/emulator".to_owned(),
            Some("libvirt:web-1"),
            None,
        ),
        ("/machine/db.libvirt-qemu/vcpu0".to_owned(), Some("libvirt:db"), None),
        ("/lxc.payload.mail".to_owned(), Some("lxc:mail"), None),
        (
            "/lxc/mail/system.slice/exim4.service".to_owned(),
            Some("lxc:mail"),
            Some("exim4.service"),
        ),
        (
            "/machine.slice/systemd-nspawn@test\\x2d1.service/payload".to_owned(),
            Some("nspawn:test-1"),
            None,
        ),
    ];
    for (path, container, unit) in cases {
        let found = workload_of(&path);
        assert_eq!(found.container.as_deref(), container, "{path}");
        assert!(unit.is_none() || found.unit.as_deref() == unit, "{path}: {found:?}");
    }
}

#[test]
fn a_pod_is_named_from_the_kubelet_s_directories() {
    let node = Node::new().pod("shop", "db-0", UID, "postgres", ID);
    let expected = [Some("pod:shop/db-0/postgres"), Some("db-0"), Some("shop"), Some("postgres")];
    for path in [
        systemd(UID, ID),
        format!("/kubepods/burstable/pod{UID}/{ID}"),
        format!(
            "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{}.slice/crio-{ID}.scope",
            UID.replace('-', "_")
        ),
        // A process of the container that made a cgroup of its own.
        format!("{}/init.scope", systemd(UID, ID)),
    ] {
        assert_eq!(named(&node.of(&path))[..4], expected, "{path}");
    }
    // Pods from files of the node have 32 digits.
    let node = Node::new().pod("kube-system", "etcd-n1", &UID.replace('-', ""), "etcd", ID);
    let found = node.of(&format!("/kubepods/pod{}/{ID}", UID.replace('-', "")));
    assert_eq!(found.container.as_deref(), Some("pod:kube-system/etcd-n1/etcd"));
    // The pod's own cgroup, and its sandbox.
    let node = Node::new().pod("shop", "db-0", UID, "postgres", ID);
    assert_eq!(named(&node.of(&systemd(UID, OTHER)))[0], Some("pod:shop/db-0"));
    assert_eq!(named(&node.of(&format!("/kubepods/pod{UID}")))[0], Some("pod:shop/db-0"));
}

#[test]
fn engines_describe_what_links_do_not() {
    let annotations = format!(
        r#"{{"ociVersion":"1.1.0","process":{{"args":["x"]}},"annotations":{{
        "io.kubernetes.cri.container-name":"postgres",
        "io.kubernetes.cri.container-type":"container",
        "io.kubernetes.cri.image-name":"docker.io/library/postgres:16",
        "io.kubernetes.cri.sandbox-id":"{OTHER}",
        "io.kubernetes.cri.sandbox-name":"db-0","io.kubernetes.cri.sandbox-namespace":"shop",
        "io.kubernetes.cri.sandbox-uid":"{UID}"}}}}"#
    );
    let config = format!("/run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}/config.json");
    let image = Some("docker.io/library/postgres:16");
    let expected =
        [Some("pod:shop/db-0/postgres"), Some("db-0"), Some("shop"), Some("postgres"), image];
    let node = Node::new().write(&config, &annotations);
    assert_eq!(named(&node.of(&systemd(UID, ID))), expected);
    // The container's annotations are of another pod than the path.
    let wrong = node.of(&systemd("99999999-b22c-4173-bf9d-900c652aab26", ID));
    assert_eq!(named(&wrong), [Some("containerd:4f5c0f7d6f0e"), None, None, None, None]);
    let crio = format!("/run/containers/storage/overlay-containers/{ID}/userdata/config.json");
    let annotations = format!(
        r#"{{"annotations":{{"io.kubernetes.container.name":"app","io.kubernetes.pod.name":"web-1",
        "io.kubernetes.pod.namespace":"test","io.kubernetes.pod.uid":"{UID}",
        "io.kubernetes.cri-o.ImageName":"quay.io/app:2"}}}}"#
    );
    let found = Node::new().write(&crio, &annotations).of(&systemd(UID, ID));
    assert_eq!(
        named(&found),
        [
            Some("pod:test/web-1/app"),
            Some("web-1"),
            Some("test"),
            Some("app"),
            Some("quay.io/app:2")
        ]
    );
}

#[test]
fn docker_and_podman_containers_have_their_names() {
    let docker = format!("/var/lib/docker/containers/{ID}/config.v2.json");
    let text = format!(
        r#"{{"StreamConfig":{{}},"State":{{"Running":true}},"ID":"{ID}",
        "Config":{{"Hostname":"x","Image":"nginx:1.27",
        "Labels":{{"com.docker.compose.service":"web"}}}},"Name":"/shop-web-1",
        "Driver":"overlay2"}}"#
    );
    let found = Node::new().write(&docker, &text).of(&format!("/system.slice/docker-{ID}.scope"));
    let name = Some("shop-web-1");
    assert_eq!(named(&found), [Some("docker:shop-web-1"), None, None, name, Some("nginx:1.27")]);
    let list = "/var/lib/containers/storage/overlay-containers/containers.json";
    let text = format!(
        r#"[{{"id":"{OTHER}","names":["old"],"image":"a"}},{{"id":"{ID}","names":["mail"],
        "image":"579635db3532",
        "layer":"l",
        "metadata":"{{\"image-name\":\"quay.io/mail:3\",\"image-id\":\"57\",\"name\":\"mail\"}}",
        "created":"2026-01-01T00:00:00Z"}}]"#
    );
    let node = Node::new().write(list, &text);
    let found = node.of(&format!("/machine.slice/libpod-{ID}.scope/container"));
    let expected = [Some("podman:mail"), None, None, Some("mail"), Some("quay.io/mail:3")];
    assert_eq!(named(&found), expected);
}

#[test]
fn who_imitates_a_pod_or_container_gets_no_name() {
    let docker = format!("/var/lib/docker/containers/{ID}/config.v2.json");
    let node =
        Node::new().pod("shop", "db-0", UID, "postgres", ID).write(&docker, r#"{"Name":"/web"}"#);
    for prefix in [
        "/user.slice/user-1000.slice/user@1000.service/app.slice",
        "/system.slice/evil.service",
        "/user.slice",
    ] {
        let path = format!("{prefix}{}", systemd(UID, ID));
        let found = node.of(&path);
        assert_eq!((found.pod, found.namespace), (None, None), "{path}");
    }
    let path = format!("/user.slice/user-1000.slice/user@1000.service/docker-{ID}.scope");
    assert_eq!(node.of(&path).container_name, None);
    // Nobody knows these.
    for path in [
        systemd("aaaaaaaa-b22c-4173-bf9d-900c652aab26", OTHER),
        format!("/kubepods/pod../../../etc/{ID}"),
        format!("/kubepods/pod{UID}x/{ID}"),
        "/kubepods/burstable".to_owned(),
        "/kubepods-pod.slice".to_owned(),
    ] {
        assert_eq!(node.of(&path).pod, None, "{path}");
    }
}

#[test]
fn hostile_trees_are_read_for_what_they_are() {
    // A link to a file elsewhere, a huge file, a directory, a pipe, no JSON, control characters.
    let docker = |id: &str| format!("/var/lib/docker/containers/{id}/config.v2.json");
    let node = Node::new()
        .write("/secret", r#"{"Name":"/stolen"}"#)
        .directory(&format!("/var/lib/docker/containers/{ID}"));
    let path = join(node.0.path(), &docker(ID));
    symlink(join(node.0.path(), "/secret"), &path).unwrap();
    assert_eq!(node.of(&format!("/docker/{ID}")).container_name, None);
    fs::remove_file(&path).unwrap();
    let huge = fs::File::create(&path).unwrap();
    huge.set_len(1 << 40).unwrap();
    assert_eq!(node.of(&format!("/docker/{ID}")).container_name, None);
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert_eq!(node.of(&format!("/docker/{ID}")).container_name, None);
    fs::remove_file(&path).unwrap();
    for text in ["", "[]", "{", r#"{"Name":7}"#, r#"{"Name":"/a\u001b[31m"}"#, r#"{"Name":"/"}"#] {
        fs::write(&path, text).unwrap();
        assert_eq!(node.of(&format!("/docker/{ID}")).container_name, None, "{text}");
    }
    // A link among the pods is none, nor is what no pod can be called.
    let node = Node::new().directory("/var/log/pods").directory("/elsewhere");
    let pods = join(node.0.path(), "/var/log/pods");
    symlink(join(node.0.path(), "/elsewhere"), pods.join(format!("shop_db-0_{UID}"))).unwrap();
    fs::create_dir(pods.join(format!("shop_DB;rm_{UID}"))).unwrap();
    fs::create_dir(pods.join(format!("a_b_c_{UID}"))).unwrap();
    assert_eq!(node.of(&systemd(UID, ID)).pod, None);
}

#[test]
fn thousands_of_pods_are_read_once() {
    let node = Node::new();
    for index in 0..3000 {
        let directory = format!("/var/log/pods/ns_pod-{index}_{:08x}{}", index, &UID[8..]);
        fs::create_dir_all(join(node.0.path(), &directory)).unwrap();
    }
    let mut workloads = Workloads::below(node.0.path());
    let begun = std::time::Instant::now();
    for index in 0..3000 {
        let path = systemd(&format!("{index:08x}{}", &UID[8..]), &format!("{index:064x}"));
        assert_eq!(workloads.of(&path).pod, Some(format!("pod-{index}")));
    }
    // Ids that nobody knows do not make it read again each time.
    assert!(begun.elapsed() < std::time::Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[test]
fn files_are_on_volumes() {
    let pods = format!("/var/lib/kubelet/pods/{UID}");
    for (path, volume) in [
        (format!("{pods}/volumes/kubernetes.io~csi/pvc-8d21/mount/base/1"), Some("pvc-8d21")),
        (format!("{pods}/volumes/kubernetes.io~empty-dir/cache/x"), Some("empty-dir:cache")),
        (format!("{pods}/volumes/kubernetes.io~local-volume/disk-3/x"), Some("disk-3")),
        (format!("{pods}/volume-subpaths/pvc-8d21/postgres/0"), Some("pvc-8d21")),
        (format!("{pods}/containers/postgres/x"), None),
        ("/var/lib/docker/volumes/web-data/_data/a".to_owned(), Some("web-data")),
        ("/var/lib/docker/volumes/metadata.db".to_owned(), None),
        ("/var/lib/containers/storage/volumes/mail/_data".to_owned(), Some("mail")),
        (format!("/home/eve/var/lib/kubelet/pods/{UID}/volumes/kubernetes.io~csi/x/y"), None),
        ("/var/lib/kubelet/pods/no-uid/volumes/kubernetes.io~csi/x/y".to_owned(), None),
    ] {
        assert_eq!(volume_of(&path).as_deref(), volume, "{path}");
    }
}

#[test]
fn a_volume_is_found_under_any_mount_of_its_file_system() {
    // The CSI driver mounts it for the node first, then the kubelet for the pod; another pod has a
    // subdirectory of it.
    let mounts = crate::host::mounts::Mounts::parse(&format!(
        "25 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
         80 25 8:16 / /var/lib/kubelet/plugins/kubernetes.io/csi/ebs/9f/globalmount rw - ext4 \
         /dev/sdb rw\n\
         81 25 8:16 / /var/lib/kubelet/pods/{UID}/volumes/kubernetes.io~csi/pvc-8d21/mount rw - \
         ext4 /dev/sdb rw\n"
    ));
    let volume = |minor, file| mounts.paths(8, minor, file).find_map(|path| volume_of(&path));
    assert_eq!(volume(16, "/base/16384/2619").as_deref(), Some("pvc-8d21"));
    assert_eq!(volume(1, "/base/16384/2619"), None);
    let own = format!("/var/lib/kubelet/pods/{UID}/volumes/kubernetes.io~empty-dir/tmp/x");
    assert_eq!(volume(1, &own).as_deref(), Some("empty-dir:tmp"));
}

#[test]
fn no_path_breaks_it() {
    let dots = format!("pod{UID}");
    let parts = [
        "",
        ".",
        "..",
        "kubepods",
        "kubepods.slice",
        "-pod",
        "kubepods-pod.slice",
        &dots,
        ID,
        "docker-.scope",
        "machine-.scope",
        "machine-qemu\\x2d.scope",
        "\\x",
        "\\xé",
        "é.slice",
        "lxc",
        "lxc.payload.",
        ".libvirt-qemu",
        "systemd-nspawn@.service",
        "user@",
        ".service",
    ];
    let node = Node::new().pod("shop", "db-0", UID, "postgres", ID);
    let mut workloads = Workloads::below(node.0.path());
    for first in parts {
        for second in parts {
            for third in parts {
                let path = format!("/{first}/{second}/{third}");
                let id = CgroupPath::parse(&path).container_id;
                assert!(id.is_none_or(|id| id == ID), "{path}");
                let found = workloads.of(&path);
                assert!(found.pod.is_none() || path.contains(&dots), "{path}: {found:?}");
            }
        }
    }
}

/// Files that Debian 12's engines wrote (docker.io 20.10.24, podman 4.3.1), byte for byte, at their
/// places, and the cgroups in which their containers ran.
#[test]
fn what_debians_engines_write_is_understood() {
    let docker = "0e191d837c40abe46ef0318ac3c52306e4258a3f93cdf6dc1c854eb7798bc80e";
    let podman = "7fc689f3cc3f026cc56c141fc472752ce45fd1c45769e6bb7169a21140739447";
    let node = Node::new()
        .write(
            &format!("/var/lib/docker/containers/{docker}/config.v2.json"),
            include_str!("debian12/docker-config.v2.json"),
        )
        .write(
            "/var/lib/containers/storage/overlay-containers/containers.json",
            include_str!("debian12/podman-containers.json"),
        );
    assert_eq!(
        named(&node.of(&format!("/docker/{docker}"))),
        [Some("docker:tree-docker"), None, None, Some("tree-docker"), Some("tiny:1")]
    );
    assert_eq!(
        named(&node.of(&format!("/libpod_parent/libpod-{podman}"))),
        [Some("podman:tree-podman"), None, None, Some("tree-podman"), Some("localhost/tiny:1")]
    );
}
