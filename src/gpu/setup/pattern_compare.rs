//! Comparison of patterns and coarse unknowns in device memory: `kernels/pattern_compare.cu`. One number is copied to
//! the host.

use super::DeviceGraph;
use super::coarse_numbering::DeviceCoarse;
use crate::error::Result;
use crate::gpu::runtime::{Argument, BLOCK, View};
use crate::gpu::{Buffer, Gpu, Slice};

/// Blocks of threads that fill a GPU; each compares several entries.
const MAX_BLOCKS: usize = 4096;

/// A pattern without its last offset, which is the number of entries.
#[derive(Clone, Copy)]
pub(super) struct Pattern<'a> {
    pub rows: usize,
    pub entries: usize,
    pub offsets: View<'a>,
    pub columns: View<'a>,
}

impl<'a> Pattern<'a> {
    /// A list of numbers.
    fn list(of: &'a Slice<i32>) -> Pattern<'a> {
        Pattern { rows: 0, entries: of.len(), offsets: View::NONE, columns: of.view() }
    }
}

/// Sets `differs`, which is 0 before, to 1 if two patterns with the same numbers of rows and entries differ.
pub(super) fn compare(gpu: &Gpu, one: Pattern<'_>, other: Pattern<'_>, differs: &Buffer<i64>) -> Result<()> {
    let Pattern { rows, entries, offsets, columns } = one;
    assert_eq!((rows, entries), (other.rows, other.entries));
    let arguments: [&dyn Argument; 7] =
        [&(rows as i64), &(entries as i64), &offsets, &columns, &other.offsets, &other.columns, &differs.view()];
    gpu.launch(gpu.kernel("pattern_differs")?, entries.max(rows).min(MAX_BLOCKS * BLOCK), &arguments)
}

/// Whether patterns are equal, pair by pair. Waits for the device unless their sizes differ.
fn same(gpu: &Gpu, pairs: &[(Pattern<'_>, Pattern<'_>)]) -> Result<bool> {
    if pairs.iter().any(|(one, other)| (one.rows, one.entries) != (other.rows, other.entries)) {
        return Ok(false);
    }
    let differs = gpu.zeroed::<i64>(1)?;
    pairs.iter().try_for_each(|(one, other)| compare(gpu, *one, *other, &differs))?;
    Ok(gpu.fetch(&differs)?[0] == 0)
}

impl DeviceGraph {
    /// Whether it equals another one. Waits for the device.
    pub fn is(&self, gpu: &Gpu, other: &DeviceGraph) -> Result<bool> {
        fn pattern(s: &DeviceGraph) -> Pattern<'_> {
            let (offsets, columns) = (s.offsets.view(), s.columns.view());
            Pattern { rows: s.rows, entries: s.columns.len(), offsets, columns }
        }
        same(gpu, &[(pattern(self), pattern(other))])
    }
}

impl DeviceCoarse {
    /// Whether they equal others. Waits for the device.
    pub fn is(&self, gpu: &Gpu, other: &DeviceCoarse) -> Result<bool> {
        fn lists<'a>(one: &'a Slice<i32>, other: &'a Slice<i32>) -> (Pattern<'a>, Pattern<'a>) {
            (Pattern::list(one), Pattern::list(other))
        }
        match (self, other) {
            (DeviceCoarse::Splitting(one), DeviceCoarse::Splitting(other)) => {
                same(gpu, &[lists(&one.number, &other.number)])
            }
            (DeviceCoarse::TwoPass(first, second), DeviceCoarse::TwoPass(other_first, other_second)) => {
                same(gpu, &[lists(&first.number, &other_first.number), lists(&second.number, &other_second.number)])
            }
            (DeviceCoarse::Aggregates(one), DeviceCoarse::Aggregates(other)) => same(gpu, &[lists(&one.of, &other.of)]),
            (DeviceCoarse::Grid(one), DeviceCoarse::Grid(other)) => Ok(one == other),
            _ => Ok(false),
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::DeviceAggregates;
    use super::super::coarse_numbering::Splitting;
    use super::super::tests::{irregular, problems, upload};
    use super::*;
    use crate::gpu::tests::devices;
    use crate::host::strength;

    #[test]
    fn graphs_differ_in_a_column_or_an_offset() {
        for gpu in devices() {
            for (name, a) in problems().into_iter().chain(irregular()) {
                let s = strength::absolute(&a.view(), 0.0).unwrap();
                let on_device = upload(&gpu, &s);
                assert!(on_device.is(&gpu, &upload(&gpu, &s)).unwrap(), "{name}");
                let entries = s.columns.len();
                for k in [0, entries / 2, entries.saturating_sub(1)].into_iter().filter(|k| *k < entries) {
                    let mut other = s.clone();
                    other.columns[k] += 1;
                    assert!(!on_device.is(&gpu, &upload(&gpu, &other)).unwrap(), "{name}, column {k}");
                }
                for i in (1..s.rows()).filter(|i| i % 50 == 1 || *i + 1 == s.rows()) {
                    let mut other = s.clone();
                    other.offsets[i] += 1;
                    assert!(!on_device.is(&gpu, &upload(&gpu, &other)).unwrap(), "{name}, offset {i}");
                }
                let mut shorter = s.clone();
                if shorter.columns.pop().is_some() {
                    assert!(!on_device.is(&gpu, &upload(&gpu, &shorter)).unwrap(), "{name}");
                }
            }
        }
    }

    /// A choice from two lists of numbers, of which most have the second alone.
    type Make<'a> = &'a dyn Fn(&[i32], &[i32]) -> DeviceCoarse;

    #[test]
    fn choices_differ_in_an_unknown_or_in_kind() {
        for gpu in devices() {
            for n in [1, 300, 5000] {
                let numbers: Vec<i32> = (0..n).map(|i| if i % 3 == 0 { i / 3 } else { -1 }).collect();
                let buffer = |numbers: &[i32]| gpu.upload(numbers).unwrap();
                let splitting = |numbers: &[i32]| Splitting { number: buffer(numbers), count: n as usize / 3 + 1 };
                let kinds: [Make<'_>; 3] = [
                    &|_, second| DeviceCoarse::Splitting(splitting(second)),
                    &|first, second| DeviceCoarse::TwoPass(splitting(first), splitting(second)),
                    &|_, second| {
                        let (count, members) = (n as usize / 3 + 1, n as usize);
                        DeviceCoarse::Aggregates(DeviceAggregates { of: buffer(second), count, members })
                    },
                ];
                for (k, kind) in kinds.iter().enumerate() {
                    let one = kind(&numbers, &numbers);
                    for (l, other) in kinds.iter().enumerate() {
                        assert_eq!(one.is(&gpu, &other(&numbers, &numbers)).unwrap(), k == l);
                    }
                    for i in [0, n as usize / 2, n as usize - 1] {
                        let mut changed = numbers.clone();
                        changed[i] += 1;
                        assert!(!one.is(&gpu, &kind(&numbers, &changed)).unwrap(), "{i} of {n}");
                        assert_eq!(one.is(&gpu, &kind(&changed, &numbers)).unwrap(), k != 1, "{i} of {n}");
                    }
                }
            }
        }
    }
}
