//! A context: the device, its threads, the log, and nothing global.

pub use crate::device_kind::DeviceKind;
use crate::error::{Error, Result, fail};
use crate::gpu::Gpu;
use crate::sync::lock;
use rayon::ThreadPool;
use std::cell::Cell;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;

/// How much a context reports; each level includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum LogLevel {
    /// Nothing.
    Off = 0,
    /// Something a caller should look at, though the call succeeds.
    Warning = 1,
    /// One line for each phase.
    Info = 2,
    /// One line for each level and iteration.
    Debug = 3,
}

/// Receives log lines; called on the thread that called the library.
pub type LogSink = Box<dyn Fn(LogLevel, &str) + Send + Sync>;

struct Inner {
    device: DeviceKind,
    /// Where the solve phase runs, unless that is the host.
    gpu: Option<Gpu>,
    /// `None` runs everything on the calling thread.
    pool: RwLock<Option<Arc<Pool>>>,
    threads: Mutex<usize>,
    log: RwLock<Option<(LogLevel, Arc<LogSink>)>>,
    /// Carries lines of a worker to the thread that waits for it.
    relay: Mutex<Option<Sender<(LogLevel, String)>>>,
}

/// A handle to a device, its threads and its log. Clones share them.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

thread_local! {
    static WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread belongs to the pool of a context.
pub(crate) fn is_worker() -> bool {
    WORKER.with(Cell::get)
}

/// Threads that end with the pool. Rayon only tells its threads to end; a program that unloads the library or looks for leaks needs to
/// know that they did.
struct Pool {
    /// `None` only while the pool is dropped.
    rayon: Option<ThreadPool>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    fn start(count: usize) -> std::result::Result<Pool, rayon::ThreadPoolBuildError> {
        let mut threads = Vec::with_capacity(count);
        let rayon = rayon::ThreadPoolBuilder::new()
            .num_threads(count)
            .spawn_handler(|worker| {
                let builder = std::thread::Builder::new().name(format!("terrace-{}", worker.index()));
                threads.push(builder.spawn(move || {
                    WORKER.with(|w| w.set(true));
                    worker.run();
                })?);
                Ok(())
            })
            .build()?;
        // A thread takes memory of its own when it begins and when it first allocates. Where that is refused the C library ends the process, so it
        // happens here, and not when a later call has taken all that there is.
        rayon.broadcast(|_| drop(std::hint::black_box(Box::new(0_u8))));
        Ok(Pool { rayon: Some(rayon), threads })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.rayon = None;
        for thread in self.threads.drain(..) {
            // A worker that panicked has ended, too.
            let _ = thread.join();
        }
    }
}

impl Context {
    /// A context on a device: `"host"`, or `"host:N"` for N threads; `"cuda"` or `"cuda:N"` for an NVIDIA GPU by its number, `"hip"` or
    /// `"hip:N"` for an AMD GPU; `"sim"` or `"sim:N"` for a simulated GPU with warps of 32 (the default) or 64 lanes. The default is every core this process may use; with a
    /// GPU these are the threads of set-up.
    pub fn new(device: &str) -> Result<Context> {
        let (name, number) = match device.split_once(':') {
            None => (device, None),
            Some((name, text)) => match text.parse::<usize>() {
                Ok(number) => (name, Some(number)),
                Err(_) => return fail!(Device, "device \"{device}\": \"{text}\" is not a number"),
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
                    "device \"{device}\" is unknown; accepted: \"host\", \"host:N\" for N threads, \"cuda:N\", \"hip:N\", \"sim\", \"sim:64\""
                );
            }
        };
        let opened = match kind {
            DeviceKind::Host => Ok(None),
            DeviceKind::Cuda | DeviceKind::Hip => Gpu::open(kind, number.unwrap_or(0)).map(Some),
            DeviceKind::Sim => Gpu::open(kind, number.unwrap_or(32)).map(Some),
        };
        let gpu =
            opened.map_err(|error| Error::new(error.status, format!("device \"{device}\": {}", error.message)))?;
        let inner = Inner {
            device: kind,
            gpu,
            pool: RwLock::new(None),
            threads: Mutex::new(1),
            log: RwLock::new(None),
            relay: Mutex::new(None),
        };
        let context = Context { inner: Arc::new(inner) };
        context.set_threads(threads)?;
        Ok(context)
    }

    /// Where the solve phase of this context runs.
    pub fn device(&self) -> DeviceKind {
        self.inner.device
    }

    /// The GPU of this context, if it has one.
    pub fn gpu(&self) -> Option<&Gpu> {
        self.inner.gpu.as_ref()
    }

    /// Changes the number of threads. Results do not depend on it.
    pub fn set_threads(&self, threads: usize) -> Result<()> {
        if !(1..=4096).contains(&threads) {
            return fail!(InvalidArgument, "threads is {threads}; accepted: 1 to 4096");
        }
        let pool = if threads == 1 {
            None
        } else {
            match Pool::start(threads) {
                Ok(pool) => Some(Arc::new(pool)),
                Err(error) => return fail!(OutOfMemory, "{threads} threads could not be started: {error}"),
            }
        };
        *lock(self.inner.pool.write()) = pool;
        *lock(self.inner.threads.lock()) = threads;
        Ok(())
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        *lock(self.inner.threads.lock())
    }

    /// Sends log lines up to `level` to `sink`; `None` is silence.
    pub fn set_log(&self, level: LogLevel, sink: Option<LogSink>) {
        *lock(self.inner.log.write()) = sink.map(|sink| (level, Arc::new(sink)));
    }

    /// Whether someone listens to lines of this level.
    pub(crate) fn logs(&self, level: LogLevel) -> bool {
        lock(self.inner.log.read()).as_ref().is_some_and(|(limit, _)| level <= *limit)
    }

    /// Sends one line to the log; the text is only made when someone listens.
    pub(crate) fn log(&self, level: LogLevel, line: impl FnOnce() -> String) {
        let sink = match &*lock(self.inner.log.read()) {
            Some((limit, sink)) if level <= *limit => Arc::clone(sink),
            _ => return,
        };
        let relay = if is_worker() { lock(self.inner.relay.lock()).clone() } else { None };
        match relay {
            // The receiver is there as long as the relay is.
            Some(relay) => drop(relay.send((level, line()))),
            None => sink(level, &line()),
        }
    }

    /// Runs `work` on this context's threads, or in place when it is there already. Work below `SMALL` operations stays on the
    /// calling thread: waking a worker costs more than it saves.
    pub fn run<R: Send>(&self, operations: usize, work: impl FnOnce() -> R + Send) -> R {
        const SMALL: usize = 20_000;
        if operations < SMALL || is_worker() {
            return work();
        }
        let mut work = Some(work);
        let mut result = None;
        self.run_on_pool(&mut || result = work.take().map(|work| work()));
        result.expect("the work is done once, and a panic in it does not come back here")
    }

    /// The part of [`Context::run`] that does not depend on the work's type, so that it is compiled once.
    fn run_on_pool(&self, work: &mut (dyn FnMut() + Send)) {
        let pool = lock(self.inner.pool.read()).clone();
        let sink = lock(self.inner.log.read()).as_ref().map(|(_, sink)| Arc::clone(sink));
        match (pool.as_ref().and_then(|pool| pool.rayon.as_ref()), sink) {
            (Some(pool), Some(sink)) => self.run_and_relay(pool, &sink, work),
            (Some(pool), None) => pool.install(work),
            (None, _) => work(),
        }
    }

    /// Runs `work` on the pool while this thread hands the lines that it logs to the sink.
    fn run_and_relay(&self, pool: &ThreadPool, sink: &LogSink, work: &mut (dyn FnMut() + Send)) {
        struct Relay<'a>(&'a Inner);
        impl Drop for Relay<'_> {
            fn drop(&mut self) {
                *lock(self.0.relay.lock()) = None;
            }
        }
        let (sender, lines) = channel();
        *lock(self.inner.relay.lock()) = Some(sender);
        let relay = Relay(&self.inner);
        pool.in_place_scope(|scope| {
            scope.spawn(|_| {
                // Ends the loop below when the work ends, also by a panic.
                let _relay = relay;
                work();
            });
            for (level, line) in lines {
                sink(level, &line);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Status;

    #[test]
    fn device_strings_are_checked() {
        assert_eq!(Context::new("host:3").unwrap().threads(), 3);
        assert_eq!(Context::new("host:0").err().map(|e| e.status), Some(Status::InvalidArgument));
        for bad in ["", "host:x", "cuda:9999", "cuda:", "hip:9999", "sim:8", "hostess"] {
            assert_eq!(Context::new(bad).err().map(|e| e.status), Some(Status::Device), "{bad}");
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
