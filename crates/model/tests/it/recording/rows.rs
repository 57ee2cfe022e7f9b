//! Rows of every table, of every shape that a column can have.
//!
//! What does not belong here: rows as texts to compare (see `shown`).

use iowhy_model::sample::Scope;
use iowhy_model::source::Batch;
use iowhy_model::table::{ColumnInfo, ColumnKind, ColumnValues, Columns, Scalar, Table};
use iowhy_model::{Name, Names, Operation, Origin, Request, RequestPart, Status, WaitClass};

/// Names that a file or process may really have.
pub const HOSTILE: &[&str] = &[
    "/var/lib/ünïcødé/数据/🦀",
    "a\nb\rc\td",
    "\u{1b}]0;owned\u{7}\u{1b}[2J",
    "nul\0inside",
    "'; DROP TABLE requests; --",
    "<script>alert(1)</script>",
    "\u{202e}txt.exe",
    "quote\"back\\slash,comma|pipe",
];

/// Numbers that look random and are the same in every run (xorshift).
pub struct RowRandom(pub u64);

impl RowRandom {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// `count` rows of each table, some of them alike and some not, with texts in `names`.
pub fn batch(count: usize, random: &mut RowRandom, names: &mut Names) -> Batch {
    let mut batch = Batch {
        requests: rows(count, random, names),
        parts: rows(2 * count, random, names),
        waits: rows(count, random, names),
        wait_requests: rows(count, random, names),
        wait_chains: rows(count, random, names),
        files: rows(count, random, names),
        processes: rows(count, random, names),
        stacks: rows(count, random, names),
        samples: rows(count, random, names),
        events: rows(count, random, names),
        // Not recorded.
        opens: Vec::new(),
    };
    number(&mut batch.requests, &mut batch.parts, random);
    batch
}

/// Gives requests their numbers, and parts those of the requests: none, one or several for each.
fn number(requests: &mut [Request], parts: &mut Vec<RequestPart>, random: &mut RowRandom) {
    let mut used = 0;
    for request in requests {
        request.request_id = random.next() >> 1;
        for part in parts.iter_mut().skip(used).take(random.below(4)) {
            part.request_id = request.request_id;
            used += 1;
        }
    }
    parts.truncate(used);
}

fn rows<T: Table>(count: usize, random: &mut RowRandom, names: &mut Names) -> Vec<T> {
    let columns = T::COLUMNS.iter().map(|info| column(info, count, random, names)).collect();
    let columns = Columns::from_parts(columns, count);
    (0..count).map(|row| columns.get(row).expect("a row as it was made")).collect()
}

fn column(
    info: &ColumnInfo,
    count: usize,
    random: &mut RowRandom,
    names: &mut Names,
) -> ColumnValues {
    let mut column = ColumnValues::default();
    if info.kind == ColumnKind::Texts {
        for _ in 0..count {
            let items = (0..random.below(4)).map(|_| value(info, 9, random, names));
            column.push_list(items.collect::<Vec<_>>().into_iter());
        }
        return column;
    }
    let shape = random.below(6);
    let nulls = if info.nullable { random.below(4) } else { 0 };
    let first = value(info, 0, random, names);
    let cells: Vec<Option<i64>> = (0..count)
        .map(|row| match nulls {
            1 => None,
            2 if random.below(3) == 0 => None,
            3 if row / 50 % 2 == 0 => None,
            _ if shape == 0 => Some(first),
            _ => Some(value(info, shape, random, names)),
        })
        .collect();
    column.extend(cells.into_iter());
    column
}

/// A value for `info`, one of few or of many as `shape` has it.
fn value(info: &ColumnInfo, shape: usize, random: &mut RowRandom, names: &mut Names) -> i64 {
    let few = random.below(2 + shape) as i64;
    match (info.name, info.kind) {
        ("status", _) => Status::ALL[random.below(Status::ALL.len())].to_raw(),
        ("operation", _) => Operation::ALL[random.below(Operation::ALL.len())].to_raw(),
        ("origin", _) => Origin::ALL[random.below(Origin::ALL.len())].to_raw(),
        ("class", _) => WaitClass::ALL[random.below(WaitClass::ALL.len())].to_raw(),
        ("scope", _) => Scope::ALL[random.below(Scope::ALL.len())].to_raw(),
        ("error", _) => -few,
        (_, ColumnKind::Flag) => few % 2,
        (_, ColumnKind::Float) if shape < 3 => (few as f64 / 2.0).to_raw(),
        (_, ColumnKind::Float) => (random.next() as f64 / 7.0).to_raw(),
        (_, ColumnKind::Integer) if shape < 3 => few,
        (_, ColumnKind::Integer) => (random.next() >> 33 >> (shape * 4)) as i64,
        (_, ColumnKind::Text | ColumnKind::Texts) => text(shape, random, names).to_raw(),
    }
}

fn text(shape: usize, random: &mut RowRandom, names: &mut Names) -> Name {
    match shape {
        1 | 2 => names.intern(HOSTILE[random.below(HOSTILE.len())]),
        3 => names.intern(""),
        _ => names.intern(&format!("/srv/data/{}", random.below(1000))),
    }
}
