//! Real matrices: `docs/matrices.md` says which are solved, with which preset and how many iterations. Where the collection is present the
//! symmetric ones are solved again and held against the page; `TERRACE_BLESS=1` then writes it anew.

use crate::common;
use serde_json::Value as Json;
use std::path::Path;
use std::process::Command;
use terrace::presets;

/// A row of a table of the page.
struct Row {
    name: String,
    preset: String,
    iterations: usize,
    residual: f64,
    status: String,
    auto: usize,
}

/// The rows below a heading of the page.
fn rows(heading: &str) -> Vec<Row> {
    let page = std::fs::read_to_string(common::root().join("docs/matrices.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with(heading)).expect("the page has the section");
    let lines = section.lines().filter(|line| line.starts_with("| ")).skip(2);
    lines
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            Row {
                name: cells[0].to_string(),
                preset: cells[3].to_string(),
                iterations: cells[5].parse().unwrap_or(usize::MAX),
                residual: cells[6].parse().unwrap_or(f64::NAN),
                status: cells[7].to_string(),
                auto: cells.get(8).and_then(|cell| cell.parse().ok()).unwrap_or(usize::MAX),
            }
        })
        .collect()
}

/// The page and the line of JSON below it.
fn measure(folder: &Path, names: &[&str]) -> (String, Json) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    command.args(["bench", "matrices"]).arg(folder).args(names);
    let text = String::from_utf8(common::succeed(command).stdout).unwrap();
    let (page, line) = text.trim_end().rsplit_once("\n\n").expect("a line of JSON follows the page");
    (format!("{page}\n"), serde_json::from_str(line).unwrap())
}

#[test]
fn the_page_claims_that_every_symmetric_matrix_is_solved() {
    let symmetric = rows("Symmetric positive definite");
    assert!(symmetric.len() > 30);
    for row in &symmetric {
        assert_eq!(row.status, "converged", "{}", row.name);
        assert!(row.residual <= 1e-8 && row.iterations <= 5000, "{}", row.name);
        // With a condition of 1e10, the rounding of 16 bits is felt.
        let most = if row.name == "bcsstk13" { 1.3 } else { 1.1 };
        assert!(
            row.auto as f64 <= (most * row.iterations as f64).ceil(),
            "{} with precision auto: {}",
            row.name,
            row.auto
        );
        assert!(row.preset == "default" || presets::find(&row.preset).is_ok(), "{}", row.preset);
    }
    for row in rows("Others") {
        let told = ["converged", "did not converge", "stagnated"].contains(&row.status.as_str());
        assert!(told || row.status.starts_with("refused: "), "{}: {}", row.name, row.status);
    }
}

#[test]
fn the_symmetric_matrices_are_solved_within_the_iterations_of_the_page() {
    let Some(folder) = common::real_matrices("iterations on real matrices") else { return };
    if std::env::var_os("TERRACE_BLESS").is_some() {
        std::fs::write(common::root().join("docs/matrices.md"), measure(&folder, &[]).0).unwrap();
    }
    let expected = rows("Symmetric positive definite");
    let names: Vec<&str> = expected.iter().map(|row| row.name.as_str()).collect();
    let (_, json) = measure(&folder, &names);

    let solved = json["rows"].as_array().unwrap();
    assert_eq!(solved.len(), expected.len());
    for row in &expected {
        let found = solved.iter().find(|found| found["name"] == row.name.as_str()).unwrap();
        println!("{} {}", row.name, found["iterations"]);
        assert_eq!(found["status"], "TERRACE_SUCCESS", "{found}");
        assert!(found["true_residual"].as_f64().unwrap() <= 1e-8, "{found}");
        // With no option set: to the tolerance, or as far as a direct solve comes.
        let default = &found["default"];
        let (reached, direct) = (default["true_residual"].as_f64().unwrap(), default["direct_residual"].as_f64());
        let is_solved = default["status"] == "TERRACE_SUCCESS";
        assert_eq!(is_solved, reached <= 1e-8, "{found}");
        assert!(is_solved || direct.is_some_and(|direct| reached <= direct), "{found}");
        // Another compiler may round otherwise, which long runs of CG answer with a few iterations.
        let bound = row.iterations + 1 + row.iterations / 20;
        assert!(found["iterations"].as_u64().unwrap() as usize <= bound, "{} of {bound}: {found}", row.name);
    }
}

#[test]
fn a_folder_of_files_is_told_apart_from_what_is_missing() {
    let folder = common::scratch("matrices");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("good.mtx", "%%MatrixMarket matrix coordinate real symmetric\n2 2 3\n1 1 4\n2 1 1\n2 2 3\n");
    write("good_rhs.mtx", "%%MatrixMarket matrix array real general\n2 1\n1\n2\n");
    write("singular.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n2 1 1\n");
    write("gradient.mtx", "%%MatrixMarket matrix coordinate real general\n2 1 1\n1 1 1\n");

    let (page, json) = measure(&folder, &[]);

    let found: Vec<(&str, &str, &str)> = json["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["rhs"].as_str().unwrap(), row["status"].as_str().unwrap()))
        .collect();
    assert_eq!(found, [("good", "file", "TERRACE_SUCCESS"), ("singular", "ones", "TERRACE_ERROR_MATRIX_VALUES")]);
    assert!(page.contains("refused: row 1 has no diagonal entry"), "{page}");

    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    let output = command.args(["bench", "matrices"]).arg(&folder).arg("absent").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("holds no matrix called \"absent\""));
}
