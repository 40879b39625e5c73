//! Solves the 7-point Poisson problem on an n x n x n grid: the Rust twin of `c_examples/poisson.c`.
//!
//! `cargo run --release --example poisson [n]`; n is 64 unless given.

use std::sync::Arc;
use terrace::{Config, Context, Error, Guess, Matrix, Solver, Status, gallery};

fn main() -> Result<(), Error> {
    let n = match std::env::args().nth(1).map(|text| text.parse::<usize>()) {
        None => 64,
        Some(Ok(n)) if (1..=600).contains(&n) => n,
        Some(_) => return Err(Error::new(Status::InvalidArgument, "n must be from 1 to 600")),
    };
    let context = Context::new("host")?;
    let matrix = Arc::new(Matrix::from_csr(gallery::poisson7(n, n, n)?)?);
    println!("Poisson, {n}^3 = {} unknowns, {} nonzeros\n", matrix.rows(), matrix.entries());

    let mut config = Config::new();
    config.set_real("solver.tolerance", 1e-8)?;
    config.set_int("solver.max_iterations", 200)?;
    let mut solver = Solver::new(&context, &config);
    solver.setup(Some(&matrix))?;

    let b = vec![1.0; matrix.rows()];
    let mut x = vec![0.0; matrix.rows()];
    let status = solver.solve(&b, &mut x, Guess::Zero)?;

    let report = solver.report();
    print!("{}", report.to_text());
    println!("\niteration  relative residual");
    for (i, residual) in report.solves[0].history.iter().enumerate() {
        println!("{i:>9}  {residual:.3e}");
    }
    match status {
        Status::Success => Ok(()),
        other => Err(Error::new(other, other.row().sentence)),
    }
}
