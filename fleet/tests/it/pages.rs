//! The page of the fleet, the program's answers, and docs/fleet.md.

use crate::support::{directory, half_sick, plan, program, says};
use iowhy_fleet::compact::{GRACE_S, compact};
use iowhy_fleet::report::page;
use iowhy_fleet::tables::reference;
use iowhy_fleet::upload::UploadFinding;
use std::path::Path;

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_what_was_planted_and_loads_nothing() {
    let plan = half_sick(400, 6);
    let test = directory();
    plan.write(&test.place).await.unwrap();
    let page = page(&test.engine(None).await).await.unwrap();
    let truth = plan.truth();
    let drive = truth.slow_drive.unwrap();
    for word in drive.iter().chain(&truth.firmware.unwrap()).chain([&truth.kernel.unwrap()]) {
        assert!(page.contains(word.as_str()), "{word}");
    }
    assert!(page.contains("device-slow-tail") && page.contains("Replace the drive."));
    for link in ["<script", "http:", "https:", "src=", "@import", "url("] {
        assert!(!page.contains(link), "{link}");
    }
}

/// A slow drive's host was drained, and has been silent for hours: exactly then somebody looks.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_host_is_on_the_page() {
    let mut plan = plan(200, 5);
    plan.trouble.slow_drive = Some((4.0, 0));
    let test = directory();
    let sick = plan.truth().slow_drive.unwrap()[0].clone();
    for host in plan.fleet() {
        let hours = if host.host.name == sick { 3 } else { 5 };
        for upload in (0..hours).flat_map(|hour| plan.uploads(&host, hour)) {
            let path = test.place.path(&upload.name().path());
            test.place.write(&path, upload.encode().unwrap().into()).await.unwrap();
        }
    }
    compact(&test.place, GRACE_S).await.unwrap();
    let page = page(&test.engine(None).await).await.unwrap();
    assert!(page.contains("200 hosts with") && page.contains("1 are silent"), "silent");
    assert!(page.contains(&format!("{sick} at 2025-11-24")), "its last hour is shown");
    let args = ["silent", "--exit-code", "--at", test.text()];
    let output = program().args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(10) && said.contains(&sick), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_are_text_wherever_they_are_shown() {
    let plan = plan(12, 4);
    let test = directory();
    for host in plan.fleet() {
        for hour in 0..4 {
            for mut upload in plan.uploads(&host, hour) {
                if upload.incident.is_none() {
                    upload.host.name = "<script>\x1b[2J'; DROP TABLE flows --".to_owned();
                    upload.host.rack = "\"><img src=x>".to_owned();
                    let cause = "\u{202e}<b>cause".to_owned();
                    upload.findings = vec![UploadFinding { cause, ..UploadFinding::default() }];
                }
                let path = test.place.path(&upload.name().path());
                test.place.write(&path, upload.encode().unwrap().into()).await.unwrap();
            }
        }
    }
    compact(&test.place, GRACE_S).await.unwrap();
    let page = page(&test.engine(None).await).await.unwrap();
    assert!(!page.contains("<script>") && !page.contains("<img") && !page.contains('\x1b'));
    for args in [
        vec!["top", "--limit", "3"],
        vec!["findings"],
        vec!["host", "<script>\x1b[2J'; DROP TABLE flows --", "--time", "2025-11-24 01:30"],
        vec!["sql", "SELECT DISTINCT host, rack FROM hosts"],
    ] {
        let text = says(program().args(args).args(["--at", test.text()]));
        assert!(text.contains("script") || text.contains("cause"), "{text}");
        assert!(!text.contains('\x1b') && !text.contains('\u{202e}'), "{text:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_answers_as_text_and_json() {
    let plan = half_sick(400, 6);
    let test = directory();
    plan.write(&test.place).await.unwrap();
    let serial = plan.truth().slow_drive.unwrap()[3].clone();
    let text = says(program().args(["outliers", "--stats", "--at", test.text()]));
    assert!(text.contains(&serial) && text.contains("False alarms") && text.contains("read: "));
    let text = says(program().args(["outliers", "--json", "--at", test.text()]));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["drives"]["rows"][0]["serial"], serial.as_str());
    let text = says(program().args([
        "sql",
        "SELECT COUNT(*) AS n FROM hosts",
        "--json",
        "--at",
        test.text(),
    ]));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json[0]["n"], 400 * 6 * 6);
    let files = says(program().args(["files", "flows", "--at", test.text()]));
    assert_eq!(files.lines().filter(|line| Path::new(line).exists()).count(), 6);
    let output = program().args(["findings", "--at", "/nonexistent/place"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("hint:"));
}

/// docs/fleet.md lists the columns; `IOWHY_BLESS=1` writes them.
#[test]
fn the_documentation_has_every_column() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fleet.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- tables: written by IOWHY_BLESS=1 -->\n\n", "<!-- end of tables -->");
    let (before, rest) = text.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let expected = format!("{before}{begin}{}{end}{after}", reference());
    if std::env::var_os("IOWHY_BLESS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    assert!(text == expected || std::env::var_os("IOWHY_BLESS").is_some(), "docs/fleet.md is old");
}
