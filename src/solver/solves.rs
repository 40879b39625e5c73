//! The reports of the right-hand sides of a solve. Their residual norms lie one behind the other in one array, so that many right-hand sides take what
//! their iterations need.

use crate::error::{Result, try_capacity, try_copy};
use crate::report::SolveReport;

/// Right-hand sides for which set-up allocates.
const RIGHT_HAND_SIDES: usize = 64;

/// Most residual norms for which set-up allocates, beyond those of one right-hand side.
const NORMS: usize = 1 << 16;

/// The reports of the last solve.
#[derive(Default)]
pub(super) struct Solves {
    /// The reports without their histories, and where the history of each ends.
    reports: Vec<(SolveReport, usize)>,
    /// The histories.
    norms: Vec<f64>,
    /// The history of the right-hand side that is being solved.
    history: Vec<f64>,
}

impl Solves {
    /// With room for the right-hand sides of a solve, each with up to `history` residual norms.
    pub fn try_capacity(history: usize) -> Result<Solves> {
        let norms = try_capacity(history.max((RIGHT_HAND_SIDES * history).min(NORMS)))?;
        Ok(Solves { reports: try_capacity(RIGHT_HAND_SIDES)?, norms, history: try_capacity(history)? })
    }

    /// Forgets the last solve.
    pub fn clear(&mut self) {
        self.norms.clear();
        self.reports.clear();
    }

    /// Begins a solve of so many right-hand sides, of which none has been attempted.
    pub fn begin(&mut self, count: usize) -> Result<()> {
        self.clear();
        if count > self.reports.capacity() {
            self.reports = try_capacity(count)?;
        }
        self.reports.resize_with(count, || (SolveReport::default(), 0));
        Ok(())
    }

    /// An empty report for the next right-hand side, which [`Solves::keep`] takes back.
    pub fn next(&mut self) -> SolveReport {
        let mut history = std::mem::take(&mut self.history);
        history.clear();
        SolveReport { history, ..SolveReport::default() }
    }

    /// Keeps the report of right-hand side `i`. Where there is no memory for its history, it has none.
    pub fn keep(&mut self, i: usize, mut report: SolveReport) {
        self.history = std::mem::take(&mut report.history);
        if self.norms.try_reserve(self.history.len()).is_ok() {
            self.norms.extend_from_slice(&self.history);
        }
        self.reports[i] = (report, self.norms.len());
    }

    /// Makes the report of one right-hand side that of `count`, with the same history.
    pub fn repeat(&mut self, count: usize) -> Result<()> {
        let Some((report, end)) = self.reports.first() else { return Ok(()) };
        let (report, end) = (SolveReport { history: Vec::new(), ..*report }, *end);
        let mut reports = try_capacity(count)?;
        let mut norms = try_capacity(end.saturating_mul(count))?;
        for i in 1..=count {
            reports.push((SolveReport { history: Vec::new(), ..report }, i * end));
            norms.extend_from_slice(&self.norms[..end]);
        }
        (self.reports, self.norms) = (reports, norms);
        Ok(())
    }

    /// Bytes of the reports.
    pub fn bytes(&self) -> usize {
        let norms = self.norms.capacity() + self.history.capacity();
        self.reports.capacity() * size_of::<(SolveReport, usize)>() + norms * size_of::<f64>()
    }

    /// Right-hand sides.
    pub fn count(&self) -> usize {
        self.reports.len()
    }

    /// The reports without their histories.
    pub fn reports(&self) -> impl Iterator<Item = &SolveReport> {
        self.reports.iter().map(|(report, _)| report)
    }

    /// The reports with their histories.
    pub fn to_reports(&self) -> Result<Vec<SolveReport>> {
        let mut reports = try_capacity(self.reports.len())?;
        let mut begin = 0;
        for (report, end) in &self.reports {
            let end = (*end).max(begin);
            reports.push(SolveReport { history: try_copy(&self.norms[begin..end])?, ..*report });
            begin = end;
        }
        Ok(reports)
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::error::Status;

    #[test]
    fn each_right_hand_side_has_its_own_history() {
        let mut solves = Solves::try_capacity(10).unwrap();
        solves.begin(3).unwrap();
        for (i, length) in [(0, 2), (2, 1)] {
            let mut report = solves.next();
            assert!(report.history.is_empty());
            report.history.extend((0..length).map(|k| (10 * i + k) as f64));
            report.status = Status::Success;
            solves.keep(i, report);
        }
        let reports = solves.to_reports().unwrap();
        let histories: Vec<&[f64]> = reports.iter().map(|report| &report.history[..]).collect();
        assert_eq!(histories, [&[0.0, 1.0][..], &[], &[20.0]]);
        assert_eq!(reports[1].status, Status::NotAttempted);
        solves.begin(1).unwrap();
        assert_eq!(solves.to_reports().unwrap().len(), 1);
        let report = SolveReport { history: vec![7.0, 8.0], status: Status::Success, ..SolveReport::default() };
        solves.keep(0, report);
        solves.repeat(3).unwrap();
        let reports = solves.to_reports().unwrap();
        assert!(reports.len() == 3 && reports.iter().all(|r| r.history == [7.0, 8.0] && r.status == Status::Success));
    }
}
