//! The command-line program, run as a user runs it.

#![cfg(feature = "cli")]

use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::process::Command;
use terrace::io::matrix_market::{read_dense, read_matrix};
use terrace::{gallery, options};

/// What a run left behind.
struct Run {
    code: i32,
    out: String,
    err: String,
}

fn terrace(arguments: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_terrace")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// A path for this test alone.
fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

fn written(name: &str, text: &str) -> String {
    let path = scratch(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_string()
}

/// A run that must succeed and say nothing on stderr.
fn succeeds(arguments: &[&str]) -> String {
    let run = terrace(arguments);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{arguments:?}\n{}", run.out);
    run.out
}

/// A run that must fail with these words on stderr and nothing on stdout.
fn fails(arguments: &[&str], parts: &[&str]) {
    let run = terrace(arguments);
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{arguments:?}\n{}", run.err);
    for part in parts {
        assert!(run.err.contains(part), "{arguments:?}: {part:?} is not in {:?}", run.err);
    }
}

#[test]
fn info_tells_version_threads_and_devices() {
    let text = succeeds(&["info"]);
    assert!(text.contains(env!("CARGO_PKG_VERSION")) && text.contains("threads") && text.contains("simd"), "{text}");

    let json: Json = serde_json::from_str(&succeeds(&["info", "--json"])).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert!(json["threads"].as_u64().unwrap() >= 1);
    assert_eq!(json["devices"][0], "host");
}

#[test]
fn options_are_printed_from_the_table() {
    assert_eq!(succeeds(&["options", "--markdown"]), options::reference());
    let text = succeeds(&["options"]);
    assert!(options::OPTIONS.iter().all(|row| text.contains(row.key)));
    let some = succeeds(&["options", "smoother"]);
    assert!(some.contains("amg.smoother.type") && !some.contains("solver.tolerance"), "{some}");
}

#[test]
fn gallery_lists_families_and_writes_problems() {
    let list = succeeds(&["gallery"]);
    assert!(gallery::FAMILIES.iter().all(|family| list.contains(&family.usage()) && list.contains(family.help)));

    for name in ["poisson.mtx", "poisson.mtx.gz"] {
        let path = scratch(name);
        let told = succeeds(&["gallery", "poisson27:3x4x5", "-o", path.to_str().unwrap()]);
        assert!(told.contains("60 rows"), "{told}");
        assert_eq!(read_matrix(&path).unwrap(), gallery::poisson27(3, 4, 5).unwrap());
    }
    assert!(std::fs::read(scratch("poisson.mtx.gz")).unwrap().starts_with(&[0x1f, 0x8b]));

    let (matrix, coordinates) = (scratch("elastic.mtx"), scratch("elastic_xyz.mtx"));
    let paths = [matrix.to_str().unwrap(), coordinates.to_str().unwrap()];
    succeeds(&["gallery", "elasticity:2", "-o", paths[0], "--coordinates", paths[1]]);
    let elastic = gallery::elasticity_hex8(2).unwrap();
    assert_eq!(read_matrix(&matrix).unwrap(), elastic.matrix.view().to_scalar().unwrap());
    let xyz = read_dense(&coordinates).unwrap();
    assert_eq!((xyz.rows, xyz.cols), (18, 3));
    assert_eq!([xyz.values[1], xyz.values[18 + 1], xyz.values[36 + 1]], elastic.coordinates[3..6]);
}

#[test]
fn gallery_refuses_what_it_cannot_write() {
    let path = scratch("refused.mtx");
    let path = path.to_str().unwrap();
    fails(&["gallery", "poison5:3", "-o", path], &["nearest is \"poisson5\"", "TERRACE_ERROR_INVALID_ARGUMENT"]);
    fails(&["gallery", "poisson5:0", "-o", path], &["size \"0\"", "poisson5:NXxNY"]);
    fails(&["gallery", "poisson5:3", "-o", path, "--coordinates", path], &["no node coordinates"]);
    fails(&["gallery", "poisson5:3"], &["--output"]);
    fails(&["gallery", "poisson5:3", "-o", "no-such-folder/a.mtx"], &["no-such-folder/a.mtx could not be written"]);
}

#[test]
fn bad_arguments_are_named_with_what_would_be_accepted() {
    fails(&["solve"], &["give a Matrix Market file, or --problem"]);
    fails(&["solve", "-p", "poisson7:3", "solver.tolerence=1"], &["nearest is \"solver.tolerance\""]);
    fails(&["solve", "-p", "poisson7:3", "amg.max_levels=0"], &["whole number from 1 to 64"]);
    fails(&["solve", "-p", "poisson8:3"], &["no family is called \"poisson8\"", "poisson27"]);
    fails(&["solve", "-p", "poisson7:3", "a.mtx"], &["\"a.mtx\" is one matrix too many"]);
    fails(&["solve", "-p", "poisson7:3", "--threads", "0"], &["threads is 0; accepted: 1 to 4096"]);
    fails(&["solve", "-p", "poisson7:3", "--block-size", "9"], &["--block-size is 9; accepted: 1 to 8"]);
    fails(&["solve", "-p", "poisson7:3", "--block-size", "2"], &["--block-size 2 does not divide the 27 rows"]);
    fails(&["bench", "solve", "-p", "poisson7:3", "--repeat", "0"], &["--repeat"]);
    fails(&["nonsense"], &["nonsense"]);
}

#[test]
fn bad_files_are_named_with_their_line() {
    fails(&["solve", "no-such-file.mtx"], &["no-such-file.mtx could not be opened", "TERRACE_ERROR_IO"]);

    let head = "%%MatrixMarket matrix coordinate real general\n";
    let malformed = written("malformed.mtx", &format!("{head}2 2 2\n1 1 1.0\n2 5 1.0\n"));
    fails(&["solve", &malformed], &["malformed.mtx, line 4: column is 5; accepted: 1 to 2", "TERRACE_ERROR_PARSE"]);

    let no_diagonal = written("no_diagonal.mtx", &format!("{head}2 2 2\n1 1 1.0\n2 1 1.0\n"));
    fails(&["solve", &no_diagonal], &["row 1", "TERRACE_ERROR_MATRIX_VALUES"]);

    let array = written("array.mtx", "%%MatrixMarket matrix array real general\n3 1\n1\n2\n3\n");
    fails(&["solve", &array], &["array.mtx holds a dense array"]);
    fails(&["solve", "-p", "poisson5:2", "--rhs", &array], &["array.mtx holds 3 rows", "4 rows"]);
    fails(&["solve", "-p", "poisson5:2", "--near-null-space", &array], &["array.mtx holds 3 rows"]);
    fails(&["solve", "-p", "poisson5:2", "--coordinates", &array], &["--dimension 2 or 3 is needed"]);

    let config = written("config.json", r#"{"solver": {"tolerance": 1e-6, "restarts": 3}}"#);
    fails(&["solve", "-p", "poisson5:2", "--config", &config], &["config.json", "nearest is \"solver.restart\""]);
}
