//! Vector operations, conversions between formats, inner products and diagonals.

use super::*;

/// Around warps, blocks and the parts of inner products.
const SIZES: &[usize] = &[0, 1, 31, 32, 33, 63, 65, 255, 256, 257, 2049, 10_000];

fn vector_operations<T: Number>() {
    let host = host();
    let nan = T::from_f64(f64::NAN);
    for gpu in devices() {
        for &n in SIZES {
            let (x, y): (Vec<T>, Vec<T>) = (values(n, 1), values(n, 2));
            let what = format!("{} on {n} elements of {}", gpu.description(), T::PRECISION.name());
            let on_device = gpu.upload(&x).unwrap();
            for (alpha, beta) in [(2.0, 0.0), (-1.5, 1.0), (0.5, -2.0)] {
                let (alpha, beta) = (T::Wide::from_f64(alpha), T::Wide::from_f64(beta));
                // A result that is not read may hold anything.
                let before: Vec<T> = if beta == T::Wide::ZERO { vec![nan; n] } else { y.clone() };
                let mut expected = before.clone();
                host.axpby(alpha, &x, beta, &mut expected);
                let mut result = gpu.upload(&before).unwrap();
                gpu.axpby(alpha, &on_device, beta, &mut result);
                assert_eq!(download(&gpu, &result), expected, "axpby of {what}");
            }
            let mut filled = gpu.upload(&vec![nan; n]).unwrap();
            gpu.fill(T::from_f64(0.75), &mut filled);
            gpu.scale(T::Wide::from_f64(-2.0), &mut filled);
            assert_eq!(download(&gpu, &filled), vec![T::from_f64(-1.5); n], "fill and scale of {what}");
            gpu.copy(&on_device, &mut filled);
            assert_eq!(download(&gpu, &filled), x, "copy of {what}");
            let (mut wide, mut narrow) = (gpu.zeroed::<f64>(n).unwrap(), gpu.zeroed::<f32>(n).unwrap());
            gpu.copy(&on_device, &mut wide);
            gpu.copy(&wide, &mut narrow);
            gpu.copy(&narrow, &mut filled);
            assert_eq!(download(&gpu, &filled), x, "conversions of {what}");
            let expected = host.dot(&x, &y);
            let dot = gpu.dot(&on_device, &gpu.upload(&y).unwrap());
            assert!((dot - expected).abs() <= 1e-13 * n as f64, "dot of {what}: {dot}, should be {expected}");
            assert_eq!(gpu.norm(&gpu.zeroed::<T>(n).unwrap()), 0.0);
            let d: Vec<f32> = values(n, 14);
            let (mut on_host, mut rescaled) = (vec![0.0_f32; n], gpu.zeroed::<f32>(n).unwrap());
            host.convert(0.5, Some(&d), &x, &mut on_host);
            assert_eq!(gpu.convert(0.5, Some(&gpu.upload(&d).unwrap()), &on_device, &mut rescaled), None);
            assert_eq!(download(&gpu, &rescaled), on_host, "conversion of {what}");
            gpu.convert(-0.25, None, &on_device, &mut wide);
            let expected: Vec<f64> = x.iter().map(|v| -0.25 * v.to_f64()).collect();
            assert_eq!(download(&gpu, &wide), expected, "conversion of {what}");
            assert_eq!(gpu.max_norm(&on_device), host.max_norm(&x), "largest of {what}");
            if n > 0 {
                let mut broken = x.clone();
                broken[n / 2] = nan;
                assert!(gpu.max_norm(&gpu.upload(&broken).unwrap()).is_nan(), "largest of {what}");
            }
            gpu.status().unwrap();
        }
    }
}

#[test]
fn vector_operations_are_those_of_the_host() {
    vector_operations::<f64>();
    vector_operations::<f32>();
    vector_operations::<f16>();
    vector_operations::<bf16>();
}

/// Every number of a 16-bit format, the numbers halfway between each and the next, and those beside the halfway ones;
/// also what is too large, and what is not a number.
fn hard_to_round<T: Number>(from_bits: impl Fn(u16) -> T) -> Vec<f32> {
    let mut all = vec![f32::MAX, f32::MIN_POSITIVE, f32::from_bits(1), f32::INFINITY, f32::NAN, -f32::NAN];
    for bits in 0..=u16::MAX {
        let value = from_bits(bits).to_f64() as f32;
        let next = from_bits(bits.wrapping_add(1)).to_f64() as f32;
        let halfway = 0.5 * (f64::from(value) + f64::from(next)) as f32;
        all.extend([value, halfway]);
        if halfway.is_finite() && halfway != 0.0 {
            all.extend([f32::from_bits(halfway.to_bits() - 1), f32::from_bits(halfway.to_bits() + 1)]);
        }
    }
    all
}

fn rounds_to_nearest_even<T: Number>(from_bits: impl Fn(u16) -> T, bits: impl Fn(T) -> u16) {
    let wide = hard_to_round(from_bits);
    let narrow: Vec<T> = wide.iter().map(|v| T::from_f64(f64::from(*v))).collect();
    let widened: Vec<f32> = narrow.iter().map(|v| v.to_f64() as f32).collect();
    for gpu in devices() {
        let (mut rounded, mut back) = (gpu.zeros::<T>(wide.len()).unwrap(), gpu.zeros::<f32>(wide.len()).unwrap());
        gpu.copy(&gpu.upload(&wide).unwrap(), &mut rounded);
        gpu.copy(&rounded, &mut back);
        let (rounded, back) = (download(&gpu, &rounded), download(&gpu, &back));
        for i in 0..wide.len() {
            let same = if wide[i].is_nan() {
                rounded[i].to_f64().is_nan() && back[i].is_nan()
            } else {
                bits(rounded[i]) == bits(narrow[i]) && back[i].to_bits() == widened[i].to_bits()
            };
            assert!(same, "{}: {:e} became {:?} and {:e}", gpu.description(), wide[i], rounded[i], back[i]);
        }
    }
}

#[test]
fn numbers_of_16_bits_are_rounded_as_on_the_host() {
    rounds_to_nearest_even(f16::from_bits, f16::to_bits);
    rounds_to_nearest_even(bf16::from_bits, bf16::to_bits);
}

/// x goes into a vector of `U` and back, with the power of two that the host finds.
fn fits<T: Number, U: Number>() {
    let host = host();
    let range = Range::of(U::PRECISION).unwrap();
    let nan = f64::NAN;
    for gpu in devices() {
        for n in [1, 33, 257, 5000] {
            for size in
                [1.0, 5.0, 1e-30, 3e37, 0.0, nan].into_iter().filter(|s| !(*s > 0.0 && T::from_f64(*s) == T::ZERO))
            {
                let mut x: Vec<T> = values::<T>(n, 15);
                x.iter_mut().for_each(|v| *v = T::from_f64(v.to_f64() * if size.is_nan() { 1.0 } else { size }));
                x[n / 2] = T::from_f64(size);
                let d: Vec<f32> = values(n, 16);
                let what = format!(
                    "{}: {n} elements up to {size:e}, {:?} as {:?}",
                    gpu.description(),
                    T::PRECISION,
                    U::PRECISION
                );
                let mut factor = (host.range_factor().unwrap(), gpu.range_factor().unwrap());
                let (mut y, mut device_y) = (vec![U::ZERO; n], gpu.zeros::<U>(n).unwrap());
                let (mut back, mut device_back) = (vec![T::ZERO; n], gpu.zeros::<T>(n).unwrap());
                let (device_x, device_d) = (gpu.upload(&x).unwrap(), gpu.upload(&d).unwrap());
                for (scaled, range) in [(true, range), (false, range), (true, range.exact())] {
                    let (d, device_d) = (scaled.then_some(&d[..]), scaled.then_some(&*device_d));
                    host.convert_into_range((&range, &mut factor.0), 0.5, d, &x, &mut y);
                    host.convert_from_range(&factor.0, 2.0, d, &y, &mut back);
                    gpu.convert_into_range((&range, &mut factor.1), 0.5, device_d, &device_x, &mut device_y);
                    gpu.convert_from_range(&factor.1, 2.0, device_d, &device_y, &mut device_back);
                    assert_eq!(download(&gpu, &factor.1), [factor.0], "{what}");
                    let same = |x: &[f64], y: &[f64]| x.iter().zip(y).all(|(x, y)| x == y || x.is_nan() && y.is_nan());
                    assert!(same(&wide(&download(&gpu, &device_y)), &wide(&y)), "{what}");
                    assert!(same(&wide(&download(&gpu, &device_back)), &wide(&back)), "{what}");
                }
                gpu.status().unwrap();
            }
        }
    }
}

fn wide<T: Number>(x: &[T]) -> Vec<f64> {
    x.iter().map(|x| x.to_f64()).collect()
}

#[test]
fn vectors_are_brought_into_range_as_on_the_host() {
    fits::<f64, f32>();
    fits::<f64, f16>();
    fits::<f32, bf16>();
    fits::<bf16, f16>();
}

#[test]
fn inner_products_do_not_depend_on_the_order_of_threads() {
    for pair in devices_in_both_orders().chunks(2).filter(|pair| pair.len() == 2) {
        let (x, y): (Vec<f64>, Vec<f64>) = (values(70_001, 3), values(70_001, 4));
        let x: Vec<f64> = x.iter().enumerate().map(|(i, v)| v / (i + 1) as f64).collect();
        let dot = |gpu: &Gpu| gpu.dot(&gpu.upload(&x).unwrap(), &gpu.upload(&y).unwrap());
        assert_eq!(dot(&pair[0]), dot(&pair[1]));
    }
}

fn diagonals<S: Number, T: Number>() {
    let host = host();
    for gpu in devices() {
        for width in [1, 2, 3, 6] {
            for blocks in [0, 1, 85, 86, 300] {
                let n = width * blocks;
                let (d, x, y): (Vec<S>, Vec<T>, Vec<T>) = (values(n * width, 5), values(n, 6), values(n, 7));
                let (device_d, device_x) = (gpu.upload(&d).unwrap(), gpu.upload(&x).unwrap());
                let (mut set, mut added) = (vec![T::from_f64(f64::NAN); n], y.clone());
                let mut device_set = gpu.upload(&set).unwrap();
                let mut device_added = gpu.upload(&y).unwrap();
                host.scale_by(1, &d, &x, &mut set);
                host.add_scaled_by(1, &d, &x, &mut added);
                gpu.scale_by(1, &device_d, &device_x, &mut device_set);
                gpu.add_scaled_by(1, &device_d, &device_x, &mut device_added);
                let what = format!("{}, {blocks} blocks of {width}", gpu.description());
                close(&download(&gpu, &device_set), &set, width as f64, &what);
                close(&download(&gpu, &device_added), &added, 1.0 + width as f64, &what);
                gpu.status().unwrap();
            }
        }
    }
}

#[test]
fn diagonals_of_every_format_are_those_of_the_host() {
    diagonals::<f64, f64>();
    diagonals::<f32, f32>();
    diagonals::<f16, f32>();
    diagonals::<bf16, f64>();
    diagonals::<f16, f16>();
    diagonals::<bf16, bf16>();
}
