//! Progress on standard error, for people only: nothing appears when it is not a terminal or when the output is for a program.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use std::io::{IsTerminal, Read};
use std::time::Duration;
use terrace::Context;
use terrace::context::LogLevel;

/// Whether and where progress is shown.
#[derive(Clone, Copy)]
pub struct Progress {
    visible: bool,
}

impl Progress {
    /// Progress for a person at a terminal; `quiet` hides it there too.
    pub fn new(quiet: bool) -> Progress {
        Progress { visible: !quiet && std::io::stderr().is_terminal() }
    }

    /// Runs work of unknown length behind a spinner.
    pub fn spin<R>(self, message: &str, work: impl FnOnce() -> R) -> R {
        let bar = self.spinner(message);
        let result = work();
        bar.finish_and_clear();
        result
    }

    /// Runs work on a context behind a spinner that shows the context's log lines.
    pub fn follow<R>(self, context: &Context, message: &str, work: impl FnOnce() -> R) -> R {
        if !self.visible {
            return work();
        }
        let bar = self.spinner(message);
        let (listener, message) = (bar.clone(), message.to_string());
        let sink = move |_: LogLevel, line: &str| listener.set_message(format!("{message}: {line}"));
        context.set_log(LogLevel::Debug, Some(Box::new(sink)));
        let result = work();
        context.set_log(LogLevel::Off, None);
        bar.finish_and_clear();
        result
    }

    /// Wraps a source of known length in bytes.
    pub fn read<R: Read>(self, message: &str, length: u64, source: R) -> impl Read {
        self.bar(Some(length), "[{bar:30}] {bytes}/{total_bytes} {wide_msg}", message).wrap_read(source)
    }

    fn spinner(self, message: &str) -> ProgressBar {
        let bar = self.bar(None, "{spinner} {wide_msg} {elapsed}", message);
        if self.visible {
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        bar
    }

    /// A bar that is hidden until its style is set, and removed at its end.
    fn bar(self, length: Option<u64>, template: &str, message: &str) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::hidden());
        let bar = bar.with_message(message.to_string()).with_finish(ProgressFinish::AndClear);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        if self.visible {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        bar
    }
}
