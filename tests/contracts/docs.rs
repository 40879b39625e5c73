//! Pages and tables that are made from the code: they are compared here, and written anew with `TERRACE_BLESS=1`.

use crate::common::root;
use std::collections::BTreeSet;
use std::fmt::Write;
use terrace::components::{SetupPlaces, setup_places};
use terrace::error::STATUSES;
use terrace::options::{self, Kind, OPTIONS, OptionRow};
use terrace::presets::{self, PRESETS};
use terrace::report::{FACTS, Scope};

fn compare(path: &str, expected: &str) {
    let path = root().join(path);
    if std::env::var_os("TERRACE_BLESS").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == expected, "{} is out of date; run `make bless`", path.display());
}

#[test]
fn the_options_reference_is_current() {
    compare("docs/options.md", &options::reference());
}

#[test]
fn the_presets_reference_is_current() {
    compare("docs/presets.md", &presets::reference());
}

#[test]
fn the_reference_of_reports_and_statuses_is_current() {
    let mut page = String::from(
        "# What a report can be asked for\n\nGenerated from the table in `src/report/facts.rs`. Read with `terrace_report_get_int`, `_real` and `_str`; \
         `terrace_report_to_json` gives all at once.\n\n| key | index counts | meaning |\n| --- | --- | --- |\n",
    );
    for row in FACTS {
        let scope = match row.scope {
            Scope::Whole => "nothing; give 0",
            Scope::Level => "levels, 0 the finest",
            Scope::RightHandSide => "right-hand sides of the last solve",
        };
        writeln!(page, "| `{}` | {scope} | {} |", row.key, row.help).unwrap();
    }
    compare("docs/report.md", &page);

    let mut page = String::from(
        "# Statuses\n\nGenerated from the table in `src/error.rs`. 0 is success, positive numbers are conditions that a caller may accept, \
         negative numbers are errors. Numbers are never reused.\n\n| number | name | class | meaning |\n| --- | --- | --- | --- |\n",
    );
    for row in STATUSES {
        writeln!(page, "| {} | `{}` | {:?} | {} |", row.code, row.name, row.class, row.sentence).unwrap();
    }
    compare("docs/statuses.md", &page);
}

/// What works on which backend, as the options table has it.
fn backend_table() -> String {
    let mut table = String::from("| component | choices | backends |\n| --- | --- | --- |\n");
    for row in OPTIONS {
        let choices = match row.kind {
            Kind::Choice { names, .. } => names.join(", "),
            Kind::Precisions => "f64, f32, f16, bf16, auto, each level its own".to_string(),
            Kind::PrecisionPreset => "auto, or formats by level".to_string(),
            _ => continue,
        };
        writeln!(table, "| `{}` | {choices} | {} |", row.key, row.backend_names()).unwrap();
    }
    table
}

/// The presets with what they are for.
fn preset_table() -> String {
    let mut table = String::from("| preset | for |\n| --- | --- |\n");
    for preset in PRESETS {
        writeln!(table, "| `{}` | {} |", preset.name, preset.purpose).unwrap();
    }
    table
}

/// The options that users of another library know by these names.
fn names_table(library: &str, name: fn(&OptionRow) -> &'static str) -> String {
    let mut table = format!("| {library} | option | accepts | default |\n| --- | --- | --- | --- |\n");
    for row in OPTIONS.iter().filter(|row| name(row) != "-") {
        let accepted = row.kind.accepted().replace('|', "\\|");
        writeln!(table, "| {} | `{}` | {accepted} | `{}` |", name(row), row.key, row.default).unwrap();
    }
    table
}

/// Where components of set-up are computed for a GPU, as the registry has it.
fn setup_table() -> String {
    let mut table = String::from("| option | on the device | on the host, then copied |\n| --- | --- | --- |\n");
    for SetupPlaces { key, device, host } in setup_places() {
        writeln!(table, "| `{key}` | {} | {} |", device.join(", "), host.join(", ")).unwrap();
    }
    table
}

/// Compares the tables of a page between marks.
fn compare_tables(path: &str, tables: &[String]) {
    const BEGIN: &str = "<!-- made by tests/contracts/docs.rs -->\n";
    const END: &str = "<!-- end -->\n";
    let mut rest = std::fs::read_to_string(root().join(path)).unwrap();
    let mut expected = String::new();
    for table in tables {
        let (before, after) = rest.split_once(BEGIN).expect("the page has the beginning marks");
        let (_, after) = after.split_once(END).expect("the page has the end marks");
        write!(expected, "{before}{BEGIN}{table}{END}").unwrap();
        rest = after.to_string();
    }
    compare(path, &(expected + &rest));
}

#[test]
fn tables_inside_of_pages_are_current() {
    compare_tables("README.md", &[preset_table(), backend_table()]);
    compare_tables("docs/gpu.md", &[setup_table()]);
    let names = [names_table("AmgX", |row| row.amgx), names_table("hypre", |row| row.hypre)];
    compare_tables("docs/migrating.md", &names);
}

/// What the library for programs of hypre sets, and what the page about it names.
#[test]
fn options_that_programs_for_hypre_become_exist() {
    let folder = root().join("compat/hypre/src");
    let sources = ["options.c", "structured_options.c"].map(|name| std::fs::read_to_string(folder.join(name)).unwrap());
    let keys: BTreeSet<&str> = sources
        .iter()
        .flat_map(|text| text.split("shim_option(options, \"").skip(1))
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert!(keys.len() > 20, "{keys:?}");
    for key in keys {
        assert!(OPTIONS.iter().any(|row| row.key == key), "no option is called {key}");
    }
}

/// An option that nothing reads would be accepted and ignored.
#[test]
fn every_option_is_read_somewhere() {
    fn sources(folder: &std::path::Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, text);
            } else if !path.ends_with("options.rs")
                && !path.ends_with("presets.rs")
                && path.extension().is_some_and(|e| e == "rs")
            {
                let source = std::fs::read_to_string(&path).unwrap();
                // Tests may set an option; only what comes before them can read it.
                text.push_str(source.split("#[cfg(feature = \"unit-tests\")]\nmod tests {").next().unwrap());
            }
        }
    }
    let mut text = String::new();
    sources(&root().join("src"), &mut text);
    for row in OPTIONS {
        assert!(text.contains(&format!("\"{}\"", row.key)), "nothing reads {}", row.key);
    }
}

/// The pages of the documentation and the README.
fn pages() -> Vec<std::path::PathBuf> {
    ["docs", "docs/decisions", "docs/performance"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(root().join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .chain(["README.md", "CHANGELOG.md"].map(|page| root().join(page)))
        .filter(|page| page.extension().is_some_and(|extension| extension == "md"))
        .collect()
}

#[test]
fn links_in_the_documentation_lead_somewhere() {
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            if !link.is_empty() && !link.starts_with("http") {
                assert!(page.parent().unwrap().join(link).exists(), "{} links to {link}", page.display());
            }
        }
    }
}

/// A bar in a cell that is not escaped begins the next cell.
#[test]
fn rows_of_tables_have_the_cells_of_their_head() {
    for page in pages() {
        let mut head = None;
        for (i, line) in std::fs::read_to_string(&page).unwrap().lines().enumerate() {
            if !line.starts_with('|') {
                head = None;
                continue;
            }
            let cells = line.replace("\\|", "").matches('|').count();
            assert_eq!(cells, *head.get_or_insert(cells), "{}:{}: bars of {line}", page.display(), i + 1);
        }
    }
}

/// Prose is wrapped at 120 characters; tables and code are not.
#[test]
fn lines_of_the_documentation_are_short() {
    // Generated from tables in the sources.
    let long = ["options.md", "report.md", "statuses.md"];
    for page in pages().iter().filter(|page| !long.iter().any(|name| page.ends_with(name))) {
        let mut code = false;
        for (i, line) in std::fs::read_to_string(page).unwrap().lines().enumerate() {
            code ^= line.starts_with("```");
            let prose = !code && !line.starts_with('|') && !line.starts_with("    ");
            let length = line.chars().count();
            assert!(!prose || length <= 120, "{}:{} has {length} characters", page.display(), i + 1);
        }
    }
}

/// A glossary that a reader has to search has failed.
#[test]
fn the_glossary_has_at_most_forty_lines() {
    let lines = std::fs::read_to_string(root().join("docs/glossary.md")).unwrap().lines().count();
    assert!(lines <= 40, "docs/glossary.md has {lines} lines");
}
