//! Other libraries as oracles: where hypre is installed, the same AMG there needs about as many iterations and nonzeros. `docs/hypre.md` has the
//! larger problems.

use crate::common;
use crate::common::skip::skipped;
use serde_json::Value as Json;
use std::process::Command;

#[test]
fn hypre_with_the_same_options_needs_as_many_iterations_and_nonzeros() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    command.args(["bench", "hypre"]);
    for problem in ["poisson7:20", "poisson27:16", "jumps:18+A"] {
        command.args(["--problem", problem]);
    }
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(2) && told.contains("could not be compiled") {
        skipped("hypre with the same options", told.trim());
        return;
    }

    assert!(output.status.success(), "{}{told}", String::from_utf8_lossy(&output.stdout));
    let text = String::from_utf8(output.stdout).unwrap();
    let json: Json = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for row in rows {
        println!("{row}");
        assert_eq!(row["holds"], true, "{row}");
    }
}

/// The columns of Terrace on the page are what it does now. The unit tests of `terrace bench hypre` hold them against those of hypre.
#[test]
fn the_page_about_hypre_has_the_iterations_and_complexities_of_today() {
    let page = std::fs::read_to_string(common::root().join("docs/hypre.md")).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(2)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    for problem in ["poisson7:64", "jumps:64", "elasticity:24"] {
        let row = rows.iter().find(|row| row[0] == problem).unwrap_or_else(|| panic!("no row of {problem}: {page}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        command.args(["solve", "--json", "--problem", problem]).args([
            "amg.coarsening.type=pmis",
            "amg.interpolation.type=extended_i",
            "amg.smoother.type=l1_jacobi",
            "amg.smoother.diagonal=point",
            "solver.type=cg",
        ]);
        if row[1] == "A x" {
            command.arg("--random-solution");
        }
        if problem.starts_with("elasticity") {
            command.arg("amg.strength.threshold=0.5");
        }
        let json: Json = serde_json::from_slice(&common::succeed(command).stdout).unwrap();
        let iterations = json["right_hand_side"][0]["iterations"].to_string();
        let complexity = format!("{:.3}", json["operator_complexity"].as_f64().unwrap());
        assert_eq!([&iterations, &complexity], [row[3], row[5]], "{problem}; `terrace bench hypre` makes the page");
    }
}
