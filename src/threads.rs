//! The threads of a context, and the log that work on them writes to.

use crate::error::{Result, fail, try_capacity};
use crate::sync::{Process, lock};
use rayon::ThreadPool;
use std::cell::Cell;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;

/// How much is reported; each level includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum LogLevel {
    /// Nothing.
    Off = 0,
    /// A warning: the call succeeds.
    Warning = 1,
    /// One line for each phase.
    Info = 2,
    /// One line for each level and iteration.
    Debug = 3,
}

/// Receives log lines; called on the thread that called the library.
pub type LogSink = Box<dyn Fn(LogLevel, &str) + Send + Sync>;

struct Inner {
    /// `None` runs everything on the calling thread.
    pool: RwLock<Option<Arc<Pool>>>,
    count: Mutex<usize>,
    log: RwLock<Option<(LogLevel, Arc<LogSink>)>>,
    /// Carries lines of a worker to the thread that waits for it.
    relay: Mutex<Option<Sender<(LogLevel, String)>>>,
}

/// Threads that work runs on, and a log. Clones share them.
#[derive(Clone)]
pub struct Threads {
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
    process: Process,
}

/// The largest number of threads that a context accepts. Starting a pool takes time that grows with the square of the number.
pub(crate) fn most_threads() -> usize {
    (4 * std::thread::available_parallelism().map_or(1, usize::from)).max(256)
}

impl Pool {
    fn start(count: usize) -> Result<Pool> {
        // The pool and the beginning of each thread take many small pieces of memory, which cannot fail gently.
        const FOR_EACH: usize = 64 << 10;
        drop(try_capacity::<u8>(count * FOR_EACH)?);
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
            .build();
        let rayon = match rayon {
            Ok(rayon) => rayon,
            Err(error) => {
                end(threads);
                return fail!(OutOfMemory, "{count} threads could not be started: {error}");
            }
        };
        // A thread takes memory of its own when it begins and when it first allocates. Where that is refused the C library ends the process, so it
        // happens here, and not when a later call has taken all that there is.
        rayon.broadcast(|_| drop(std::hint::black_box(Box::new(0_u8))));
        Ok(Pool { rayon: Some(rayon), threads, process: Process::current() })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.process.was_left() {
            // The threads are not in this process. Ending them would wait for them, and for locks that they held.
            std::mem::forget((self.rayon.take(), std::mem::take(&mut self.threads)));
            return;
        }
        self.rayon = None;
        end(std::mem::take(&mut self.threads));
    }
}

/// Waits for the end of threads that have been told to end.
fn end(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        // A worker that panicked has ended, too.
        let _ = thread.join();
    }
}

/// Work that is done once. A trait object of `FnMut` would carry one more compiled copy of it.
trait Work: Send {
    fn run(&mut self);
}

/// Work with its result.
struct Job<F, R> {
    work: Option<F>,
    result: Option<R>,
}

impl<R: Send, F: FnOnce() -> R + Send> Work for Job<F, R> {
    fn run(&mut self) {
        self.result = self.work.take().map(|work| work());
    }
}

impl Threads {
    /// So many threads, without a log.
    pub fn new(count: usize) -> Result<Threads> {
        let (pool, log, relay) = (RwLock::new(None), RwLock::new(None), Mutex::new(None));
        let threads = Threads { inner: Arc::new(Inner { pool, count: Mutex::new(1), log, relay }) };
        threads.set_count(count)?;
        Ok(threads)
    }

    /// Changes the number of threads. Results do not depend on it.
    pub fn set_count(&self, threads: usize) -> Result<()> {
        let most = most_threads();
        if !(1..=most).contains(&threads) {
            return fail!(InvalidArgument, "threads is {threads}; accepted: 1 to {most}");
        }
        let pool = if threads == 1 { None } else { Some(Arc::new(Pool::start(threads)?)) };
        *lock(self.inner.pool.write()) = pool;
        *lock(self.inner.count.lock()) = threads;
        Ok(())
    }

    /// Number of threads.
    pub fn count(&self) -> usize {
        *lock(self.inner.count.lock())
    }

    /// Sends log lines up to `level` to `sink`; `None` is silence.
    pub fn set_log(&self, level: LogLevel, sink: Option<LogSink>) {
        *lock(self.inner.log.write()) = sink.map(|sink| (level, Arc::new(sink)));
    }

    /// Whether lines of this level are logged.
    pub fn logs(&self, level: LogLevel) -> bool {
        lock(self.inner.log.read()).as_ref().is_some_and(|(limit, _)| level <= *limit)
    }

    /// Logs a line. The text is made only if lines of this level are logged.
    pub fn log(&self, level: LogLevel, line: impl FnOnce() -> String) {
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

    /// Runs `work` on the threads, or in place when it is there already. Work below `SMALL` operations stays on the
    /// calling thread: waking a worker costs more than it saves.
    pub fn run<R: Send>(&self, operations: usize, work: impl FnOnce() -> R + Send) -> R {
        let mut job = Job { work: Some(work), result: None };
        self.run_once(operations, &mut job);
        job.result.expect("the work is done once, and a panic in it does not come back here")
    }

    /// The part of [`Threads::run`] that does not depend on the work's type, so that it is compiled once.
    fn run_once(&self, operations: usize, work: &mut dyn Work) {
        const SMALL: usize = 20_000;
        if operations < SMALL || is_worker() {
            return work.run();
        }
        let pool = lock(self.inner.pool.read()).clone();
        let sink = lock(self.inner.log.read()).as_ref().map(|(_, sink)| Arc::clone(sink));
        match (pool.as_ref().and_then(|pool| pool.rayon.as_ref()), sink) {
            (Some(pool), Some(sink)) => self.run_and_relay(pool, &sink, work),
            (Some(pool), None) => pool.install(|| work.run()),
            (None, _) => work.run(),
        }
    }

    /// Runs `work` on the pool while this thread hands the lines that it logs to the sink.
    fn run_and_relay(&self, pool: &ThreadPool, sink: &LogSink, work: &mut dyn Work) {
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
                work.run();
            });
            for (level, line) in lines {
                sink(level, &line);
            }
        });
    }
}

impl AsRef<Threads> for Threads {
    fn as_ref(&self) -> &Threads {
        self
    }
}
