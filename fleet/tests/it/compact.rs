//! Uploads become tables: each once, if it is killed anywhere, and from any host.

use crate::support::{DAY_S, TestPlace, WINDOWS_OF_AN_HOUR, directory, plan, program, says};
use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use iowhy_fleet::clock::{FleetHour, HOUR_S};
use iowhy_fleet::commit;
use iowhy_fleet::compact::{CompactLimits, GRACE_S, compact, compact_within};
use iowhy_fleet::host_group::HostGroup;
use iowhy_fleet::simulate::FleetPlan;
use iowhy_fleet::store::Place;
use iowhy_fleet::upload::{UPLOAD_VERSION, Upload, UploadHost};
use object_store::path::Path as ObjectPath;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

const ROWS: &str = "SELECT COUNT(*) FROM hosts";
const REQUESTS: &str = "SELECT SUM(requests) FROM flows";

/// Returns the sum of all uploads of a plan: windows and requests.
fn totals(plan: &FleetPlan) -> (i64, i64) {
    let fleet = plan.fleet();
    let uploads =
        fleet.iter().flat_map(|host| (0..plan.hours).flat_map(|hour| plan.uploads(host, hour)));
    let (mut windows, mut requests) = (0, 0);
    for upload in uploads {
        windows += i64::from(upload.incident.is_none());
        let flows = upload.flows.values().flat_map(|operations| operations.values());
        requests += flows.map(|flow| flow.requests as i64).sum::<i64>();
    }
    (windows, requests)
}

async fn seen(place: &TestPlace) -> (i64, i64) {
    (place.number(ROWS).await, place.number(REQUESTS).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_upload_is_merged_once() {
    let plan = plan(10, 2);
    let test = directory();
    plan.upload(&test.place).await.unwrap();
    let report = compact(&test.place, GRACE_S).await.unwrap();
    assert_eq!((report.hours, report.superseded), (2, 0));
    assert_eq!(seen(&test).await, totals(&plan));
    assert_eq!(totals(&plan).0, 10 * 2 * WINDOWS_OF_AN_HOUR);
    // Again: nothing is there. Sent again, as by hosts that forgot what they sent: nothing is new.
    assert_eq!(compact(&test.place, GRACE_S).await.unwrap().merged, 0);
    plan.upload(&test.place).await.unwrap();
    let again = compact(&test.place, GRACE_S).await.unwrap();
    assert_eq!((again.merged, again.hours), (0, 0));
    assert_eq!(seen(&test).await, totals(&plan));
    assert!(test.place.list("table=incoming").await.unwrap().is_empty());
}

/// Limits at which every merge is one of several.
const LITTLE: CompactLimits = CompactLimits { uploads: 50, row_bytes: 50_000, file_bytes: 7000 };
/// Limits at which every merge divides its hosts.
const LEAST: CompactLimits = CompactLimits { uploads: 1, row_bytes: 1, file_bytes: 1 };

#[tokio::test(flavor = "multi_thread")]
async fn uploads_and_the_direct_way_give_the_same_tables() {
    let plan = crate::support::half_sick(12, 2);
    let direct = directory();
    plan.write(&direct.place).await.unwrap();
    for (limits, is_divided) in [(CompactLimits::default(), false), (LITTLE, true)] {
        let uploaded = directory();
        plan.upload(&uploaded.place).await.unwrap();
        let report = compact_within(&uploaded.place, GRACE_S, limits).await.unwrap();
        assert_eq!((report.hours, report.superseded), (2, 0));
        let hour = FleetHour::from_seconds(DAY_S);
        let state = commit::of_hour(&uploaded.place, hour).await.unwrap().unwrap();
        assert_eq!(state.groups.len() > 2, is_divided, "{:?}", state.groups);
        let hosts = plan.fleet();
        let has_hosts = |group: &&HostGroup| hosts.iter().any(|host| group.has(&host.host.id));
        let with_hosts = state.groups.iter().filter(has_hosts).count();
        assert_eq!(state.files("flows").count(), with_hosts.max(1));
        same_tables(&uploaded, &direct).await;
    }
}

async fn same_tables(uploaded: &TestPlace, direct: &TestPlace) {
    for table in iowhy_fleet::tables::TABLES {
        // The arrival of an upload is known for one of them only.
        let columns = table.columns.iter().filter(|column| column.name != "clock_skew_s");
        let columns: Vec<&str> = columns.map(|column| column.name).collect();
        let keys: Vec<&str> = columns.iter().take(table.keys).copied().collect();
        let sql = format!(
            "SELECT {} FROM {} ORDER BY {}",
            columns.iter().map(|column| format!("\"{column}\"")).collect::<Vec<_>>().join(", "),
            table.name,
            keys.join(", ")
        );
        let rows = |answer: iowhy_fleet::engine::QueryAnswer| {
            iowhy_fleet::output::rows_json(&answer.rows).unwrap()
        };
        let a = rows(uploaded.engine(None).await.query(&sql).await.unwrap());
        let b = rows(direct.engine(None).await.query(&sql).await.unwrap());
        assert_eq!(a, b, "{}", table.name);
        assert!(a.len() > 2, "{} is empty", table.name);
    }
}

fn window(minutes: u8, id: &str, window_s: i64) -> Upload {
    let host = UploadHost { id: id.to_owned(), name: "web-1".to_owned(), ..UploadHost::default() };
    let watched_ns = u64::from(minutes) * 60_000_000_000;
    Upload { version: UPLOAD_VERSION, host, window_s, minutes, watched_ns, ..Upload::default() }
}

async fn send(place: &Place, upload: &Upload) {
    let path = place.path(&upload.name().path());
    place.write(&path, upload.encode().unwrap().into()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn more_minutes_supersede_fewer_in_any_order() {
    const ID: &str = "0123456789abcdef";
    let minutes = "SELECT SUM(minutes) FROM hosts";
    for order in [[4, 10, 7], [10, 7, 4], [4, 7, 10]] {
        let test = directory();
        for count in order {
            send(&test.place, &window(count, ID, DAY_S)).await;
            compact(&test.place, GRACE_S).await.unwrap();
        }
        assert_eq!((test.number(ROWS).await, test.number(minutes).await), (1, 10));
        let together = directory();
        for count in order {
            send(&together.place, &window(count, ID, DAY_S)).await;
        }
        compact(&together.place, GRACE_S).await.unwrap();
        assert_eq!((together.number(ROWS).await, together.number(minutes).await), (1, 10));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_whose_files_were_merged_sees_the_new_ones() {
    let test = directory();
    send(&test.place, &window(10, "0123456789abcdef", DAY_S)).await;
    compact(&test.place, 0).await.unwrap();
    let engine = test.engine(None).await;
    send(&test.place, &window(10, "fedcba9876543210", DAY_S)).await;
    compact(&test.place, 0).await.unwrap();
    assert_eq!(crate::support::number(&engine, "SELECT SUM(minutes) FROM hosts").await, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_replaced_stays_for_those_who_read_it() {
    let test = directory();
    let files = async || test.place.list("table=hosts").await.unwrap().len();
    // The newest state may name an old file: its replacement begins its time of grace.
    for (id, window_s) in [(0, 0), (1, 0), (1, 600), (1, 1200)] {
        let id = ["0123456789abcdef", "fedcba9876543210"][id];
        send(&test.place, &window(10, id, DAY_S + 7200 + window_s)).await;
        compact_within(&test.place, 0, LEAST).await.unwrap();
    }
    assert_eq!(files().await, 2);
    send(&test.place, &window(10, "0123456789abcdef", DAY_S + 7200 + 600)).await;
    compact_within(&test.place, GRACE_S, LEAST).await.unwrap();
    assert_eq!((files().await, test.number(ROWS).await), (3, 5));
    compact(&test.place, 0).await.unwrap();
    assert_eq!((files().await, test.number(ROWS).await), (2, 5));
    let test = directory();
    let files = async || test.place.list("table=hosts").await.unwrap().len();
    for (index, id) in ["0123456789abcdef", "fedcba9876543210"].into_iter().enumerate() {
        send(&test.place, &window(10, id, DAY_S)).await;
        compact(&test.place, GRACE_S).await.unwrap();
        assert_eq!(files().await, index + 1);
    }
    assert_eq!(test.number(ROWS).await, 2);
    // Nothing new came, and the time of grace is over.
    compact(&test.place, 0).await.unwrap();
    assert_eq!((files().await, test.place.list("commits").await.unwrap().len()), (1, 1));
    assert_eq!(test.number(ROWS).await, 2);
}

/// One name that nothing can have, and a loop of links, among the uploads.
#[tokio::test(flavor = "multi_thread")]
async fn one_strange_name_stops_nobody() {
    let test = directory();
    send(&test.place, &window(10, "0123456789abcdef", DAY_S)).await;
    let folder = test.folder.path().join("table=incoming/date=2025-11-24/hour=00");
    std::fs::write(folder.join("\x1b[31mx.json.zst"), "x").unwrap();
    std::os::unix::fs::symlink(test.folder.path(), folder.join("loop")).unwrap();
    let never = test.folder.path().join("table=incoming/date=9999-12-31/hour=23");
    std::fs::create_dir_all(&never).unwrap();
    std::fs::write(never.join("0123456789abcdef.253402297200.m10.json.zst"), "x").unwrap();
    let report = compact(&test.place, GRACE_S).await.unwrap();
    assert_eq!((report.merged, report.strange.len()), (1, 3), "{report:?}");
    let said = says(program().args(["status", "--at", test.text()]));
    assert!(said.contains("3 names among the uploads") && !said.contains('\x1b'), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_with_one_name_stay_two() {
    let test = directory();
    for id in ["0123456789abcdef", "fedcba9876543210"] {
        send(&test.place, &window(10, id, DAY_S)).await;
    }
    compact(&test.place, GRACE_S).await.unwrap();
    assert_eq!(
        test.number("SELECT COUNT(DISTINCT host_id) FROM hosts WHERE host = 'web-1'").await,
        2
    );
    let engine = test.engine(None).await;
    let sections = iowhy_fleet::questions::host::host(&engine, "web-1", DAY_S).await.unwrap();
    assert_eq!(sections[0].rows.len(), 2);
    assert!(sections[0].notes.iter().any(|note| note.contains("Several hosts")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_host_sends_breaks_nothing_of_others() {
    const GOOD: &str = "0123456789abcdef";
    const EVIL: &str = "eeeeeeeeeeeeeeee";
    let test = directory();
    send(&test.place, &window(10, GOOD, DAY_S)).await;
    let evil = window(10, EVIL, DAY_S);
    let name = evil.name().path();
    let put = |name: String, bytes: Vec<u8>| {
        let place = test.place.clone();
        async move { place.write(&place.path(&name), bytes.into()).await.unwrap() }
    };
    put(name.clone(), b"no upload".to_vec()).await;
    put(name.replace("m10", "m09"), vec![0; 300 << 10]).await;
    put(name.replace("m10", "m08"), window(8, GOOD, DAY_S).encode().unwrap()).await;
    put(name.replace(EVIL, "../../table=hosts/evil"), b"x".to_vec()).await;
    put(format!("table=incoming/date=2025-11-24/hour=00/{}", "x".repeat(200)), b"x".to_vec()).await;
    let bomb = zstd::stream::encode_all(vec![b'['; 32 << 20].as_slice(), 19).unwrap();
    put(name.replace("m10", "i000001"), bomb).await;
    // A table's file that nobody committed.
    put("table=hosts/date=2025-11-24/hour=00/evil.parquet".to_owned(), b"PAR1".to_vec()).await;
    // Clocks: years ahead, and before there was iowhy.
    send(&test.place, &window(10, EVIL, 4_102_444_800)).await;
    send(&test.place, &window(10, EVIL, 600)).await;
    let report = compact(&test.place, GRACE_S).await.unwrap();
    assert_eq!(report.merged, 1, "{report:?}");
    assert!(report.refused.len() >= 6, "{report:?}");
    let reasons: Vec<&str> = report.refused.iter().map(|refused| refused.reason.as_str()).collect();
    for reason in ["future", "2020", "another host", "too large"] {
        assert!(reasons.iter().any(|text| text.contains(reason)), "{reason}: {reasons:?}");
    }
    assert_eq!(test.number(ROWS).await, 1);
    assert_eq!(
        test.number(&format!("SELECT COUNT(*) FROM hosts WHERE host_id = '{GOOD}'")).await,
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_compactions_at_once_merge_once() {
    let plan = plan(15, 1);
    let test = directory();
    plan.upload(&test.place).await.unwrap();
    let (a, b, c) = tokio::join!(
        compact(&test.place, GRACE_S),
        compact(&test.place, GRACE_S),
        compact(&test.place, GRACE_S)
    );
    // One that loses may say that it cannot go on; none may spoil anything.
    assert!([&a, &b, &c].iter().any(|result| result.is_ok()));
    compact(&test.place, GRACE_S).await.unwrap();
    assert_eq!(seen(&test).await, totals(&plan));
}

/// A store of which every change after so many fails, as when its user was killed there.
#[derive(Debug)]
struct MortalStore {
    inner: Arc<dyn ObjectStore>,
    left: AtomicI64,
    /// Objects with this in their names can be neither read nor removed, or only not removed.
    closed: &'static str,
    kept: &'static str,
}

fn denied(location: &ObjectPath) -> object_store::Error {
    let source = "somebody else's".into();
    object_store::Error::PermissionDenied { path: location.to_string(), source }
}

impl MortalStore {
    fn new(inner: &Arc<dyn ObjectStore>, left: i64) -> MortalStore {
        let (inner, left) = (Arc::clone(inner), AtomicI64::new(left));
        MortalStore { inner, left, closed: "\0", kept: "\0" }
    }

    fn live(&self) -> object_store::Result<()> {
        match self.left.fetch_sub(1, Ordering::SeqCst) > 0 {
            true => Ok(()),
            false => Err(object_store::Error::Generic { store: "test", source: "killed".into() }),
        }
    }
}

impl std::fmt::Display for MortalStore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("MortalStore")
    }
}

#[async_trait]
impl ObjectStore for MortalStore {
    async fn put_opts(
        &self,
        location: &ObjectPath,
        payload: PutPayload,
        opts: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.live()?;
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &ObjectPath,
        opts: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.live()?;
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(
        &self,
        location: &ObjectPath,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        match location.as_ref().contains(self.closed) {
            true => Err(denied(location)),
            false => self.inner.get_opts(location, options).await,
        }
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<ObjectPath>>,
    ) -> BoxStream<'static, object_store::Result<ObjectPath>> {
        // Each removal is a change of its own.
        let alive = self.left.fetch_sub(1, Ordering::SeqCst).max(0) as usize;
        let kept = [self.closed, self.kept];
        let locations = locations.map(move |location| match location {
            Ok(it) if kept.iter().any(|word| it.as_ref().contains(word)) => Err(denied(&it)),
            location => location,
        });
        let allowed = self.inner.delete_stream(locations.take(alive.min(3)).boxed());
        match alive > 3 {
            true => allowed,
            false => {
                let killed =
                    object_store::Error::Generic { store: "test", source: "killed".into() };
                allowed.chain(futures::stream::iter([Err(killed)])).boxed()
            }
        }
    }

    fn list(
        &self,
        prefix: Option<&ObjectPath>,
    ) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(
        &self,
        prefix: Option<&ObjectPath>,
    ) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &ObjectPath,
        to: &ObjectPath,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.live()?;
        self.inner.copy_opts(from, to, options).await
    }
}

/// Killed after every number of changes: a reader sees the hour before or after, or between two of
/// several parts, and the next run finishes the work.
#[tokio::test(flavor = "multi_thread")]
async fn compaction_can_be_killed_anywhere() {
    const A: &str = "0123456789abcdef";
    const B: &str = "fedcba9876543210";
    for (limits, changes) in [(CompactLimits::default(), 0..16), (LEAST, 0..24)] {
        let mut finished = 0;
        for changes in changes.clone() {
            let test = directory();
            send(&test.place, &window(5, A, DAY_S)).await;
            compact_within(&test.place, GRACE_S, limits).await.unwrap();
            let (before, between) = ((1, 5), (1, 10));
            // A longer version of the same window, a window of another host.
            send(&test.place, &window(10, A, DAY_S)).await;
            send(&test.place, &window(7, B, DAY_S + 600)).await;
            let after = (2, 17);
            let store = Arc::new(MortalStore::new(&test.place.store, changes));
            let mortal = Place { store, ..test.place.clone() };
            finished += u32::from(compact_within(&mortal, 0, limits).await.is_ok());
            let minutes = "SELECT SUM(minutes) FROM hosts";
            let state = async || (test.number(ROWS).await, test.number(minutes).await);
            let seen = state().await;
            let may_be = seen == before || seen == after || limits.uploads == 1 && seen == between;
            assert!(may_be, "killed after {changes} changes: {seen:?}");
            compact_within(&test.place, 0, limits).await.unwrap();
            assert_eq!(state().await, after, "killed after {changes} changes");
            // Nothing is left over: the files that count, one commit.
            let now = commit::of_hour(&test.place, FleetHour::from_seconds(DAY_S))
                .await
                .unwrap()
                .unwrap();
            let files = test.place.list("table=hosts").await.unwrap();
            assert_eq!(files.len(), now.files("hosts").count());
            assert_eq!(test.place.list("commits").await.unwrap().len(), 1);
        }
        assert!((1..changes.end as u32).contains(&finished), "{finished} runs were not killed");
    }
}

/// An upload that cannot be read, one that cannot be removed, and one that is refused and cannot be
/// removed: the others are merged, and the next run has nothing new to say.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_or_removed_stops_nobody() {
    const CLOSED: &str = "cccccccccccccccc";
    const KEPT: &str = "eeeeeeeeeeeeeeee";
    let test = directory();
    send(&test.place, &window(10, "0123456789abcdef", DAY_S)).await;
    send(&test.place, &window(10, CLOSED, DAY_S)).await;
    send(&test.place, &window(10, KEPT, DAY_S)).await;
    let refused = test.place.path(&window(10, KEPT, DAY_S + 600).name().path());
    test.place.write(&refused, "no upload".into()).await.unwrap();
    let store = MortalStore::new(&test.place.store, i64::MAX);
    let place = Place {
        store: Arc::new(MortalStore { closed: CLOSED, kept: KEPT, ..store }),
        ..test.place.clone()
    };
    let report = compact(&place, GRACE_S).await.unwrap();
    assert_eq!((report.merged, report.closed, report.left), (2, 1, 2), "{report:?}");
    assert_eq!((report.refused.len(), test.number(ROWS).await), (1, 2));
    let state = async || commit::of_hour(&place, FleetHour::from_seconds(DAY_S)).await.unwrap();
    let before = state().await.unwrap();
    let report = compact(&place, GRACE_S).await.unwrap();
    assert_eq!((report.merged, report.closed, report.left), (0, 1, 2), "{report:?}");
    assert_eq!(state().await.unwrap(), before);
    // It is merged once it can be read.
    assert_eq!(compact(&test.place, GRACE_S).await.unwrap().merged, 1);
    assert_eq!(test.number(ROWS).await, 3);
}

/// What is no upload may be anybody's: an hour's folder may have been replaced by a link.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_upload_is_not_removed() {
    let test = directory();
    send(&test.place, &window(10, "0123456789abcdef", DAY_S)).await;
    let other = test.folder.path().join("table=incoming/date=2025-11-24/hour=00/shadow");
    std::fs::write(&other, "precious").unwrap();
    let report = compact(&test.place, GRACE_S).await.unwrap();
    assert_eq!((report.merged, report.strange), (1, vec!["shadow".to_owned()]));
    assert_eq!(std::fs::read_to_string(other).unwrap(), "precious");
}

/// A host whose clock is wrong by anything that is accepted, and one that says when its upload
/// arrived, make no other host silent.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_ahead_silences_nobody() {
    const HONEST: &str = "0123456789abcdef";
    let now_s = iowhy_fleet::clock::now_s().div_euclid(600) * 600;
    let test = directory();
    send(&test.place, &window(10, HONEST, now_s - 1200)).await;
    for step in 0..10 {
        send(&test.place, &window(10, &format!("{:016x}", step + 1), now_s + step * 600)).await;
    }
    let future = window(10, "eeeeeeeeeeeeeeee", 4_070_908_800);
    send(&test.place, &future).await;
    let file = test.folder.path().join(future.name().path());
    let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(4_070_909_500);
    std::fs::File::options().write(true).open(file).unwrap().set_modified(then).unwrap();
    let report = compact(&test.place, GRACE_S).await.unwrap();
    assert!(report.merged > 2, "{report:?}");
    assert_eq!(report.merged + report.refused.len(), 12, "{report:?}");
    assert_eq!(test.number("SELECT COUNT(*) FROM hosts WHERE host_id LIKE 'e%'").await, 0);
    use iowhy_fleet::questions::silent::{SILENT_AFTER_S, attendance};
    let found = attendance(&test.engine(None).await, SILENT_AFTER_S).await.unwrap();
    assert_eq!(found.silent, []);
    assert!(found.last_s <= iowhy_fleet::clock::now_s());
}

/// Tables name hosts, drives and processes: they are for their owner.
#[test]
fn tables_and_pages_are_not_for_everybody() {
    use std::os::unix::fs::PermissionsExt;
    let test = directory();
    let page = test.folder.path().join("fleet.html");
    let (at, store) = (test.folder.path().join("store"), test.folder.path().join("store"));
    let begin = ["--hosts", "3", "--length", "1h", "--begin", "2025-11-24"];
    says(program().arg("simulate").args(begin).arg("--at").arg(&at));
    says(program().arg("report").arg("--html").arg(&page).arg("--at").arg(&at));
    let mut folders = vec![store];
    let mut modes = vec![(page.clone(), std::fs::metadata(&page).unwrap().permissions().mode())];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let (path, about) = entry.map(|it| (it.path(), it.metadata().unwrap())).unwrap();
            modes.push((path.clone(), about.permissions().mode()));
            folders.extend(about.is_dir().then_some(path));
        }
    }
    assert!(modes.len() > 10, "{modes:?}");
    for (path, mode) in modes {
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_hour_is_skipped_without_being_read() {
    let plan = plan(20, 6);
    let test = directory();
    plan.write(&test.place).await.unwrap();
    let engine = test.engine(None).await;
    let sum = "SELECT SUM(requests) FROM flows";
    engine.counts().reset();
    let all = crate::support::number(&engine, sum).await;
    let (everything, objects) = (engine.counts().bytes(), engine.counts().objects());
    assert_eq!(objects, 6);
    for condition in [
        "date = '2025-11-24' AND hour = 3".to_owned(),
        "time >= TIMESTAMP '2025-11-24T03:00:00Z' AND time < TIMESTAMP '2025-11-24T04:00:00Z'"
            .to_owned(),
    ] {
        // Sessions share a cache of footers, and a new process has none.
        let engine = test.engine(None).await;
        engine.counts().reset();
        let part = crate::support::number(&engine, &format!("{sum} WHERE {condition}")).await;
        assert!(part > 0 && part < all);
        assert!(
            engine.counts().objects() <= 2,
            "{} opened: {condition}",
            engine.counts().objects()
        );
        assert!(engine.counts().bytes() * 2 < everything, "{condition}");
    }
    assert_eq!(plan.from_s % HOUR_S, 0);
}
