//! Products of sparse matrices in every storage format, dense products and multicolour sweeps.

use super::*;

fn products<S: Number, X: Number, Y: Number>(gpu: &Gpu, matrix: &SharedCsr<S>) {
    products_of::<S, X, Y>(gpu, matrix, &mut AllFormats::new(gpu, matrix));
}

fn products_of<S: Number, X: Number, Y: Number>(gpu: &Gpu, matrix: &SharedCsr<S>, formats: &mut AllFormats<S>) {
    let host = host();
    let a = matrix.view();
    let (rows, cols) = (a.scalar_rows(), a.scalar_cols());
    let what = format!(
        "{}, {} of {rows} x {cols}, {} {} {}",
        gpu.description(),
        a.block.format(),
        S::PRECISION.name(),
        X::PRECISION.name(),
        Y::PRECISION.name()
    );
    let on_host: Box<dyn Operator<Host, X, Y>> = host.matrix(matrix.clone(), Columns::Shared, Sums::Wide).unwrap();
    let forms: &[SellKernel] = match a.block == Block::SCALAR {
        true => &[SellKernel::Rows, SellKernel::Shared(4)],
        false => &[SellKernel::Blocks(1), SellKernel::Blocks(8)],
    };
    let chosen = gpu.matrix(matrix.clone(), Columns::Shared, Sums::Wide).unwrap();
    let all = formats.products(gpu, Precisions::of::<S, X, Y>(), forms);
    let formats = std::iter::once(chosen).chain(all.into_iter().map(operator_of::<X, Y>));
    for on_device in formats {
        compare(gpu, &*on_host, &*on_device, (rows, cols), &format!("{}, {what}", on_device.format()));
        assert_eq!(on_device.precision(), S::PRECISION);
    }
}

/// All forms of a product, on the host and on a device.
pub(super) fn compare<X: Number, Y: Number>(
    gpu: &Gpu,
    on_host: &dyn Operator<Host, X, Y>,
    on_device: &dyn Operator<Gpu, X, Y>,
    (rows, cols): (usize, usize),
    what: &str,
) {
    assert_eq!(on_device.rows(), rows);
    let (x, y, b): (Vec<X>, Vec<Y>, Vec<Y>) = (values(cols, 8), values(rows, 9), values(rows, 10));
    let (device_x, device_b) = (gpu.upload(&x).unwrap(), gpu.upload(&b).unwrap());
    let scale = cols as f64;
    for (alpha, beta) in [(1.0, 0.0), (-0.5, 1.0), (2.0, -1.5)] {
        let (alpha, beta) = (Y::Wide::from_f64(alpha), Y::Wide::from_f64(beta));
        let before = if beta == Y::Wide::ZERO { vec![Y::from_f64(f64::NAN); rows] } else { y.clone() };
        let mut expected = before.clone();
        on_host.apply(alpha, &x, beta, &mut expected).unwrap();
        let mut result = gpu.upload(&before).unwrap();
        on_device.apply(alpha, &device_x, beta, &mut result).unwrap();
        close(&download(gpu, &result), &expected, scale, what);
    }
    let mut expected = vec![Y::from_f64(f64::NAN); rows];
    let mut result = gpu.upload(&expected).unwrap();
    on_host.residual(&b, &x, &mut expected).unwrap();
    on_device.residual(&device_b, &device_x, &mut result).unwrap();
    close(&download(gpu, &result), &expected, scale, &format!("residual, {what}"));
    // A vector that begins at an odd element, as a caller's may.
    let longer: Vec<Y> = std::iter::once(Y::ZERO).chain(b.iter().copied()).collect();
    let longer = gpu.upload(&longer).unwrap();
    on_device.residual(longer.subslice(1, rows), &device_x, &mut result).unwrap();
    close(&download(gpu, &result), &expected, scale, &format!("residual of a shifted vector, {what}"));
    let alpha = Y::Wide::from_f64(-0.5);
    host().add_product(on_host, alpha, &x, &b, &mut expected).unwrap();
    gpu.add_product(on_device, alpha, &device_x, &device_b, &mut result).unwrap();
    close(&download(gpu, &result), &expected, scale, &format!("sum, {what}"));
    gpu.status().unwrap();
}

fn every_precision<S: Number>(gpu: &Gpu, rows: usize, cols: usize, block: Block, length: usize) {
    fn every_result<S: Number, X: Number>(gpu: &Gpu, matrix: &SharedCsr<S>, formats: &mut AllFormats<S>) {
        products_of::<S, X, f64>(gpu, matrix, formats);
        products_of::<S, X, f32>(gpu, matrix, formats);
        products_of::<S, X, f16>(gpu, matrix, formats);
        products_of::<S, X, bf16>(gpu, matrix, formats);
    }
    let matrix = irregular::<S>(rows, cols, block, length);
    let formats = &mut AllFormats::new(gpu, &matrix);
    every_result::<S, f64>(gpu, &matrix, formats);
    every_result::<S, f32>(gpu, &matrix, formats);
    if const { !S::PRECISION.is_scalar() } {
        every_result::<S, S>(gpu, &matrix, formats);
    }
}

#[test]
fn scalar_products_are_those_of_the_host() {
    // Rows of each length that has its own number of lanes, and around SELL chunks and blocks of the launch.
    let sizes = [(0, 0, 0), (1, 1, 1), (63, 40, 3), (129, 100, 7), (65, 200, 14), (33, 300, 30), (17, 300, 90)];
    for (case, (rows, cols, length)) in sizes.into_iter().enumerate() {
        for gpu in devices() {
            products::<f64, f64, f64>(&gpu, &irregular(rows, cols, Block::SCALAR, length));
        }
        for gpu in devices_for(case) {
            every_precision::<f64>(&gpu, rows, cols, Block::SCALAR, length);
        }
    }
    for gpu in devices() {
        every_precision::<f32>(&gpu, 129, 100, Block::SCALAR, 7);
    }
    for gpu in devices() {
        every_precision::<f16>(&gpu, 129, 100, Block::SCALAR, 7);
    }
    for gpu in devices() {
        every_precision::<bf16>(&gpu, 129, 100, Block::SCALAR, 7);
    }
}

#[test]
fn block_products_are_those_of_the_host() {
    for gpu in devices() {
        for (rows, cols) in [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (8, 8), (3, 6), (6, 3), (1, 3)] {
            products::<f64, f64, f64>(&gpu, &irregular(9, 11, Block { rows, cols }, 4));
        }
        for side in [2, 4] {
            products::<f32, f32, f32>(&gpu, &irregular(40, 30, Block::square(side), 20));
        }
        for side in [2, 3, 4] {
            products::<f64, f64, f64>(&gpu, &irregular(0, 0, Block::square(side), 0));
        }
    }
    // Every kernel of blocks, in every format of values.
    for side in [2, 3, 4, 5, 6] {
        let (rows, cols) = if side < 5 { (17, 19) } else { (5, 7) };
        for gpu in devices_for(side) {
            every_precision::<f64>(&gpu, rows, cols, Block::square(side), 5);
        }
        for gpu in devices_for(side + 1) {
            every_precision::<f32>(&gpu, rows, cols, Block::square(side), 5);
        }
        for gpu in devices_for(side + 2) {
            every_precision::<f16>(&gpu, rows, cols, Block::square(side), 5);
        }
        for gpu in devices_for(side + 3) {
            every_precision::<bf16>(&gpu, rows, cols, Block::square(side), 5);
        }
    }
}

/// Calls a function for every format of stored values and each of vectors that goes with it.
macro_rules! every_pair {
    ($run:ident($($argument:expr),*)) => {
        every_pair!(f64, $run($($argument),*));
        every_pair!(f32, $run($($argument),*));
        every_pair!(f16, $run($($argument),*));
        every_pair!(bf16, $run($($argument),*));
        $run::<f16, f16>($($argument),*);
        $run::<bf16, bf16>($($argument),*);
    };
    ($stored:ty, $run:ident($($argument:expr),*)) => {
        $run::<$stored, f64>($($argument),*);
        $run::<$stored, f32>($($argument),*);
    };
}

fn dense<S: Number, V: Number>() {
    let host = host();
    for gpu in devices() {
        for n in [0, 1, 7, 31, 33, 100] {
            let (values, x): (Vec<S>, Vec<V>) = (values(n * n, 12), values(n, 13));
            let on_host: Box<dyn Operator<Host, V>> = host.dense(n, values.clone()).unwrap();
            let on_device: Box<dyn Operator<Gpu, V>> = gpu.dense(n, values).unwrap();
            let mut expected = vec![V::from_f64(f64::NAN); n];
            let mut result = gpu.upload(&expected).unwrap();
            on_host.apply(V::Wide::from_f64(0.5), &x, V::Wide::ZERO, &mut expected).unwrap();
            on_device.apply(V::Wide::from_f64(0.5), &gpu.upload(&x).unwrap(), V::Wide::ZERO, &mut result).unwrap();
            close(&download(&gpu, &result), &expected, n as f64, &format!("dense {n}, {}", gpu.description()));
        }
    }
}

#[test]
fn dense_products_are_those_of_the_host() {
    every_pair!(dense());
}

/// A sweep over the colours in each direction, on the host and on a device.
fn colours<S: Number, V: Number>(gpu: &Gpu, a: &crate::sparse::Csr<f64>, width: usize) {
    let host = host();
    let exact = a.clone().into_shared();
    let n = exact.view().scalar_rows();
    let coloured = || Coloured {
        inverse: diagonal::inverse::<f64, f64>(&exact.view(), width, diagonal::AS_IT_IS)
            .unwrap()
            .into_iter()
            .map(S::from_f64)
            .collect(),
        colouring: Colouring::new(&exact.view()).unwrap(),
        matrix: exact.cast::<S>().unwrap(),
        shared: false,
    };
    let on_host: Box<dyn Colours<Host, V>> = host.colours(coloured()).unwrap();
    let on_device: Box<dyn Colours<Gpu, V>> = gpu.colours(coloured()).unwrap();
    assert!(on_device.count() == on_host.count() && on_device.solves_exactly() == on_host.solves_exactly());
    let (b, x): (Vec<V>, Vec<V>) = (values(n, 17), values(n, 18));
    let device_b = gpu.upload(&b).unwrap();
    for count in [on_host.count(), on_host.count() - 1] {
        for backward in [false, true] {
            let (mut expected, mut found) = (x.clone(), gpu.upload(&x).unwrap());
            on_host.pass(&host, count, backward, &b, &mut expected, &mut vec![V::ZERO; n]).unwrap();
            on_device.pass(gpu, count, backward, &device_b, &mut found, &mut gpu.zeros(n).unwrap()).unwrap();
            let what =
                format!("{}, blocks of {}, {:?} {:?}", gpu.description(), a.block.rows, S::PRECISION, V::PRECISION);
            let largest = expected.iter().fold(1.0, |m: f64, v| m.max(v.to_f64().abs()));
            close(&download(gpu, &found), &expected, 4.0 * largest, &what);
        }
    }
    gpu.status().unwrap();
}

#[test]
fn sweeps_over_colours_are_those_of_the_host() {
    let blocks = crate::gallery::elasticity_hex8(4, crate::gallery::Layers::NONE, true).unwrap().matrix;
    let scalars = crate::gallery::poisson27(7, 6, 5).unwrap();
    for gpu in devices() {
        colours::<f64, f64>(&gpu, &scalars, 1);
        colours::<f32, f32>(&gpu, &scalars, 1);
        colours::<f16, f16>(&gpu, &scalars, 1);
        colours::<bf16, f32>(&gpu, &scalars, 1);
        for width in [1, 3] {
            colours::<f64, f64>(&gpu, &blocks, width);
            colours::<f32, f32>(&gpu, &blocks, width);
            colours::<bf16, bf16>(&gpu, &blocks, width);
        }
    }
    for gpu in one_of_each() {
        every_pair!(colours(&gpu, &scalars, 1));
    }
}

#[test]
fn sums_that_are_rounded_are_those_of_the_host() {
    let host = host();
    for gpu in devices() {
        for block in [Block::SCALAR, Block::square(3), Block { rows: 2, cols: 5 }] {
            // f32 holds every product, and bf16 no sum.
            let matrix = irregular::<bf16>(37, 41, block, 9);
            let (rows, cols) = (matrix.view().scalar_rows(), matrix.view().scalar_cols());
            let (x, b): (Vec<bf16>, Vec<bf16>) = (values(cols, 8), values(rows, 9));
            let on_host: Box<dyn Operator<Host, bf16, bf16>> =
                host.matrix(matrix.clone(), Columns::Shared, Sums::Rounded).unwrap();
            let on_device: Box<dyn Operator<Gpu, bf16, bf16>> =
                gpu.matrix(matrix.clone(), Columns::Shared, Sums::Rounded).unwrap();
            let (mut expected, mut found) = (vec![bf16::ZERO; rows], gpu.zeros::<bf16>(rows).unwrap());
            on_host.residual(&b, &x, &mut expected).unwrap();
            on_device.residual(&gpu.upload(&b).unwrap(), &gpu.upload(&x).unwrap(), &mut found).unwrap();
            assert_eq!(download(&gpu, &found), expected, "{}, {}", gpu.description(), block.format());
            let wide: Box<dyn Operator<Host, bf16, bf16>> = host.matrix(matrix, Columns::Shared, Sums::Wide).unwrap();
            let mut exact = expected.clone();
            wide.residual(&b, &x, &mut exact).unwrap();
            assert_ne!(exact, expected, "nothing was rounded");
        }
    }
}
