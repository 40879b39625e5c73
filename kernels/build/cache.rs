//! Compiled kernels by the hash of their inputs: sources with all headers, compiler and flags.

use super::sources::Sources;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder of objects, shared by all profiles, features and build trees that name it.
pub struct Cache {
    folder: PathBuf,
}

/// Something to compile.
pub struct Job<'a> {
    /// The kernel file.
    pub unit: &'a str,
    /// Files that take part beside it and what it includes.
    pub besides: &'a [&'a str],
    /// Headers of other targets, which `portability.h` names and the compiler does not read.
    pub unread: &'a [&'a str],
    /// What the result depends on beside the files: compiler, version, target and flags.
    pub key: String,
    /// Ending of the result's name.
    pub ending: &'a str,
    /// Builds the command that writes the result to this path.
    pub command: Box<dyn Fn(&Path) -> Command + Sync + 'a>,
}

impl Cache {
    /// The folder that the environment names, else one in Cargo's target folder. `out` is `PROFILE/build/PACKAGE/out` there. Cargo's tag is looked
    /// for first, because the target folder of a triple is one deeper; a target folder that existed before Cargo came has none.
    pub fn open(out: &Path) -> Cache {
        let tagged = || out.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file());
        let target = || tagged().or(out.ancestors().nth(4)).unwrap_or(out);
        let named = env::var_os("TERRACE_KERNEL_CACHE").filter(|name| !name.is_empty()).map(PathBuf::from);
        let folder = named.unwrap_or_else(|| target().join("kernels"));
        std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        Cache { folder }
    }

    /// The results of all jobs, in their order. What is not in the cache is compiled, as many at a time as Cargo has jobs, the largest first.
    pub fn get(&self, sources: &Sources, jobs: &[Job<'_>]) -> Vec<PathBuf> {
        let results: Vec<PathBuf> = jobs.iter().map(|job| self.path(sources, job)).collect();
        let mut open: Vec<usize> = (0..jobs.len()).filter(|i| !results[*i].is_file()).collect();
        open.sort_by_key(|i| std::cmp::Reverse(sources.size(jobs[*i].unit)));
        let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let workers = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
        std::thread::scope(|scope| {
            for _ in 0..open.len().min(workers) {
                scope.spawn(|| {
                    while let Some(i) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if let Err(message) = compile(&jobs[*i], &results[*i]) {
                            failures.lock().expect("no worker panics").push(message);
                        }
                    }
                });
            }
        });
        let failures = failures.into_inner().expect("no worker panics");
        assert!(failures.is_empty(), "{}", failures.join("\n"));
        results
    }

    fn path(&self, sources: &Sources, job: &Job<'_>) -> PathBuf {
        let mut hash = Fnv::new();
        hash.add(job.key.as_bytes());
        for name in std::iter::once(&job.unit).chain(job.besides) {
            let read = sources.with_includes(name).into_iter().filter(|(name, _)| !job.unread.contains(name));
            for (name, text) in read {
                hash.add(name.as_bytes());
                hash.add(text.as_bytes());
            }
        }
        let stem = job.unit.trim_end_matches(".cu");
        self.folder.join(format!("{stem}-{:032x}.{}", hash.0, job.ending))
    }
}

/// Compiles to a name of its own first, so that who else looks finds a whole file or none.
fn compile(job: &Job<'_>, to: &Path) -> Result<(), String> {
    let partial = to.with_extension(format!("{}.{}", std::process::id(), job.ending));
    let mut command = (job.command)(&partial);
    let output = command.output().map_err(|error| format!("{}: {error}", job.unit))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{}: {command:?}\n{said}", job.unit));
    }
    for line in said.lines() {
        println!("cargo:warning={}: {line}", job.unit);
    }
    std::fs::rename(&partial, to).map_err(|error| format!("{}: {error}", to.display()))
}

/// 128 bits of FNV-1a.
struct Fnv(u128);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0x6c62272e07bb014262b821756295c58d)
    }

    /// Bytes with their number, so that parts cannot run together.
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.len().to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0000000001000000000000000000013b);
        }
    }
}
