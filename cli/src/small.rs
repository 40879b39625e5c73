//! `terrace bench small`: matrices that stay in caches. Products through the C ABI against a plain loop over CSR that `cc -O2` compiles when
//! the benchmark runs, one thread against one and all against as many of OpenMP's.

use crate::Outcome;
use crate::emit::{emit, seconds};
use crate::peers::Folder;
use clap::Args;
use serde_json::json;
use std::ffi::{CString, c_char, c_int, c_void};
use std::fmt::Write;
use std::process::Command;
use std::ptr::null_mut;
use std::time::{Duration, Instant};
use terrace::capi::*;
use terrace::{Error, Result, Status, gallery};

const PLAIN: &str = include_str!("../peers/plain.c");

/// Arguments of the command.
#[derive(Args)]
#[command(after_help = crate::gallery::families_help())]
pub struct Arguments {
    /// Matrices (see `terrace gallery`)
    #[arg(value_name = "FAMILY:SIZES:NAME=VALUE,...", default_values_t =
        ["poisson7:10", "poisson7:22", "poisson7:32", "poisson7:46", "poisson7:63", "poisson5:100", "poisson27:30", "random_m_matrix:30000"]
            .map(String::from))]
    problems: Vec<String>,

    /// Threads, beside one
    #[arg(short, long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(i32).range(2..=64))]
    threads: i32,

    /// Times that everything is measured
    #[arg(short, long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(3..=1000))]
    repeat: u32,
}

type Alone = unsafe extern "C" fn(c_int, *const c_int, *const c_int, *const f64, *const f64, *mut f64);
type Team = unsafe extern "C" fn(c_int, c_int, *const c_int, *const c_int, *const f64, *const f64, *mut f64);

/// The plain loops.
struct Plain {
    alone: Alone,
    team: Team,
}

impl Plain {
    /// Compiles and loads them.
    fn load(folder: &Folder) -> Result<Plain> {
        let failed = |what: String| Error::new(Status::Unsupported, format!("the plain loop: {what}"));
        let (source, library) = (folder.0.join("plain.c"), folder.0.join("plain.so"));
        std::fs::write(&source, PLAIN).map_err(|error| failed(error.to_string()))?;
        let output = Command::new("cc")
            .args(["-O2", "-fopenmp", "-fPIC", "-shared", "-o"])
            .args([&library, &source])
            .output()
            .map_err(|error| failed(format!("cc could not be run: {error}")))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_string()));
        }
        let path = library.to_str().and_then(|path| CString::new(path).ok());
        let path = path.ok_or_else(|| failed(format!("{} is no name of a library", library.display())))?;
        // SAFETY: the library was just compiled, and runs no code of its own when it is loaded.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        let symbol = |name: &std::ffi::CStr| -> Result<*mut c_void> {
            // SAFETY: the handle is that of a library that is never closed, or null, which finds nothing.
            let symbol = if handle.is_null() { null_mut() } else { unsafe { libc::dlsym(handle, name.as_ptr()) } };
            if symbol.is_null() { Err(failed(format!("{name:?} was not found"))) } else { Ok(symbol) }
        };
        // SAFETY: these are the functions of peers/plain.c, of these types.
        unsafe {
            Ok(Plain {
                alone: std::mem::transmute::<*mut c_void, Alone>(symbol(c"plain_alone")?),
                team: std::mem::transmute::<*mut c_void, Team>(symbol(c"plain")?),
            })
        }
    }
}

/// A matrix in the types that most callers have, with its handles.
struct System {
    rows: usize,
    offsets: Vec<i32>,
    columns: Vec<i32>,
    values: Vec<f64>,
    x: Vec<f64>,
    y: Vec<f64>,
    context: *mut terrace_context,
    matrix: *mut terrace_matrix,
}

impl System {
    fn new(name: &str) -> Result<System> {
        let a = gallery::parse(name)?.matrix.view().to_scalar()?;
        let (rows, x) = (a.rows, gallery::random_vector(a.rows)?);
        let offsets = a.offsets.iter().map(|offset| *offset as i32).collect();
        let (columns, values, y) = (a.columns, a.values, vec![0.0; rows]);
        Ok(System { rows, offsets, columns, values, x, y, context: null_mut(), matrix: null_mut() })
    }

    /// Makes the handles, with so many threads.
    fn open(&mut self, threads: i32) -> Result<()> {
        self.close();
        let device = CString::new(format!("host:{threads}")).unwrap_or_default();
        let (o, c, v) = (self.offsets.as_ptr().cast(), self.columns.as_ptr().cast(), self.values.as_ptr().cast());
        let (n, i, f) = (self.rows as i64, TERRACE_I32, TERRACE_F64);
        // SAFETY: the arrays live as long as the handles, which `close` destroys.
        unsafe {
            check(terrace_context_create(device.as_ptr().cast::<c_char>(), &mut self.context))?;
            check(terrace_matrix_create_csr(self.context, n, n, i, o, i, c, f, v, 0, TERRACE_BORROW, &mut self.matrix))
        }
    }

    fn close(&mut self) {
        // SAFETY: handles are null or were created, and are not used again.
        unsafe {
            terrace_matrix_destroy(self.matrix);
            terrace_context_destroy(self.context);
        }
        (self.context, self.matrix) = (null_mut(), null_mut());
    }

    fn apply(&mut self) -> Result<()> {
        let (x, y) = (self.x.as_ptr().cast(), self.y.as_mut_ptr().cast());
        // SAFETY: the vectors have an element for each row.
        check(unsafe { terrace_matrix_apply(self.context, self.matrix, TERRACE_F64, 1.0, x, 0.0, y) })
    }

    fn plain(&mut self, plain: &Plain, threads: i32) {
        let (n, o, c) = (self.rows as c_int, self.offsets.as_ptr(), self.columns.as_ptr());
        let (v, x, y) = (self.values.as_ptr(), self.x.as_ptr(), self.y.as_mut_ptr());
        // SAFETY: the arrays are those of a matrix in CSR and of its vectors.
        match threads {
            1 => unsafe { (plain.alone)(n, o, c, v, x, y) },
            _ => unsafe { (plain.team)(threads, n, o, c, v, x, y) },
        }
    }
}

impl Drop for System {
    fn drop(&mut self) {
        self.close();
    }
}

fn check(status: terrace_status) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(Error::new(Status::Internal, format!("the library returned {status}"))) }
}

/// Seconds of one call in each of several rounds.
struct Times {
    plain: Vec<f64>,
    own: Vec<f64>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let folder = Folder::new()?;
    let plain = Plain::load(&folder)?;
    let mut text = format!(
        "y = A x in f64, shortest of {} rounds; plain: CSR loop by cc -O2, with OpenMP for several threads\n\n\
         | matrix | rows | threads | plain | Terrace | ratio |\n| --- | --- | --- | --- | --- | --- |\n",
        arguments.repeat
    );
    let mut lines = Vec::new();
    for name in &arguments.problems {
        let mut system = System::new(name)?;
        for threads in [1, arguments.threads] {
            let times = measure(&mut system, &plain, threads, arguments.repeat)?;
            let (plain, own) = (shortest(&times.plain), shortest(&times.own));
            let ratio = own / plain;
            let rows = system.rows;
            let _ =
                writeln!(text, "| {name} | {rows} | {threads} | {} | {} | {ratio:.2} |", seconds(plain), seconds(own));
            lines.push(json!({ "problem": name, "rows": rows, "threads": threads, "plain_seconds": plain, "seconds": own, "ratio": ratio }));
        }
    }
    emit(&text)?;
    let line = json!({ "bench": "small", "version": env!("CARGO_PKG_VERSION"), "repeat": arguments.repeat, "products": lines });
    emit(&format!("\n{line}\n"))?;
    Ok(Outcome::Done)
}

/// What other programs on the machine disturbed least.
fn shortest(seconds: &[f64]) -> f64 {
    seconds.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Both in turns. A team of OpenMP spins for a while after a loop, so that it is given the time to end that.
fn measure(system: &mut System, plain: &Plain, threads: i32, repeat: u32) -> Result<Times> {
    system.open(threads)?;
    let calls = (2_000_000 / system.columns.len()).clamp(3, 500);
    let mut times = Times { plain: Vec::new(), own: Vec::new() };
    for _ in 0..repeat {
        system.plain(plain, threads);
        let start = Instant::now();
        (0..calls).for_each(|_| system.plain(plain, threads));
        times.plain.push(start.elapsed().as_secs_f64() / calls as f64);
        if threads > 1 {
            std::thread::sleep(Duration::from_millis(20));
        }
        let expected = system.y.clone();
        system.apply()?;
        if !system.y.iter().zip(&expected).all(|(y, e)| (y - e).abs() <= 1e-10 * (1.0 + e.abs())) {
            return Err(Error::new(Status::Internal, "the product differs from that of the plain loop"));
        }
        let start = Instant::now();
        for _ in 0..calls {
            system.apply()?;
        }
        times.own.push(start.elapsed().as_secs_f64() / calls as f64);
    }
    Ok(times)
}
