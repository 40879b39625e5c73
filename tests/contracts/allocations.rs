//! Arrays that grow with the caller's matrix are allocated by the functions of `src/error.rs`, which fail with a status. Rust's own forms abort the
//! process when memory runs out; in the files below they stand only where the size is bounded.

use super::layers::code_outside_of_tests;

/// Folders and files whose arrays grow with a matrix.
const CHECKED: &[&str] = &[
    "amg/",
    "backend/",
    "comm/",
    "host/",
    "sparse/",
    "matrix/",
    "matrix.rs",
    "null_space.rs",
    "operations.rs",
    "par.rs",
    "preconditioner/",
    "krylov/",
    "smooth/",
    "solver/",
];

/// Forms that allocate and cannot fail gently. Stable sorts allocate, too.
const FORMS: &[&str] =
    &["vec!", "collect", "to_vec", "concat", "with_capacity", "sort", "sort_by", "sort_by_key", "HashMap", "VecDeque"];

/// Where they stand all the same: file, form, how often, and what bounds the size.
const BOUNDED: &[(&str, &str, usize, &str)] = &[
    ("amg/cycle.rs", "collect", 1, "vectors of a smoother"),
    ("amg/hierarchy.rs", "collect", 2, "levels"),
    ("amg/hierarchy/decide.rs", "vec!", 1, "levels"),
    ("amg/hierarchy/decide.rs", "collect", 7, "levels"),
    ("amg/hierarchy/near_null_space.rs", "collect", 2, "vectors of a smoother or of a near-null space"),
    ("amg/hierarchy/scale.rs", "collect", 4, "levels"),
    ("amg/hierarchy/store.rs", "collect", 1, "vectors of a smoother"),
    ("amg/plan.rs", "collect", 3, "levels and their parts"),
    ("backend/spectrum.rs", "collect", 3, "Lanczos steps"),
    ("comm/ranks.rs", "vec!", 2, "ranks, and a sentence of at most 1024 bytes"),
    ("comm/thread_ranks.rs", "vec!", 2, "ranks"),
    ("comm/thread_ranks.rs", "collect", 2, "ranks"),
    ("comm/thread_ranks.rs", "HashMap", 3, "messages under way, whose bytes are reserved with a status"),
    ("comm/thread_ranks.rs", "VecDeque", 2, "messages under way between two ranks"),
    ("host/arnoldi.rs", "collect", 1, "the restart length, at most 1000 vectors"),
    ("host/hmis.rs", "vec!", 1, "at most 8 pieces"),
    ("host/setup.rs", "collect", 1, "levels"),
    ("host/stencil/black_box.rs", "collect", 2, "offsets, and at most two classes of cells"),
    ("krylov/idr.rs", "collect", 2, "at most 32 shadow vectors"),
    ("matrix/borrowed.rs", "collect", 1, "three arrays"),
    ("matrix/grid_copy.rs", "collect", 3, "entries of a row of a stencil"),
    ("null_space.rs", "collect", 1, "vectors of a null space"),
    ("preconditioner/defaults.rs", "collect", 1, "stencils that a row shows"),
    ("sparse/grid_transfer.rs", "collect", 3, "sets of axes and offsets"),
    ("sparse/grid_transfer.rs", "sort_by_key", 1, "sets of axes"),
    ("sparse/stencil.rs", "collect", 2, "offsets"),
    ("sparse/stencil.rs", "to_vec", 1, "offsets"),
    ("sparse/stencil/convert.rs", "collect", 1, "offsets"),
    ("sparse/stencil/find.rs", "collect", 3, "entries of a row of a stencil"),
    ("sparse/mod.rs", "sort_by_key", 1, "triplets are of files and tests, not of the C ABI"),
];

#[test]
fn arrays_that_grow_with_a_matrix_are_allocated_with_a_status() {
    let mut wrong = Vec::new();
    for (file, code) in code_outside_of_tests() {
        if !CHECKED.iter().any(|part| file.starts_with(part)) {
            continue;
        }
        let code: String = code.iter().collect();
        for form in FORMS {
            let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let found = code.match_indices(form).filter(|(at, _)| {
                let (before, after) = (code[..*at].chars().next_back(), code[at + form.len()..].chars().next());
                // An empty `vec![]` or one of listed elements has a size that the program text shows.
                let rest = &code[at + form.len()..];
                let counted = *form != "vec!" || rest[..rest.find(']').unwrap_or(0)].contains(';');
                !is_word(before) && !is_word(after) && counted
            });
            let (count, allowed) = (found.count(), BOUNDED.iter().find(|row| (row.0, row.1) == (file.as_str(), *form)));
            if count != allowed.map_or(0, |row| row.2) {
                wrong.push(format!("src/{file} has {form} {count} times"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "use try_vec, try_collect, try_copy or try_push, or say what bounds the size:\n{}",
        wrong.join("\n")
    );
}
