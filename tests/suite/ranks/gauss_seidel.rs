//! Multicolour Gauss-Seidel over ranks.

use super::*;

#[test]
fn sweeps_by_colours_have_the_bits_of_one_rank() {
    let sweeps = [("amg.smoother.type", "gauss_seidel"), ("amg.coarsest.max_rows", "20")];
    let direction = "amg.smoother.gauss_seidel.direction";
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("jumps:8", &[sweeps[0], sweeps[1], ("amg.smoother.gauss_seidel.weight", "1.2")]),
        ("poisson7:7", &[sweeps[0], sweeps[1], (direction, "symmetric"), ("precision.preset", "single")]),
        ("convection_diffusion:18", &[sweeps[0], sweeps[1], ("solver.type", "gmres"), (direction, "backward")]),
        ("poisson5:40", &[sweeps[0], sweeps[1], ("amg.coarsening.type", "pmis"), ("precision.matrix", "f16")]),
    ];
    for (name, options) in cases {
        let a = matrix(name);
        let n = a.rows;
        let (x, report) = solve(&a, &[0, n], options);
        assert!(true_residual(&a, &x) <= 1.1e-8, "{name} {options:?}");
        // The colours are those of a solve without ranks.
        let off = report.solves[0].iterations.abs_diff(alone(&a, options).solves[0].iterations);
        assert!(off <= 1, "{name} {options:?}: {off} iterations more or less than without ranks");
        for starts in [evenly(n, 2), evenly(n, 3), vec![0, 0, 1, n / 2, n / 2, n]] {
            let (other, there) = solve(&a, &starts, options);
            assert_eq!(there.solves[0].history, report.solves[0].history, "{name} {options:?} {starts:?}");
            assert!(other.iter().zip(&x).all(|(o, x)| o.to_bits() == x.to_bits()), "{name} {options:?} {starts:?}");
        }
    }
}

#[test]
fn nodes_are_swept_as_scalar_rows() {
    let a = matrix("elasticity:3");
    let coordinates = gallery::parse("elasticity:3").unwrap().coordinates.unwrap();
    let b = right_hand_side(a.rows);
    let options = [("amg.smoother.type", "gauss_seidel"), ("amg.coarsest.max_rows", "12")];
    let solve = |starts: &[usize]| {
        let parts = on_ranks(threads(starts.len() - 1), |context, rank| {
            let own = starts[rank]..starts[rank + 1];
            let matrix = Arc::new(Matrix::distributed(context, Ok(given(&a, own.clone()))).unwrap());
            matrix.set_coordinates(3, &coordinates[own.clone()]).unwrap();
            let mut solver = Solver::new(context, &config(&options));
            solver.setup(Some(&matrix)).unwrap();
            let mut x = vec![0.0; own.len()];
            assert_eq!(solver.solve(&b[own], &mut x, Guess::Zero).unwrap(), Status::Success);
            x
        });
        parts.concat()
    };
    let x = solve(&[0, a.rows]);
    assert!(true_residual(&a, &x) <= 1.1e-8);
    for starts in [evenly(a.rows, 2), evenly(a.rows, 5)] {
        assert!(solve(&starts) == x, "{starts:?}");
    }
}
