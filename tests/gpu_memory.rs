//! Device memory after many set-ups, updates and solves, as the library counts it and as the driver does. A program of its own: what other tests hold would
//! count, too.

mod common;

use common::devices::devices;
use std::sync::Arc;
use terrace::{Config, Context, Guess, Solver, Status, gallery};

#[test]
fn set_ups_that_come_and_go_leave_nothing_behind() {
    // Large enough for automatic formats.
    let matrix = gallery::parse("poisson7:9").unwrap().into_matrix().unwrap();
    for device in devices() {
        let context = Context::new(device).unwrap();
        let there = Arc::new(matrix.to_device(&context).unwrap());
        let used = || context.gpu().unwrap().memory().used;
        let (before, mut free) = (used(), None);
        for round in 0..if device == "cuda:0" { 1000 } else { 4 } {
            let mut config = Config::new();
            config.set_int("amg.coarsest.max_rows", 10).unwrap();
            config.set_str("amg.setup", "device").unwrap();
            config.set_str("precision", ["input", "auto"][round % 2]).unwrap();
            let mut solver = Solver::new(&context, &config);
            solver.setup(Some(&there)).unwrap();
            solver.update().unwrap();
            // Twice, so that its graphs are made and replayed.
            for _ in 0..2 {
                let mut x = vec![0.0; there.rows()];
                assert_eq!(solver.solve(&vec![1.0; there.rows()], &mut x, Guess::Zero).unwrap(), Status::Success);
            }
            drop(solver);
            assert_eq!(used(), before, "after {round} set-ups on {device}");
            // What the driver takes for the first few may stay with it.
            let now = context.gpu().unwrap().free_memory().unwrap();
            if round == 20 {
                free = now;
            }
            let is_back = now.zip(free).is_none_or(|(now, free)| now + (8 << 20) > free);
            assert!(is_back, "{now:?} bytes are free on {device} after {round} set-ups, {free:?} before");
        }
    }
}
