//! The JSON Schema: it describes every answer, and nothing that an answer holds is missing from it.
//! The texts in `schema/` are what the types give; after a change that is meant, run this with
//! `IOWHY_BLESS=1`.

use crate::recordings::recordings;
use crate::scenes;
use iowhy_analysis::script::ScriptSummary;
use iowhy_analysis::{Summary, summarize};
use iowhy_diagnosis::diagnose;
use iowhy_model::recording::RecordingReader;
use iowhy_views::schema::{self, derived};
use iowhy_views::{brief, json};
use jsonschema::Validator;
use serde_json::Value;
use std::fs;

/// Makes every object refuse properties that the schema does not name, so that a field that is
/// written and not described fails.
fn closed(mut schema: Value) -> Value {
    close(&mut schema);
    schema
}

fn close(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            let is_struct = object.contains_key("properties");
            object.values_mut().for_each(close);
            if is_struct {
                object.entry("unevaluatedProperties").or_insert(false.into());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

fn validator(schema: &schemars::Schema) -> Validator {
    let schema = closed(schema.as_value().clone());
    assert!(jsonschema::meta::is_valid(&schema));
    jsonschema::draft202012::new(&schema).unwrap()
}

fn expect_valid(validator: &Validator, text: &str, what: &str) {
    let answer: Value = serde_json::from_str(text).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&answer)
        .map(|error| format!("{}: {error:.300}", error.instance_path))
        .collect();
    assert!(errors.is_empty(), "{what}: {errors:#?}");
}

fn summaries() -> Vec<(String, Summary)> {
    let recorded = recordings().into_iter().map(|path| {
        let summary = summarize(&mut RecordingReader::open(&path).unwrap()).unwrap();
        (path.display().to_string(), summary)
    });
    let scripted = [
        ("jenkins", scenes::jenkins().summary()),
        ("imported", scenes::imported().summary()),
        ("hostile", scenes::hostile().summary()),
    ];
    recorded.chain(scripted.map(|(name, summary)| (name.to_owned(), summary))).collect()
}

#[test]
fn every_answer_is_as_its_schema_says() {
    let (full, short) = (validator(&derived::full()), validator(&derived::brief()));
    let summaries = summaries();
    assert!(summaries.len() >= 11, "{}", summaries.len());
    for (name, summary) in &summaries {
        let diagnosis = diagnose(summary);
        expect_valid(&full, &json::render(summary, &diagnosis), name);
        expect_valid(&short, &brief::render(summary, &diagnosis), name);
    }
}

/// A test that accepts everything would be none: each change of an answer is refused.
#[test]
fn what_is_not_described_is_refused() {
    let summary = scenes::jenkins().summary();
    let diagnosis = diagnose(&summary);
    let full = validator(&derived::full());
    let answer: Value = serde_json::from_str(&json::render(&summary, &diagnosis)).unwrap();
    assert!(full.is_valid(&answer));
    for pointer in ["", "/watch", "/devices/0", "/devices/0/directions/read", "/environment"] {
        let mut more = answer.clone();
        more.pointer_mut(pointer).unwrap()["surprise"] = 1.into();
        assert!(!full.is_valid(&more), "a property more at {pointer:?}");
    }
    for (pointer, name) in [("", "schema_version"), ("/watch", "requests"), ("/losses", "items")] {
        let mut less = answer.clone();
        less.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(name).unwrap();
        assert!(!full.is_valid(&less), "{name} less at {pointer:?}");
        let mut other = answer.clone();
        other.pointer_mut(pointer).unwrap()[name] = Value::from(vec![Value::Null]);
        assert!(!full.is_valid(&other), "{name} of another type at {pointer:?}");
    }
}

#[test]
fn schemas_have_a_version_and_sentences() {
    for (name, schema) in [("full", derived::full()), ("brief", derived::brief())] {
        let value = schema.as_value();
        assert_eq!(value["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(value["$id"], format!("urn:iowhy:{name}:{}", json::SCHEMA_VERSION));
        for (property, about) in value["properties"].as_object().unwrap() {
            let is_described = about["description"].is_string() || about["$ref"].is_string();
            assert!(is_described, "{name}: {property}: {about}");
        }
        assert!(derived::render(&schema).ends_with("}\n"));
    }
}

#[test]
fn the_kept_schemas_are_derived() {
    let kept = [
        ("full", derived::full(), schema::full().unwrap()),
        ("brief", derived::brief(), schema::brief().unwrap()),
    ];
    for (name, derived, kept) in kept {
        let text = derived::render(&derived);
        if std::env::var_os("IOWHY_BLESS").is_some() {
            let path = format!("{}/schema/{name}.json", env!("CARGO_MANIFEST_DIR"));
            fs::write(path, &text).unwrap();
        } else {
            assert!(kept == text, "schema/{name}.json is old: run this with IOWHY_BLESS=1");
        }
    }
}
