//! Two-stage interpolation for aggressive coarsening on a GPU.

use super::coarse::Splitting;
use super::truncate::Rows;
use super::{DeviceCsr, DevicePattern, spgemm};
use crate::error::Result;
use crate::gpu::{Gpu, Slice};
use crate::host::truncate::Truncation;
use crate::scalar::Scalar;

/// As [`crate::host::two_stage::interpolate`]: `formula` interpolates from the coarse unknowns of a splitting to all, or to those that are listed.
pub(crate) fn interpolate<T: Scalar>(
    gpu: &Gpu,
    first: &Splitting,
    second: &Splitting,
    truncation: Truncation,
    pattern: Option<&DevicePattern>,
    formula: impl Fn(&Splitting, Option<&Slice<i32>>) -> Result<DeviceCsr<T>>,
) -> Result<DeviceCsr<T>> {
    let product = {
        let members = first.members(gpu)?;
        let to_first = formula(second, Some(&members))?;
        let to_all = formula(first, None)?;
        spgemm::multiply(gpu, &to_all, &to_first)?
    };
    Rows::of(&product).truncated(gpu, truncation, pattern)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{awkward, in_turn, narrow, problems, splittings, upload};
    use super::super::{extended_i, mm_ext};
    use super::*;
    use crate::host::{self, aggressive, strength};
    use crate::sparse::Csr;

    fn check<T: Scalar>(a: &Csr<T>, name: &str) {
        let view = a.view();
        let s = strength::classical(&view, 0.25, 1.0).unwrap();
        for first in splittings(&s) {
            let second = aggressive::thin(&s, &first, 1).unwrap();
            let flags = |splitting: &[bool]| splitting.iter().map(|c| u8::from(*c)).collect::<Vec<_>>();
            for (max_entries, factor) in [(4, 0.0), (0, 0.1)] {
                let cut = Truncation::new(max_entries, factor);
                let on_host = |pattern| {
                    host::two_stage::interpolate(&first, &second, cut, pattern, |coarse, only| {
                        host::extended_i::interpolate(&view, &s, coarse, only, cut, None)
                    })
                    .unwrap()
                };
                let wanted = on_host(None);
                let structure = wanted.clone().into_shared().structure;
                let kept = on_host(Some(&*structure));
                let products = host::two_stage::interpolate(&first, &second, cut, None, |coarse, only| {
                    host::mm_ext::interpolate(&view, &s, coarse, only, true, cut, None)
                })
                .unwrap();
                for gpu in in_turn() {
                    let (there, graph) = (DeviceCsr::upload(&gpu, &view).unwrap(), upload(&gpu, &s));
                    let splitting = |of: &[bool]| Splitting::new(&gpu, &gpu.upload(&flags(of)).unwrap()).unwrap();
                    let (first, second) = (splitting(&first), splitting(&second));
                    let make = |pattern: Option<&DevicePattern>| {
                        interpolate(&gpu, &first, &second, cut, pattern, |coarse, only| {
                            extended_i::interpolate(&gpu, &there, &graph, coarse, only, cut)
                        })
                        .unwrap()
                    };
                    let p = make(None);
                    assert_eq!(p.fetch(&gpu).unwrap(), wanted, "{name}");
                    assert_eq!(make(Some(&p.pattern())).fetch(&gpu).unwrap(), kept, "{name}");
                    let p = interpolate(&gpu, &first, &second, cut, None, |coarse, only| {
                        mm_ext::interpolate(&gpu, &there, &graph, coarse, only, true, cut, None)
                    });
                    assert_eq!(p.unwrap().fetch(&gpu).unwrap(), products, "{name}");
                }
            }
        }
    }

    #[test]
    fn interpolations_are_those_of_the_host() {
        for (name, a) in problems().into_iter().chain(awkward()) {
            check(&a, &name);
        }
        let (name, a) = problems().remove(0);
        check(&narrow(&a), &name);
    }
}
