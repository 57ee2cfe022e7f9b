//! The writers of all hosts: the planted ones, in the right order, and sums that add up.

use crate::support::{directory, half_sick, plan, program, says};
use iowhy_fleet::compact::{GRACE_S, compact};
use iowhy_fleet::output::AnswerSection;
use iowhy_fleet::questions::writers::{WriterGroup, WriterOrder, writers};
use iowhy_fleet::simulate::writing::{HEAVY_WRITER, has_heavy_writer};
use iowhy_fleet::simulate::{FleetPlan, PlantedTrouble};
use std::collections::BTreeMap;

/// Bytes that each program wrote, from what the hosts send: the most first.
fn truth(plan: &FleetPlan) -> Vec<(String, u64)> {
    let mut programs: BTreeMap<String, u64> = BTreeMap::new();
    for host in plan.fleet() {
        for upload in (0..plan.hours).flat_map(|hour| plan.uploads(&host, hour)) {
            for row in upload.writers {
                let name = match row.id.kind.as_str() {
                    "unseen" => "(not recorded)".to_owned(),
                    _ => row.id.program,
                };
                *programs.entry(name).or_default() += row.sums.written_bytes();
            }
        }
    }
    let mut programs: Vec<(String, u64)> = programs.into_iter().collect();
    programs.sort_by_key(|program| std::cmp::Reverse(program.1));
    programs
}

fn found(section: &AnswerSection) -> Vec<(String, u64)> {
    let row = |row: &Vec<iowhy_fleet::output::AnswerCell>| {
        (row[0].text.clone(), row[2].value.as_f64().unwrap() as u64)
    };
    section.rows.iter().map(row).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_writes_most_is_told_with_what_it_costs() {
    let plan = half_sick(160, 4);
    let test = directory();
    plan.write(&test.place).await.unwrap();
    let engine = test.engine(None).await;
    let by_program =
        writers(&engine, WriterGroup::Program, WriterOrder::Written, 50).await.unwrap();
    let expected = truth(&plan);
    assert!(expected.len() == 6 && found(&by_program) == expected, "{expected:?}\n{by_program:?}");

    let heavy: Vec<&String> =
        by_program.notes.iter().filter(|note| note.contains("for each byte asked")).collect();
    let hosts = plan.fleet().iter().filter(|host| has_heavy_writer(&plan, host)).count();
    assert_eq!((heavy.len(), hosts), (1, 20), "{:?}", by_program.notes);
    for part in [&format!("{HEAVY_WRITER}: 40x"), &format!("on {hosts} hosts")] {
        assert!(heavy[0].contains(part.as_str()), "{part}: {heavy:?}");
    }

    // A program's bytes are those of its requests.
    for device in ["nvme0n1", "sdb"] {
        let flows = format!(
            "SELECT SUM(bytes) FROM flows WHERE device = '{device}' AND operation = 'write'"
        );
        let rows = format!(
            "SELECT SUM(data_bytes + journal_bytes + metadata_bytes) FROM writers \
             WHERE device = '{device}'"
        );
        assert_eq!(test.number(&flows).await, test.number(&rows).await, "{device}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_ask_adds_up() {
    let plan = plan(40, 2);
    let test = directory();
    plan.upload(&test.place).await.unwrap();
    compact(&test.place, GRACE_S).await.unwrap();
    let engine = test.engine(None).await;
    let all: u64 = truth(&plan).iter().map(|program| program.1).sum();
    for group in [
        WriterGroup::Program,
        WriterGroup::Container,
        WriterGroup::File,
        WriterGroup::Host,
        WriterGroup::Device,
    ] {
        let section = writers(&engine, group, WriterOrder::Written, 1000).await.unwrap();
        let column =
            section.columns.iter().position(|column| column.name == "written_bytes").unwrap();
        let written = section.rows.iter().map(|row| row[column].value.as_f64().unwrap() as u64);
        assert_eq!(written.sum::<u64>(), all, "{group:?}");
        assert!(section.rows.iter().all(|row| row.len() == section.columns.len()), "{group:?}");
    }
    let first = writers(&engine, WriterGroup::Host, WriterOrder::Read, 3).await.unwrap();
    let read = first.columns.iter().position(|column| column.name == "read_bytes").unwrap();
    let read: Vec<f64> = first.rows.iter().map(|row| row[read].value.as_f64().unwrap()).collect();
    assert!(read.len() == 3 && read[0] >= read[1] && read[1] >= read[2], "{read:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_fleet_has_no_costly_writer_and_an_old_one_no_rows() {
    let healthy = FleetPlan { trouble: PlantedTrouble::none(), ..plan(40, 2) };
    let test = directory();
    healthy.write(&test.place).await.unwrap();
    let text = says(program().args(["writers", "--at", test.text()]));
    assert!(text.contains("postgres") && !text.contains("for each byte asked"), "{text}");

    let old = directory();
    for host in healthy.fleet() {
        for mut upload in healthy.uploads(&host, 0) {
            upload.writers.clear();
            let path = old.place.path(&upload.name().path());
            old.place.write(&path, upload.encode().unwrap().into()).await.unwrap();
        }
    }
    compact(&old.place, GRACE_S).await.unwrap();
    let text = says(program().args(["writers", "--by", "file", "--at", old.text()]));
    assert_eq!(text, "No host has sent who writes\n");
}
