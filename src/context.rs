//! A context: device, threads and log. There is no global state.

use crate::comm::Communicator;
pub use crate::device_kind::DeviceKind;
use crate::error::{Error, Result, excerpt, fail};
use crate::gpu::Gpu;
use crate::sync::lock;
pub use crate::threads::{LogLevel, LogSink, Threads};
pub(crate) use crate::threads::{is_worker, most_threads};
use std::sync::{Arc, Mutex};

struct Inner {
    device: DeviceKind,
    threads: Threads,
    communicator: Mutex<Option<Arc<dyn Communicator>>>,
}

/// A handle to a device, its threads and its log. Clones share them. Several threads may use one at the same time, each
/// with solvers and hierarchies of its own; a GPU does their operations one after the other.
///
/// ```
/// fn may_be_used_by_several_threads<T: Send + Sync>() {}
/// may_be_used_by_several_threads::<terrace::Context>();
/// ```
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
    /// The GPU on which the solve phase runs; none for the host.
    gpu: Option<Gpu>,
}

impl Context {
    /// A context on a device: `"host"`, or `"host:N"` for N threads; `"cuda"` or `"cuda:N"` for an NVIDIA GPU by its
    /// number, `"hip"` or `"hip:N"` for an AMD GPU; `"sim"` for a simulated GPU, `"sim:1"` for one that
    /// runs threads in the opposite order. The default is every core this process may use; with a GPU these are the
    /// threads of set-up.
    pub fn new(device: &str) -> Result<Context> {
        let quoted = excerpt(device);
        let (name, number) = match device.split_once(':') {
            None => (device, None),
            Some((name, text)) => match text.parse::<usize>() {
                Ok(number) => (name, Some(number)),
                Err(_) => return fail!(Device, "device \"{quoted}\": \"{}\" is not a number", excerpt(text)),
            },
        };
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let (kind, threads) = match name {
            "host" => (DeviceKind::Host, number.unwrap_or_else(cores)),
            "cuda" => (DeviceKind::Cuda, cores()),
            "hip" => (DeviceKind::Hip, cores()),
            "sim" => (DeviceKind::Sim, cores()),
            _ => {
                return fail!(
                    Device,
                    "device \"{quoted}\" is unknown; accepted: \"host\", \"host:N\" for N threads, \"cuda:N\", \"hip:N\", \"sim\", \"sim:1\""
                );
            }
        };
        let opened = match kind {
            DeviceKind::Host => Ok(None),
            DeviceKind::Cuda | DeviceKind::Hip | DeviceKind::Sim => Gpu::open(kind, number.unwrap_or(0)).map(Some),
        };
        let gpu =
            opened.map_err(|error| Error::new(error.status, format!("device \"{quoted}\": {}", error.message)))?;
        let inner = Inner { device: kind, threads: Threads::new(threads)?, communicator: Mutex::new(None) };
        Ok(Context { inner: Arc::new(inner), gpu })
    }

    /// Where the solve phase of this context runs.
    pub fn device(&self) -> DeviceKind {
        self.inner.device
    }

    /// The GPU of this context, if it has one.
    pub fn gpu(&self) -> Option<&Gpu> {
        self.gpu.as_ref()
    }

    /// A handle for a solver or a hierarchy, which one thread may use while others use the context. Only the scratch of
    /// reductions is not shared.
    pub(crate) fn with_own_scratch(&self) -> Result<Context> {
        let gpu = self.gpu.as_ref().map(Gpu::with_own_scratch).transpose()?;
        Ok(Context { inner: Arc::clone(&self.inner), gpu })
    }

    /// The same, for a sample that stands for a matrix with so many times its rows.
    pub(crate) fn for_sample(&self, times: usize) -> Result<Context> {
        let gpu = self.gpu.as_ref().map(|gpu| gpu.for_sample(times)).transpose()?;
        Ok(Context { inner: Arc::clone(&self.inner), gpu })
    }

    /// Collective: makes this context that of one rank of a communicator, which is duplicated, or with `None` of none. For
    /// matrices that are made after it.
    pub fn set_communicator(&self, communicator: Option<&dyn Communicator>) -> Result<()> {
        let own = match communicator {
            None => None,
            Some(given) => {
                let (rank, size) = (given.rank(), given.size());
                if rank >= size {
                    return fail!(
                        InvalidArgument,
                        "the communicator has rank {rank} of {size}; ranks are 0 to size - 1"
                    );
                }
                let own = given.duplicate()?;
                own.barrier()?;
                Some(own)
            }
        };
        *lock(self.inner.communicator.lock()) = own;
        Ok(())
    }

    /// The communicator of this context.
    pub(crate) fn communicator(&self) -> Result<Arc<dyn Communicator>> {
        match &*lock(self.inner.communicator.lock()) {
            Some(communicator) => Ok(Arc::clone(communicator)),
            None => fail!(NotSetUp, "the context has no communicator; call terrace_context_set_communicator before"),
        }
    }

    /// Changes the number of threads. Results do not depend on it.
    pub fn set_threads(&self, threads: usize) -> Result<()> {
        self.inner.threads.set_count(threads)
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.inner.threads.count()
    }

    /// Sends log lines up to `level` to `sink`; `None` is silence.
    pub fn set_log(&self, level: LogLevel, sink: Option<LogSink>) {
        self.inner.threads.set_log(level, sink);
    }

    /// Whether lines of this level are logged.
    pub(crate) fn logs(&self, level: LogLevel) -> bool {
        self.inner.threads.logs(level)
    }

    /// Logs a line. The text is made only if lines of this level are logged.
    pub(crate) fn log(&self, level: LogLevel, line: impl FnOnce() -> String) {
        self.inner.threads.log(level, line);
    }

    /// As [`Threads::run`].
    pub fn run<R: Send>(&self, operations: usize, work: impl FnOnce() -> R + Send) -> R {
        self.inner.threads.run(operations, work)
    }
}

impl AsRef<Threads> for Context {
    fn as_ref(&self) -> &Threads {
        &self.inner.threads
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::error::Status;
    use std::sync::Mutex;

    #[test]
    fn device_strings_are_checked() {
        assert_eq!(Context::new("host:3").unwrap().threads(), 3);
        assert_eq!(Context::new("host:0").err().map(|e| e.status), Some(Status::InvalidArgument));
        for bad in ["", "host:x", "cuda:9999", "cuda:", "hip:9999", "sim:8", "hostess"] {
            assert_eq!(Context::new(bad).err().map(|e| e.status), Some(Status::Device), "{bad}");
        }
    }

    #[test]
    fn absurd_numbers_of_threads_are_refused_at_once() {
        let most = most_threads();
        let refused = |device: &str| Context::new(device).err().unwrap();
        for error in [refused("host:1000000"), Context::new("host:1").unwrap().set_threads(most + 1).unwrap_err()] {
            assert_eq!(error.status, Status::InvalidArgument);
            assert!(error.message.contains(&format!("accepted: 1 to {most}")), "{error}");
        }
    }

    #[test]
    fn threads_end_with_their_context() {
        // No other test has a context with as many threads.
        let running = || {
            let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
            let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
            names.filter(|name| name.starts_with("terrace-19")).count()
        };
        let context = Context::new("host:20").unwrap();
        // A thread has its name when it runs.
        context.run(usize::MAX, || rayon::broadcast(|_| ()));
        assert!(!cfg!(target_os = "linux") || running() > 0);
        context.set_threads(2).unwrap();
        assert_eq!(running(), 0);
    }

    #[test]
    fn lines_of_workers_are_logged_on_the_calling_thread() {
        let context = Context::new("host:3").unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        let keep = move |_, line: &str| sink.lock().unwrap().push((std::thread::current().id(), line.to_string()));
        context.set_log(LogLevel::Info, Some(Box::new(keep)));

        let answer = context.run(usize::MAX, || {
            assert!(is_worker());
            for line in ["first", "second"] {
                context.log(LogLevel::Info, || line.to_string());
            }
            7
        });

        let caller = std::thread::current().id();
        assert_eq!(answer, 7);
        assert_eq!(*seen.lock().unwrap(), [(caller, "first".to_string()), (caller, "second".to_string())]);
        let fails = || context.run(usize::MAX, || panic!("inside"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(fails)).is_err());
        assert_eq!(context.run(usize::MAX, || 8), 8);
    }

    #[test]
    fn log_lines_above_the_level_are_not_made() {
        let context = Context::new("host:1").unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        context.set_log(LogLevel::Info, Some(Box::new(move |_, line| sink.lock().unwrap().push(line.to_string()))));
        context.log(LogLevel::Info, || "kept".to_string());
        context.log(LogLevel::Debug, || unreachable!("nobody listens"));
        assert_eq!(*seen.lock().unwrap(), ["kept"]);
    }
}
