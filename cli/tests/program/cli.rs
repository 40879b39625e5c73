//! The command-line program, run as a user runs it.

use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::process::Command;
use terrace::io::matrix_market::{read_dense, read_matrix};
use terrace::{gallery, options, presets};

/// What a run left behind.
struct Run {
    code: i32,
    out: String,
    err: String,
}

fn terrace(arguments: &[&str]) -> Run {
    run(Command::new(env!("CARGO_BIN_EXE_terrace")).args(arguments))
}

fn run(command: &mut Command) -> Run {
    let output = command.output().unwrap();
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
    assert!(json["cuda"].is_string() && json["sim"].is_string());
}

#[test]
fn options_are_printed_from_the_table() {
    assert_eq!(succeeds(&["options", "--markdown"]), options::reference());
    let text = succeeds(&["options"]);
    assert!(options::OPTIONS.iter().all(|row| text.contains(row.key)));
    assert_eq!(succeeds(&["options", "--presets", "--markdown"]), presets::reference());
    let text = succeeds(&["options", "--presets"]);
    assert!(presets::PRESETS.iter().all(|p| text.contains(p.name)), "{text}");
    let some = succeeds(&["options", "smoother"]);
    assert!(some.contains("amg.smoother.type") && !some.contains("solver.tolerance"), "{some}");
}

#[test]
fn gallery_lists_families_and_writes_problems() {
    let list = succeeds(&["gallery"]);
    assert!(gallery::FAMILIES.iter().all(|family| list.contains(&family.usage()) && list.contains(family.help)));
    for text in ["epsilon=0.001", "inclusions=4", "a whole number from 1 to 1000", "contrast=1e6"] {
        assert!(list.contains(text), "{text}: {list}");
    }

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
    let elastic = gallery::elasticity_hex8(2, gallery::Layers::NONE, true).unwrap();
    assert_eq!(read_matrix(&matrix).unwrap(), elastic.matrix.view().to_scalar().unwrap());
    let xyz = read_dense(&coordinates).unwrap();
    assert_eq!((xyz.rows, xyz.cols), (18, 3));
    assert_eq!([xyz.values[1], xyz.values[18 + 1], xyz.values[36 + 1]], elastic.coordinates[3..6]);
}

#[test]
fn help_pages_name_every_family() {
    for arguments in [&["solve", "--help"][..], &["gallery", "--help"], &["bench", "solve", "--help"]] {
        let help = succeeds(arguments);
        assert!(gallery::FAMILIES.iter().all(|family| help.contains(&family.usage())), "{help}");
    }
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
    fails(
        &["solve", "-p", "poisson7:3", "--preset", "laplace"],
        &["no preset is called \"laplace\"", "poisson, elasticity"],
    );
    fails(&["solve", "-p", "poisson8:3"], &["no family is called \"poisson8\"", "poisson27"]);
    fails(&["solve", "-p", "poisson7:3", "a.mtx"], &["\"a.mtx\" is one matrix too many"]);
    fails(&["solve", "-p", "poisson7:3", "--threads", "0"], &["threads is 0; accepted: 1 to "]);
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

fn solved(arguments: &[&str]) -> Json {
    let arguments = [&["solve", "--json"], arguments].concat();
    serde_json::from_str(&succeeds(&arguments)).unwrap()
}

#[test]
fn solve_prints_levels_history_times_and_memory() {
    let plot = scratch("solve.svg");
    let text = succeeds(&["solve", "--problem", "poisson7:12", "--plot", plot.to_str().unwrap()]);
    for part in ["poisson7:12: 1728 rows", "operator complexity", "residual history", "galerkin", "peak resident set"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }

    let svg = std::fs::read_to_string(plot).unwrap();
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    assert!(["Residual history", "iteration", "rows", "nonzeros", "bytes"].iter().all(|part| svg.contains(part)));
}

#[test]
fn json_holds_the_report_and_the_problem() {
    let json = solved(&["-p", "poisson7:12", "--threads", "2"]);
    assert_eq!(json["problem"]["name"], "poisson7:12");
    assert_eq!(json["problem"]["rows"], 1728);
    assert_eq!(json["status"], "TERRACE_SUCCESS");
    assert_eq!(json["threads"], 2);
    assert_eq!(json["level"][0]["rows"], 1728);
    let solve = &json["right_hand_side"][0];
    let history = solve["history"].as_array().unwrap();
    assert_eq!(history.len() as u64, solve["iterations"].as_u64().unwrap() + 1);
    assert!(solve["true_residual"].as_f64().unwrap() <= 1e-8);
    assert!(json["peak_resident_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn registers_of_any_width_give_the_same_bits() {
    let program = |width: &str, arguments: &[&str]| -> Json {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        let run = run(command.env("TERRACE_SIMD", width).args(arguments));
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{arguments:?} {width}\n{}", run.out);
        serde_json::from_str(&run.out).unwrap()
    };
    let widest = program("", &["info", "--json"])["registers"].as_str().unwrap().to_string();
    assert_eq!(program("baseline", &["info", "--json"])["registers"], "baseline");
    let avx2 = program("avx2", &["info", "--json"])["registers"].as_str().unwrap().to_string();
    assert!(avx2 == widest.replace("avx512", "avx2"), "{avx2} of {widest}");
    // Rows, blocks, diagonals and stencils, in 64 to 16 bits, and a factorisation.
    for problem in [
        &["laplace_jittered:8"][..],
        &["elasticity:6", "precision=f16"],
        &["poisson7:10", "precision.matrix=f64,bf16"],
        &["poisson7:8", "amg.type=structured"],
        &["poisson5:40", "solver.type=direct"],
    ] {
        let arguments = [&["solve", "--json", "--threads", "1", "-p"], problem].concat();
        let history = |width: &str| program(width, &arguments)["right_hand_side"][0].clone();
        let wide = history("");
        assert!(wide["true_residual"].as_f64().unwrap() <= 1e-8, "{problem:?}");
        for width in ["avx2", "baseline"] {
            let narrow = history(width);
            for key in ["history", "true_residual"] {
                assert_eq!(narrow[key], wide[key], "{problem:?} {width}");
            }
        }
    }
}

#[test]
fn a_grid_may_stand_before_other_arguments() {
    let text = succeeds(&["solve", "--problem", "poisson7:8x8x6", "--grid", "8,8,6", "amg.smoother.type=line"]);
    assert!(text.contains("stencil7"), "{text}");
    let words = ["--grid has 4 numbers", "1 to 3"];
    fails(&["solve", "--problem", "poisson5:4x4", "--grid", "4,4,1,1"], &words);
}

#[test]
fn a_solve_that_does_not_converge_exits_with_1() {
    let run = terrace(&["solve", "-p", "poisson7:12", "solver.max_iterations=2"]);
    assert_eq!(run.code, 1);
    assert!(run.err.starts_with("terrace: not converged after 2 iterations, with a relative residual"), "{}", run.err);
    assert!(run.out.contains("not converged"));
}

#[test]
fn options_come_from_a_file_and_then_from_arguments() {
    let config = written("two_iterations.json", r#"{"solver": {"max_iterations": 2, "type": "gmres"}}"#);
    let json = solved(&["-p", "poisson7:12", "--config", &config, "solver.max_iterations=100"]);
    assert!(json["solver"].as_str().unwrap().contains("gmres"));
    assert!(json["right_hand_side"][0]["iterations"].as_u64().unwrap() > 2);

    let two = written("restart.json", r#"{"solver.restart": 7}"#);
    let preset = ["-p", "poisson7:12", "--preset", "aggregation", "--config", &two, "amg.smoother.type=jacobi"];
    let json = solved(&preset);
    assert!(json["solver"].as_str().unwrap().contains("fcg"), "around the preset's k cycle");
    assert_eq!(json["level"][0]["smoother"], "jacobi", "{}", json["level"][0]);

    let single = solved(&["-p", "poisson7:12", "solver.precision=f32", "solver.tolerance=1e-4"]);
    assert!(single["solver"].as_str().unwrap().contains("f32"));
}

#[test]
fn right_hand_sides_are_read_and_solutions_written() {
    let matrix = scratch("system.mtx.gz");
    succeeds(&["gallery", "poisson5:6x5", "-o", matrix.to_str().unwrap()]);
    let b: Vec<f64> = (0..60).map(|i| f64::from(i % 7) - 2.5).collect();
    let lines: Vec<String> = b.iter().map(f64::to_string).collect();
    let rhs = written("rhs.mtx", &format!("%%MatrixMarket matrix array real general\n30 2\n{}\n", lines.join("\n")));
    let solution = scratch("solution.mtx");

    let json = solved(&[matrix.to_str().unwrap(), "--rhs", &rhs, "-o", solution.to_str().unwrap()]);

    assert_eq!(json["right_hand_sides"], 2);
    let (a, x) = (read_matrix(&matrix).unwrap(), read_dense(&solution).unwrap());
    assert_eq!((x.rows, x.cols), (30, 2));
    for column in 0..2 {
        for i in 0..30 {
            let ax: f64 = a.view().row(i).map(|(j, v)| v[0] * x.values[30 * column + j]).sum();
            assert!((ax - b[30 * column + i]).abs() < 1e-6);
        }
    }
}

#[test]
fn a_random_solution_is_found_again() {
    let solution = scratch("random_solution.mtx");
    solved(&["-p", "jumps:8", "--random-solution", "solver.tolerance=1e-12", "-o", solution.to_str().unwrap()]);
    let (x, expected) = (read_dense(&solution).unwrap().values, gallery::random_vector(512).unwrap());
    assert!(expected.iter().all(|v| (-1.0..1.0).contains(v)) && expected.iter().sum::<f64>().abs() < 50.0);
    for (x, expected) in x.iter().zip(&expected) {
        assert!((x - expected).abs() < 1e-4, "{x} {expected}");
    }
}

#[test]
fn near_null_spaces_from_files_act_like_the_generated_ones() {
    let (matrix, xyz) = (scratch("bar.mtx"), scratch("bar_xyz.mtx"));
    let (matrix, xyz) = (matrix.to_str().unwrap(), xyz.to_str().unwrap());
    succeeds(&["gallery", "elasticity:8", "-o", matrix, "--coordinates", xyz]);
    let history = |json: &Json| json["right_hand_side"][0]["history"].clone();

    let generated = solved(&["-p", "elasticity:8"]);
    let read = solved(&[matrix, "--block-size", "3", "--coordinates", xyz]);
    assert_eq!(read["problem"]["block_size"], 3);
    assert_eq!(history(&read), history(&generated));

    // Translations alone are a poorer near-null space than all rigid-body modes.
    let rows = read["problem"]["rows"].as_u64().unwrap();
    let translations: Vec<String> =
        (0..3).flat_map(|c| (0..rows).map(move |i| u64::from(i % 3 == c).to_string())).collect();
    let text = format!("%%MatrixMarket matrix array integer general\n{rows} 3\n{}\n", translations.join("\n"));
    let modes = written("translations.mtx", &text);
    let poorer = solved(&[matrix, "--block-size", "3", "--near-null-space", &modes]);
    let iterations = |json: &Json| json["right_hand_side"][0]["iterations"].as_u64().unwrap();
    assert!(iterations(&poorer) > iterations(&generated), "{} {}", iterations(&poorer), iterations(&generated));
}

#[test]
fn bench_prints_a_table_and_one_line_for_machines() {
    let text = succeeds(&["bench", "solve", "-p", "poisson7:10", "--repeat", "2", "--threads", "2"]);
    assert!(text.contains("1 thread ") && text.contains("2 threads") && text.contains("speed-up"), "{text}");
    let json: Json = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((&json["bench"], &json["repeat"]), (&Json::from("solve"), &Json::from(2)));
    for (run, threads) in json["runs"].as_array().unwrap().iter().zip([1, 2]) {
        assert_eq!(run["threads"], threads);
        for phase in ["setup", "solve", "update", "apply"] {
            assert!(run["median_seconds"][phase].as_f64().unwrap() > 0.0, "{phase}");
        }
        let ratio = format!("{:.3}", run["update_over_setup"].as_f64().unwrap());
        assert!(text.lines().any(|line| line.starts_with("update over setup") && line.contains(&ratio)), "{text}");
    }
}

#[test]
fn bench_gpu_measures_every_format_and_tells_how_dense_tiles_are() {
    let text = succeeds(&[
        "bench",
        "gpu",
        "elasticity:2",
        "poisson27:9",
        "--device",
        "sim",
        "--repeat",
        "1",
        "--copy-mib",
        "1",
        "--products",
        "--formats",
    ]);
    let json: Json = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let products = json["results"].as_array().unwrap();
    for (problem, dense) in [("elasticity:2", true), ("poisson27:9", false)] {
        for precision in ["f64 matrix, f64 vectors", "f32 matrix, f32 vectors", "f16 matrix, f32 vectors"] {
            let is_it = |p: &&Json| p["problem"] == problem && p["product"] == precision && p["format"] == "tiles4x4";
            let product = products.iter().find(is_it).unwrap_or_else(|| panic!("{problem} {precision}: {text}"));
            assert!(product["median_seconds"].as_f64().unwrap() > 0.0 && product["bytes"].as_u64().unwrap() > 0);
            let entries = product["entries_of_tile"].as_f64().unwrap();
            assert!((1.0..=16.0).contains(&entries) && (entries > 8.0) == dense, "{problem}: {entries}");
        }
    }
    assert_eq!(text.matches(" in a tile of 4 x 4").count(), 2, "{text}");
}

#[test]
fn bench_products_and_setup_measure_what_a_device_does() {
    let last = |text: &str| -> Json { serde_json::from_str(text.lines().last().unwrap()).unwrap() };
    let text = succeeds(&["bench", "products", "poisson7:5", "elasticity:2", "--device", "sim", "--repeat", "1"]);
    let json = last(&text);
    let products = json["results"].as_array().unwrap();
    let of = |name: &'static str| products.iter().filter(move |product| product["product"] == name);
    assert_eq!((of("scalars").count(), of("blocks").count()), (2, 1), "{text}");
    assert!(products.iter().all(|product| product["seconds"].as_f64().unwrap() > 0.0));
    assert_eq!(of("scalars").next_back().unwrap()["nonzeros"], of("blocks").next_back().unwrap()["nonzeros"], "{text}");
    let text =
        succeeds(&["bench", "products", "elasticity:2", "--device", "sim", "--repeat", "1", "--with", "hash,tiles"]);
    let json = last(&text);
    let names: Vec<_> = json["results"].as_array().unwrap().iter().map(|product| product["product"].as_str()).collect();
    assert_eq!(names, ["blocks, hash", "blocks, tiles", "scalars, hash", "scalars, tiles"].map(Some), "{text}");
    assert!(
        json["results"].as_array().unwrap().iter().all(|product| product["nonzeros"] == json["results"][0]["nonzeros"])
    );
    let arguments =
        ["bench", "setup", "poisson7:8", "--device", "sim", "--repeat", "1", "--kernels", "--copy-mib", "1"];
    let text = succeeds(&arguments);
    // Set-up and update of three sets of options: a row of cells for each level, the last of which is only inverted.
    let tables: Vec<_> = text.split("| level | ").skip(1).collect();
    assert_eq!(tables.len(), 6, "{text}");
    for table in tables {
        let rows: Vec<Vec<_>> = table.lines().take(4).map(|row| row.split(" | ").map(str::trim).collect()).collect();
        let of = |row: usize, name: &str| rows[row][rows[0].iter().position(|column| *column == name).unwrap() + 1];
        assert!(rows[2][0] == "| 0" && rows[3][0] == "| 1", "{table}");
        for (row, name, some) in [(2, "galerkin", true), (2, "coarsest", false), (3, "coarsest", true)] {
            assert_eq!(of(row, name).ends_with('%'), some, "{name} in row {row} of {table}");
        }
    }
    let json = last(&text);
    for result in json["results"].as_array().unwrap() {
        assert!(result["setup_seconds"].as_f64().unwrap() > 0.0 && result["update_seconds"].as_f64().unwrap() > 0.0);
        assert!(result["updated_bytes"].as_u64().unwrap() > result["bytes"].as_u64().unwrap(), "{text}");
        assert!(
            result["true_residual"].as_f64().unwrap() < 1e-7 && result["place"].as_str().unwrap().starts_with("device")
        );
    }
    let text = succeeds(&[&arguments[..], &["--no-update", "--single"]].concat());
    assert!(text.contains(" held, ") && text.contains("steps of set-up"), "{text}");
    assert!(!text.contains("update ") && !text.contains("of update"), "{text}");
    assert!(last(&text)["results"][0]["update_seconds"].is_null(), "{text}");
    fails(&["bench", "products", "--device", "host"], &["host", "is not a GPU"]);
}

#[test]
fn bench_spmv_compares_with_the_triad() {
    let text = succeeds(&["bench", "spmv", "poisson7:12", "--repeat", "10", "--triad-mib", "4", "--threads", "2"]);
    assert!(text.contains("triad") && text.contains("f64") && text.contains("f32"), "{text}");
    let json: Json = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert!(json["triad_bytes_per_second"].as_f64().unwrap() > 1e6);
    for product in json["products"].as_array().unwrap() {
        assert!(product["median_seconds"].as_f64().unwrap() > 0.0 && product["share_of_triad"].as_f64().unwrap() > 0.0);
    }
    fails(&["bench", "spmv", "--repeat", "9"], &["9", "10..=10000"]);
    fails(&["bench", "spmv", "poisson8:3"], &["no family is called"]);
}

#[test]
fn bench_cycle_compares_precisions() {
    let text = succeeds(&["bench", "cycle", "-p", "poisson7:12", "--repeat", "2", "--solves", "1", "--threads", "2"]);
    let json: Json = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let precisions = json["precisions"].as_array().unwrap();
    for (measured, name) in precisions.iter().zip(["f64", "f32", "f16/f32", "bf16/f32"]) {
        assert!(measured["precision"] == name && text.contains(name), "{text}");
        assert!(measured["cycle_seconds"].as_f64().unwrap() > 0.0 && measured["solve_seconds"].as_f64().unwrap() > 0.0);
        assert!(measured["bytes_ratio"].as_f64().unwrap() >= if name == "f64" { 1.0 } else { 1.3 }, "{text}");
    }
}

#[test]
fn bench_scaling_counts_what_ranks_send() {
    let text = succeeds(&["bench", "scaling", "--size", "5", "--ranks", "16", "--target", "64"]);
    for expected in
        ["poisson7, 5^3 for each rank", "16 ranks, smallest to largest", "Model from 8 ranks for 16", "| 8192 |"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let json: Json = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((&json["bench"], &json["target"]), (&Json::from("scaling"), &Json::from(64)));
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 5);
    assert!(runs[0]["messages"] == 0.0 && runs[4]["messages"].as_f64() > runs[1]["messages"].as_f64());
    // Two cubes share a face, and a cube among others three at least.
    assert_eq!((&runs[1]["levels"][0]["neighbours"][2], &runs[1]["ranks"]), (&Json::from(1), &Json::from(2)));
    assert!(runs[3]["levels"][0]["neighbours"][0].as_i64() >= Some(3));
    fails(&["bench", "scaling", "-p", "hubs", "--ranks", "2"], &["hubs", "accepted: poisson7"]);
}

/// With no compiler of the peers on the path, the benchmark says what to install.
#[test]
fn bench_peers_needs_the_peers() {
    let output = Command::new(env!("CARGO_BIN_EXE_terrace"))
        .args(["bench", "peers", "--problem", "poisson5:8", "--repeat", "1"])
        .env("PATH", scratch("no programs here"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("apt-get install") && text.contains("libhypre-dev"), "{text}");
}
