//! What `solve` and `bench` work on: a matrix with its near-null space, the options and the threads.

use crate::progress::Progress;
use clap::Args;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use terrace::backend::Operator;
use terrace::host::Host;
use terrace::host::operator::Stored;
use terrace::io::matrix_market::{self, Contents, Dense};
use terrace::matrix::{MatrixBackend, Values};
use terrace::sparse::{Block, Csr, Grid, SharedCsr, SharedStencil};
use terrace::{Config, Context, Error, Matrix, Result, Status, config, gallery};

/// Arguments that say what to solve and how.
#[derive(Args)]
pub struct Input {
    /// A Matrix Market file (may be gzip-compressed), and options like solver.tolerance=1e-6 (see `terrace options`)
    #[arg(value_name = "FILE | KEY=VALUE")]
    arguments: Vec<String>,

    /// A generated problem instead of a file, like poisson7:128 (see `terrace gallery`)
    #[arg(short, long, value_name = "FAMILY:SIZES:NAME=VALUE,...")]
    problem: Option<String>,

    /// Options for a kind of problem (see `terrace options --presets`); all other options are set after it
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,

    /// Options as a JSON object; key=value arguments are set after it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Store the matrix in blocks of this many rows and columns, 1 to 8
    #[arg(long, value_name = "N")]
    block_size: Option<usize>,

    /// The cells of a structured grid along x, y and z, for amg.type=structured; problems of the gallery know theirs
    #[arg(long, value_name = "NX,NY,NZ", value_delimiter = ',', num_args = 1)]
    grid: Vec<usize>,

    /// Near-null-space vectors, one in each column of a Matrix Market array
    #[arg(long, value_name = "FILE", conflicts_with = "coordinates")]
    near_null_space: Option<PathBuf>,

    /// Node coordinates of a displacement problem, one node in each row of a Matrix Market array (or all in one column)
    #[arg(long, value_name = "FILE")]
    coordinates: Option<PathBuf>,

    /// Coordinates of a node, 2 or 3; needed when they are all in one column
    #[arg(long, value_name = "N", requires = "coordinates")]
    dimension: Option<usize>,

    /// Threads; every core when not given
    #[arg(short, long, value_name = "N")]
    threads: Option<usize>,
}

/// What the arguments mean.
pub struct Loaded {
    /// File or problem.
    pub name: String,
    /// The matrix.
    pub matrix: Arc<Matrix>,
    /// The options.
    pub config: Config,
    /// Device and threads.
    pub context: Context,
    /// Seconds spent reading or generating.
    pub load_seconds: f64,
}

impl Loaded {
    /// Whether the Krylov method, and with it the vectors given to it, is asked to work in f32.
    pub fn single_precision(&self) -> bool {
        let described = config::describe(&self.config);
        described.iter().any(|(key, value)| *key == "solver.precision" && value == "f32")
    }

    /// The right-hand side A x of random numbers x, the same in every run.
    pub fn product(&self) -> Result<Vec<f64>> {
        let x = gallery::random_vector(self.matrix.cols())?;
        let mut b = vec![0.0; self.matrix.rows()];
        Host::new(&self.context).matrix_operator::<f64>(&self.matrix)?.apply(1.0, &x[..], 0.0, &mut b[..])?;
        Ok(b)
    }
}

impl Input {
    /// As [`Input::load_for`], on the host.
    pub fn load(&self, progress: Progress) -> Result<Loaded> {
        self.load_for("host", progress)
    }

    /// Checks options, device and threads, then reads or generates the matrix.
    pub fn load_for(&self, device: &str, progress: Progress) -> Result<Loaded> {
        let config = self.config()?;
        let context = Context::new(device)?;
        if let Some(threads) = self.threads {
            context.set_threads(threads)?;
        }
        let start = Instant::now();
        let Source { name, a, mut coordinates, grid, is_stencil } = self.source(progress)?;
        let grid = match &self.grid[..] {
            [] => grid.filter(|_| is_stencil || config.get("amg.type").is_ok_and(|kind| kind == "structured")),
            given if given.len() > 3 => {
                let count = given.len();
                return Err(bad(Status::InvalidArgument, format!("--grid has {count} numbers; accepted: 1 to 3")));
            }
            given => Some(std::array::from_fn(|axis| given.get(axis).copied().unwrap_or(1))),
        };
        let a = in_blocks(a, self.block_size)?;
        let matrix = match grid.map(Grid::new) {
            Some(grid) if is_stencil => {
                let SharedStencil { pattern, values } = SharedStencil::from_rows(&a, grid)?;
                Matrix::on_grid(pattern, Values::F64(values))?
            }
            grid => {
                let matrix = Matrix::from_csr(a)?;
                grid.map_or(Ok(()), |grid| matrix.set_grid(grid))?;
                matrix
            }
        };
        if let Some(path) = &self.coordinates {
            coordinates = Some(read_coordinates(path, self.dimension, progress)?);
        }
        if let Some(path) = &self.near_null_space {
            let vectors = read_vectors(path, matrix.rows(), progress)?;
            matrix.set_near_null_space(matrix.block().rows, vectors.cols, vectors.values)?;
        } else if let Some((dimension, coordinates)) = coordinates {
            matrix.set_coordinates(dimension, &coordinates)?;
        }
        // A stencil goes to the device once, before anything is timed.
        let matrix = if is_stencil && context.gpu().is_some() { matrix.to_device(&context)? } else { matrix };
        let load_seconds = start.elapsed().as_secs_f64();
        Ok(Loaded { name, matrix: Arc::new(matrix), config, context, load_seconds })
    }

    fn config(&self) -> Result<Config> {
        let mut config = Config::new();
        if let Some(name) = &self.preset {
            config.load_preset(name)?;
        }
        if let Some(path) = &self.config {
            let text = std::fs::read_to_string(path)
                .map_err(|error| bad(Status::Io, format!("{} could not be read: {error}", path.display())))?;
            config
                .load_json(&text)
                .map_err(|error| bad(error.status, format!("{}: {}", path.display(), error.message)))?;
        }
        for (key, value) in self.arguments.iter().filter_map(|argument| as_option(argument)) {
            config.set_str(key, value)?;
        }
        Ok(config)
    }

    /// What the matrix is made from.
    fn source(&self, progress: Progress) -> Result<Source> {
        let files: Vec<&String> = self.arguments.iter().filter(|argument| as_option(argument).is_none()).collect();
        match (&self.problem, &files[..]) {
            (Some(description), []) => {
                let problem = progress.spin(&format!("generating {description}"), || gallery::parse(description))?;
                let coordinates = problem.coordinates.map(|c| (problem.dimension, c));
                let (grid, is_stencil) = (problem.grid, problem.is_stencil);
                Ok(Source { name: problem.name, a: problem.matrix, coordinates, grid, is_stencil })
            }
            (None, [file]) => {
                let a = read(Path::new(file), progress)?.into_matrix(file)?;
                Ok(Source { name: file.to_string(), a, coordinates: None, grid: None, is_stencil: false })
            }
            (None, []) => Err(bad(Status::InvalidArgument, "give a Matrix Market file, or --problem like poisson7:64")),
            (Some(_), [file, ..]) | (None, [_, file, ..]) => Err(bad(
                Status::InvalidArgument,
                format!("\"{file}\" is one matrix too many; give one file or --problem, and options as key=value"),
            )),
        }
    }
}

/// A matrix as it was read or generated.
struct Source {
    name: String,
    a: Csr<f64>,
    /// With their dimension.
    coordinates: Option<(usize, Vec<f64>)>,
    grid: Option<[usize; 3]>,
    /// Whether it is a problem for structured grids.
    is_stencil: bool,
}

/// A x of random numbers x, the same in every run.
pub fn product(context: &Context, a: SharedCsr<f64>) -> Result<Vec<f64>> {
    let (rows, cols) = (a.view().scalar_rows(), a.view().scalar_cols());
    let x = gallery::random_vector(cols)?;
    let mut b = vec![0.0; rows];
    Stored::new(&Host::new(context), a).apply(1.0, &x[..], 0.0, &mut b[..])?;
    Ok(b)
}

/// A `key=value`; keys hold no path separator, so a file in a folder may have an equals sign in its name.
fn as_option(argument: &str) -> Option<(&str, &str)> {
    argument.split_once('=').filter(|(key, _)| !key.contains('/'))
}

/// The same matrix in square blocks; scalar for a size of 1.
pub fn in_blocks(a: Csr<f64>, size: Option<usize>) -> Result<Csr<f64>> {
    let size = match size {
        None => return Ok(a),
        Some(size) if a.block == Block::square(size) => return Ok(a),
        Some(size) if !(1..=8).contains(&size) => {
            return Err(bad(Status::InvalidArgument, format!("--block-size is {size}; accepted: 1 to 8")));
        }
        Some(size) => size,
    };
    let scalar = if a.block == Block::SCALAR { a } else { a.view().to_scalar()? };
    if scalar.rows % size != 0 || scalar.cols % size != 0 {
        let (rows, cols) = (scalar.rows, scalar.cols);
        return Err(bad(
            Status::SizeMismatch,
            format!("--block-size {size} does not divide the {rows} rows and {cols} columns of the matrix"),
        ));
    }
    if size == 1 { Ok(scalar) } else { scalar.view().to_blocks(size) }
}

/// Reads a file behind a progress bar.
pub fn read(path: &Path, progress: Progress) -> Result<Contents> {
    let name = path.display().to_string();
    let opened = File::open(path).and_then(|file| file.metadata().map(|data| (file, data.len())));
    match opened {
        Ok((file, length)) => matrix_market::read(progress.read(&format!("reading {name}"), length, file), &name),
        Err(error) => Err(bad(Status::Io, format!("{name} could not be opened: {error}"))),
    }
}

/// Vectors of `rows` rows, one in each column.
pub fn read_vectors(path: &Path, rows: usize, progress: Progress) -> Result<Dense> {
    let name = path.display().to_string();
    let vectors = read(path, progress)?.into_dense(&name)?;
    if vectors.rows != rows || vectors.cols == 0 {
        let (given, cols) = (vectors.rows, vectors.cols);
        return Err(bad(
            Status::SizeMismatch,
            format!("{name} holds {given} rows and {cols} columns; {rows} rows and at least one column are needed"),
        ));
    }
    Ok(vectors)
}

/// Dimension and coordinates, one node after the other.
fn read_coordinates(path: &Path, dimension: Option<usize>, progress: Progress) -> Result<(usize, Vec<f64>)> {
    let name = path.display().to_string();
    let Dense { rows, cols, values } = read(path, progress)?.into_dense(&name)?;
    match (cols, dimension) {
        (1, Some(dimension)) => Ok((dimension, values)),
        (1, None) => Err(bad(Status::InvalidArgument, format!("{name} has one column; --dimension 2 or 3 is needed"))),
        (_, Some(dimension)) if dimension != cols => Err(bad(
            Status::SizeMismatch,
            format!("{name} has {cols} columns, one for each coordinate; --dimension is {dimension}"),
        )),
        _ => Ok((
            cols,
            (0..rows).flat_map(|node| (0..cols).map(move |c| (c, node))).map(|(c, n)| values[c * rows + n]).collect(),
        )),
    }
}

fn bad(status: Status, message: impl Into<String>) -> Error {
    Error::new(status, message)
}
