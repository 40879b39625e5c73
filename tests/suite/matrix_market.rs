//! Matrix Market files: what is written is read back to the bit, and a collection of real matrices has the sizes that its own
//! catalogue states.

use crate::common;
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use terrace::io::matrix_market::{Contents, Dense, read, read_dense, read_matrix, write_dense, write_matrix};
use terrace::sparse::{Block, Csr};
use terrace::{Status, gallery};

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()))
}

fn finite() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>().prop_filter("finite", |v| v.is_finite()), -1e3..1e3, Just(0.0), Just(-0.0)]
}

prop_compose! {
    fn matrices()(rows in 1..20_usize, cols in 1..20_usize)(
        rows in Just(rows),
        cols in Just(cols),
        entries in prop::collection::btree_map((0..rows, 0..cols), finite(), 0..40),
    ) -> Csr<f64> {
        let triplets: Vec<_> = entries.into_iter().map(|((i, j), v)| (i, j, v)).collect();
        Csr::from_triplets(rows, cols, &triplets).unwrap()
    }
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn matrices_come_back_to_the_bit(a in matrices(), compressed in any::<bool>()) {
        let path = scratch("round_trip").with_extension(if compressed { "mtx.gz" } else { "mtx" });
        write_matrix(&path, &a.view(), "a comment\nof two lines").unwrap();
        let b = read_matrix(&path).unwrap();
        prop_assert_eq!((b.rows, b.cols), (a.rows, a.cols));
        prop_assert_eq!(&b.offsets, &a.offsets);
        prop_assert_eq!(&b.columns, &a.columns);
        prop_assert_eq!(bits(&b.values), bits(&a.values));
    }

    #[test]
    fn vectors_come_back_to_the_bit(rows in 0..30_usize, cols in 1..4_usize, seed in prop::collection::vec(finite(), 90)) {
        let path = scratch("vectors").with_extension("mtx");
        let dense = Dense { rows, cols, values: seed[..rows * cols].to_vec() };
        write_dense(&path, &dense, "").unwrap();
        prop_assert_eq!(bits(&read_dense(&path).unwrap().values), bits(&dense.values));
    }

    #[test]
    fn no_text_makes_the_reader_panic(
        kind in prop::sample::select(vec!["coordinate real general", "coordinate pattern symmetric", "array real general"]),
        body in "[0-9 .e\\-\n%x]{0,80}",
    ) {
        let _ = read(format!("%%MatrixMarket matrix {kind}\n{body}").as_bytes(), "text");
    }
}

#[test]
fn blocks_are_written_as_their_scalars() {
    let elastic = gallery::elasticity_hex8(2, gallery::Layers::NONE, true).unwrap().matrix;
    let path = scratch("blocks").with_extension("mtx.gz");
    write_matrix(&path, &elastic.view(), "").unwrap();
    let scalar = read_matrix(&path).unwrap();
    assert_eq!(scalar.block, Block::SCALAR);
    assert_eq!(scalar, elastic.view().to_scalar().unwrap());
    assert_eq!(scalar.view().to_blocks(3).unwrap(), elastic);
}

#[test]
fn numbers_that_a_file_cannot_hold_are_refused() {
    let a = Csr::from_triplets(1, 1, &[(0, 0, f64::NAN)]).unwrap();
    assert_eq!(write_matrix(&scratch("nan"), &a.view(), "").unwrap_err().status, Status::MatrixValues);
    let missing = Path::new("no-such-folder").join("a.mtx");
    assert_eq!(read_matrix(&missing).unwrap_err().status, Status::Io);
    let dense = Dense { rows: 1, cols: 1, values: vec![1.0] };
    assert_eq!(write_dense(&missing, &dense, "").unwrap_err().status, Status::Io);
}

#[test]
fn real_matrices_have_the_sizes_of_their_catalogue() {
    let Some(folder) = common::real_matrices("sizes of real matrices") else { return };
    let catalogue = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let (mut matrices, mut companions) = (0, 0);
    for line in catalogue.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, shape, third, ..] = cells[..] else { continue };
        let path = folder.join(format!("{name}.mtx.gz"));
        if name.is_empty() || !path.is_file() {
            continue;
        }
        let sizes: Vec<usize> = shape.split(" x ").map(|n| n.parse().unwrap()).collect();
        let (rows, cols) = (sizes[0], *sizes.last().unwrap());
        let result = std::fs::File::open(&path).map(|file| read(file, name)).unwrap();
        match result {
            Ok(Contents::Sparse(a)) => {
                assert_eq!((a.rows, a.cols, a.columns.len()), (rows, cols, third.parse().unwrap()), "{name}");
                matrices += 1;
            }
            Ok(Contents::Dense(d)) => {
                assert_eq!((d.rows, d.cols, d.values.len()), (rows, cols, rows * cols), "{name}");
                companions += 1;
            }
            Err(error) => assert!(error.status == Status::Unsupported && error.message.contains("complex"), "{error}"),
        }
    }
    assert!(matrices > 20 && companions > 5, "{matrices} matrices and {companions} arrays were found");
    println!("{matrices} matrices, {companions} arrays");
}
