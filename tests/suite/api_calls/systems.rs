//! Random numbers and systems.

use std::collections::BTreeMap;

/// SplitMix64.
pub(super) struct Random(pub u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// True once in `n` times.
    pub(super) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Between 0 and 1.
    pub(super) fn real(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(super) fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

/// A square system as it was handed over.
#[derive(Clone)]
pub(super) struct System {
    pub offsets: Vec<i64>,
    pub columns: Vec<i32>,
    pub values: Vec<f64>,
}

impl System {
    /// Couplings of random neighbours, symmetric or not, diagonally dominant or almost.
    pub(super) fn new(random: &mut Random) -> System {
        let n = [0, 1, 2, 7, 40, 150][random.below(6)];
        let (symmetric, scale) = (!random.once_in(4), (60.0 * (random.real() - 0.5)).exp2());
        let mut rows: Vec<BTreeMap<usize, f64>> = vec![BTreeMap::new(); n];
        for i in 0..n {
            for _ in 0..random.below(4) {
                let (j, value) = (random.below(n), -random.real() * scale);
                if i != j {
                    rows[i].insert(j, value);
                    rows[j].insert(i, if symmetric { value } else { -random.real() * scale });
                }
            }
        }
        for (i, row) in rows.iter_mut().enumerate() {
            let sum: f64 = row.values().map(|v| v.abs()).sum();
            row.insert(i, sum * 1.01 + 1e-3 * scale);
        }
        let mut system = System { offsets: vec![0], columns: Vec::new(), values: Vec::new() };
        for row in rows {
            system.columns.extend(row.keys().map(|j| *j as i32));
            system.values.extend(row.values());
            system.offsets.push(system.columns.len() as i64);
        }
        system
    }

    pub(super) fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// A x, or with the transpose.
    pub(super) fn product(&self, x: &[f64], transposed: bool) -> Vec<f64> {
        let mut y = vec![0.0; self.rows()];
        for i in 0..self.rows() {
            for k in self.offsets[i] as usize..self.offsets[i + 1] as usize {
                let j = self.columns[k] as usize;
                let (to, from) = if transposed { (j, i) } else { (i, j) };
                y[to] += self.values[k] * x[from];
            }
        }
        y
    }

    /// |b - A x| / |b|, or with the transpose.
    pub(super) fn residual(&self, b: &[f64], x: &[f64], transposed: bool) -> f64 {
        let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
        let product = self.product(x, transposed);
        let r = norm(&mut b.iter().zip(product).map(|(b, y)| b - y));
        let b = norm(&mut b.iter().copied());
        if b == 0.0 { r } else { r / b }
    }
}
