//! `terrace bench spmv`: the product of a sparse matrix with a vector against the bandwidth of the memory.
//!
//! The product moves every value and column once, so that memory gives the floor of its time. The bandwidth is that of the triad
//! a = b + s c, on the same threads and in turn with the products, counted as 24 bytes for each element. Medians are compared with medians.

use crate::Outcome;
use crate::bench::median;
use crate::emit::{bytes, emit, seconds, threads};
use crate::progress::Progress;
use clap::Args;
use half::{bf16, f16};
use serde_json::json;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;
use terrace::backend::{Backend, Columns, Operator};
use terrace::host::Host;
use terrace::host::operator::Stored;
use terrace::par;
use terrace::scalar::Number;
use terrace::sparse::{CsrView, OffsetStorage, Offsets, SharedCsr, Structure};
use terrace::{Context, Result, Scalar, gallery};

/// Arguments of the command.
#[derive(Args)]
#[command(after_help = crate::gallery::families_help())]
pub struct Arguments {
    /// The matrix (see `terrace gallery`)
    #[arg(value_name = "FAMILY:SIZES:NAME=VALUE,...", default_value = "poisson7:128")]
    problem: String,

    /// Threads; every core when not given
    #[arg(short, long, value_name = "N")]
    threads: Option<usize>,

    /// Times that everything is measured, after three warm-ups
    #[arg(short, long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    repeat: u32,

    /// Also measure the formats that levels are stored in, with columns of 16 bits or by diagonals where those save bytes, in
    /// f64, f32, f16 and bf16
    #[arg(long)]
    formats: bool,

    /// Mebibytes of each of the three arrays of the triad; without it, together at least four times the largest cache
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    triad_mib: Option<u32>,
}

/// Warm-up rounds.
const WARM_UPS: u32 = 3;

/// Seconds of all rounds of a product, and what it moves.
struct Product {
    name: String,
    bytes: usize,
    seconds: Vec<f64>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let context = match arguments.threads {
        None => Context::new("host")?,
        Some(threads) => Context::new(&format!("host:{threads}"))?,
    };
    let host = Host::new(&context);
    let progress = Progress::new(false);
    let matrix = progress.spin(&format!("generating {}", arguments.problem), || gallery::parse(&arguments.problem))?;
    let double = with_narrow_offsets(matrix.matrix.into_shared());
    let single = double.cast::<f32>()?;

    let cache = largest_cache();
    let default = (4 * cache.unwrap_or(0) / 3).max(256 << 20);
    let elements = arguments.triad_mib.map_or(default, |mib| (mib as usize) << 20) / size_of::<f64>();
    let mut triad = Triad::new(&context, &host, elements)?;
    let mut triads = Vec::new();
    let bytes = product_bytes(&double.view());
    let mut products: Vec<Box<dyn Measure>> = vec![
        measured::<f64, f64>("f64", Some(bytes), &host, &double, Columns::Shared)?,
        measured::<f32, f32>("f32", Some(product_bytes(&single.view())), &host, &single, Columns::Shared)?,
    ];
    if arguments.formats {
        products.push(measured::<f16, f32>("f16", None, &host, &double, Columns::Shared)?);
        products.push(measured::<bf16, f32>("bf16", None, &host, &double, Columns::Shared)?);
        products.push(measured::<f64, f64>("f64", None, &host, &double, Columns::Compact)?);
        products.push(measured::<f32, f32>("f32", None, &host, &double, Columns::Compact)?);
        products.push(measured::<f16, f32>("f16", None, &host, &double, Columns::Compact)?);
        products.push(measured::<bf16, f32>("bf16", None, &host, &double, Columns::Compact)?);
    }
    progress.spin("measuring", || {
        // Alternating, so that a slow moment of the machine affects all.
        for round in 0..WARM_UPS + arguments.repeat {
            let time = triad.run();
            if round >= WARM_UPS {
                triads.push(time);
            }
            for product in &mut products {
                product.run(round >= WARM_UPS)?;
            }
        }
        Ok(())
    })?;

    let bandwidth = (3 * elements * size_of::<f64>()) as f64 / median(triads.clone());
    let products: Vec<Product> = products.into_iter().map(|product| product.finish()).collect();
    let view = double.view();
    emit(&table(arguments, &context, &view, (bandwidth, elements, &triads), cache, &products))?;
    let line = json!({
        "bench": "spmv", "version": env!("CARGO_PKG_VERSION"), "problem": arguments.problem, "threads": context.threads(),
        "repeat": arguments.repeat, "rows": view.scalar_rows(), "nonzeros": view.entries(),
        "triad_bytes_per_second": bandwidth, "largest_cache_bytes": cache,
        "products": products.iter().map(|p| json!({
            "precision": p.name, "bytes": p.bytes, "median_seconds": median(p.seconds.clone()), "best_seconds": best(&p.seconds),
            "share_of_triad": p.share(bandwidth),
        })).collect::<Vec<_>>(),
    });
    emit(&format!("{line}\n"))?;
    Ok(Outcome::Done)
}

fn best(seconds: &[f64]) -> f64 {
    seconds.iter().copied().fold(f64::INFINITY, f64::min)
}

impl Product {
    /// The time of the bytes at the bandwidth of memory, over the median.
    fn share(&self, bandwidth: f64) -> f64 {
        self.bytes as f64 / bandwidth / median(self.seconds.clone())
    }
}

fn table(
    arguments: &Arguments,
    context: &Context,
    a: &CsrView<'_, f64>,
    (bandwidth, elements, triads): (f64, usize, &[f64]),
    cache: Option<usize>,
    products: &[Product],
) -> String {
    let mut out = format!(
        "{}: {} rows, {} nonzeros, {}, {} rounds; triad on 3 arrays of {}\n\n",
        arguments.problem,
        a.scalar_rows(),
        a.entries(),
        threads(context.threads()),
        arguments.repeat,
        bytes(elements * size_of::<f64>())
    );
    let _ =
        writeln!(out, "{:<14} {:>10} {:>10} {:>10} {:>8} {:>8}", "product", "bytes", "median", "best", "GB/s", "share");
    let triad = 3 * elements * size_of::<f64>();
    let _ = writeln!(
        out,
        "{:<14} {:>10} {:>10} {:>10} {:>8.2} {:>8}",
        "triad",
        bytes(triad),
        seconds(triad as f64 / bandwidth),
        seconds(best(triads)),
        bandwidth / 1e9,
        "100 %"
    );
    for product in products {
        let time = median(product.seconds.clone());
        let _ = writeln!(
            out,
            "{:<14} {:>10} {:>10} {:>10} {:>8.2} {:>6.0} %",
            product.name,
            bytes(product.bytes),
            seconds(time),
            seconds(best(&product.seconds)),
            product.bytes as f64 / time / 1e9,
            100.0 * product.share(bandwidth)
        );
    }
    if let Some(cache) = cache.filter(|cache| products.iter().any(|product| product.bytes < 2 * cache)) {
        let _ = writeln!(
            out,
            "\nThe largest cache has {}: a product that moves less than twice that is partly served from it.",
            bytes(cache)
        );
    }
    out.push('\n');
    out
}

/// The matrix with row offsets of 32 bits, as most callers give them, where they fit.
fn with_narrow_offsets(matrix: SharedCsr<f64>) -> SharedCsr<f64> {
    let view = matrix.view();
    let Offsets::I64(wide) = view.offsets else { return matrix };
    let Ok(narrow) = wide.iter().map(|o| i32::try_from(*o)).collect::<std::result::Result<Vec<_>, _>>() else {
        return matrix;
    };
    let old = &matrix.structure;
    let structure = Structure {
        rows: old.rows,
        cols: old.cols,
        block: old.block,
        offsets: OffsetStorage::I32(Arc::new(narrow)),
        columns: Arc::clone(&old.columns),
        base: old.base,
    };
    SharedCsr { structure: Arc::new(structure), values: matrix.values }
}

/// The least that y = A x moves: values and columns once, an offset of 32 bits for each row, x and y once.
fn product_bytes<T: Scalar>(a: &CsrView<'_, T>) -> usize {
    let vectors = a.scalar_rows() + a.scalar_cols();
    a.entries() * size_of::<T>() + a.nnz() * 4 + a.rows * 4 + vectors * size_of::<T>()
}

/// A matrix with its vectors, of any formats.
trait Measure {
    /// One product on the context's threads, whose time may count.
    fn run(&mut self, counts: bool) -> Result<()>;
    /// What was measured.
    fn finish(self: Box<Self>) -> Product;
}

struct Measured<S, V: Scalar> {
    operator: Stored<S>,
    x: <Host as Backend>::Buffer<V>,
    y: <Host as Backend>::Buffer<V>,
    product: Product,
}

/// The matrix in storage format S, for vectors of V. Without `bytes` the product is named by its format, too, and moves what is stored
/// and the vectors once.
fn measured<S: Number, V: Scalar>(
    name: &str,
    bytes: Option<usize>,
    host: &Host,
    matrix: &SharedCsr<impl Number>,
    columns: Columns,
) -> Result<Box<dyn Measure>> {
    let a = matrix.view();
    let mut x = host.zeros(a.scalar_cols())?;
    for (x, random) in x.iter_mut().zip(gallery::random_vector(a.scalar_cols())?) {
        *x = V::from_f64(random);
    }
    let y = host.zeros(a.scalar_rows())?;
    let stored = Stored::with_columns(host, matrix.cast::<S>()?, columns)?;
    let operator: &dyn Operator<Host, V> = &stored;
    let (name, bytes) = match bytes {
        Some(bytes) => (name.to_string(), bytes),
        None => {
            // Arrays of the caller are not the operator's.
            let stored = match columns {
                Columns::Shared => a.entries() * size_of::<S>() + a.nnz() * 4 + a.rows * 4,
                Columns::Compact => operator.bytes(),
            };
            let vectors = (a.scalar_rows() + a.scalar_cols()) * size_of::<V>();
            (format!("{name} {}", operator.format()), stored + vectors)
        }
    };
    let product = Product { name, bytes, seconds: Vec::new() };
    Ok(Box::new(Measured { operator: stored, x, y, product }))
}

impl<S: Number, V: Scalar> Measure for Measured<S, V> {
    fn run(&mut self, counts: bool) -> Result<()> {
        let start = Instant::now();
        self.operator.apply(V::ONE, &self.x[..], V::ZERO, &mut self.y[..])?;
        if counts {
            self.product.seconds.push(start.elapsed().as_secs_f64());
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Product {
        self.product
    }
}

/// a = b + s c on the threads of a context.
pub struct Triad {
    context: Context,
    a: <Host as Backend>::Buffer<f64>,
    b: <Host as Backend>::Buffer<f64>,
    c: <Host as Backend>::Buffer<f64>,
}

impl Triad {
    /// With three arrays of so many elements.
    pub fn new(context: &Context, host: &Host, elements: usize) -> Result<Triad> {
        let mut triad = Triad {
            context: context.clone(),
            a: host.zeros(elements)?,
            b: host.zeros(elements)?,
            c: host.zeros(elements)?,
        };
        host.fill(1.0, &mut triad.a);
        host.fill(2.0, &mut triad.b);
        host.fill(3.0, &mut triad.c);
        Ok(triad)
    }

    /// Seconds of one pass.
    pub fn run(&mut self) -> f64 {
        let (a, b, c) = (&mut self.a[..], &self.b[..], &self.c[..]);
        let start = Instant::now();
        self.context.run(a.len(), || {
            par::for_each_mut(a, par::GRAIN, |first, a| {
                let range = first..first + a.len();
                for ((a, b), c) in a.iter_mut().zip(&b[range.clone()]).zip(&c[range]) {
                    *a = b + 0.5 * c;
                }
            });
        });
        start.elapsed().as_secs_f64()
    }
}

/// Bytes of the largest cache, where the system tells.
fn largest_cache() -> Option<usize> {
    let caches = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let size = |text: String| -> Option<usize> {
        let text = text.trim();
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let unit = match unit {
            "" => 1,
            "K" => 1 << 10,
            "M" => 1 << 20,
            "G" => 1 << 30,
            _ => return None,
        };
        number.parse::<usize>().ok()?.checked_mul(unit)
    };
    caches.flatten().filter_map(|entry| size(std::fs::read_to_string(entry.path().join("size")).ok()?)).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_arrays() {
        let a = gallery::poisson7(4, 4, 4).unwrap();
        let (n, nonzeros) = (64, a.columns.len());
        assert_eq!(product_bytes(&a.view()), nonzeros * 12 + n * 20);
        let single = a.view().to_owned_as::<f32>().unwrap();
        assert_eq!(product_bytes(&single.view()), nonzeros * 8 + n * 12);
    }

    #[test]
    fn the_triad_computes_what_it_is_called_after() {
        let context = Context::new("host:2").unwrap();
        let mut triad = Triad::new(&context, &Host::new(&context), 100_000).unwrap();
        assert!(triad.run() > 0.0);
        assert!(triad.a.iter().all(|&a| a == 3.5));
    }
}
