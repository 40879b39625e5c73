//! How much ranks send and compute as their number grows, and how long that takes on a machine of which a few numbers are
//! known. Nothing here measures.

/// What was counted on a level: of all ranks, and of the rank that has most.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// Rows of all ranks.
    pub rows: f64,
    /// Stored values of all ranks.
    pub nonzeros: f64,
    /// Most rows of a rank.
    pub own: f64,
    /// Elements that the rank with most receives for a product.
    pub halo: f64,
    /// Ranks that it receives them from.
    pub neighbours: f64,
    /// Products with the matrix in an iteration.
    pub products: f64,
    /// Bytes of a stored value, and of an element of a vector.
    pub value: f64,
    pub element: f64,
}

/// What does not depend on the level.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    /// From the finest on. The product of the Krylov method is not among those of the finest.
    pub levels: Vec<Level>,
    /// Messages and bytes of transfers between levels in an iteration, over those of the levels' products.
    pub transfer_messages: f64,
    pub transfer_bytes: f64,
    /// Collective operations in an iteration.
    pub collectives: f64,
    /// Most rows of a coarsest level.
    pub coarsest: f64,
    /// Fewest rows of a rank that has any, on levels below the finest.
    pub fewest: f64,
}

/// What the busiest rank does in an iteration.
#[derive(Clone, Debug, Default)]
pub struct Iteration {
    /// Levels of the hierarchy.
    pub levels: usize,
    /// Messages that it receives, and their bytes.
    pub messages: f64,
    pub bytes: f64,
    /// Bytes of memory that products read and write.
    pub memory: f64,
    /// Floating-point operations of products.
    pub operations: f64,
    /// Products, transfers and vector operations of levels, each of which is a few launches.
    pub steps: f64,
    /// Exchanges, each with messages to all neighbours.
    pub exchanges: f64,
    /// Collective operations.
    pub collectives: f64,
}

/// Bytes of vectors that a product or transfer moves for each row beside its own, in vector operations: what one rank took on
/// an H200 with 7-point 64^3 to 160^3 beyond the bytes of its products.
const VECTORS: f64 = 35.0;

/// The width of a halo around a cube of `own` unknowns, in unknowns.
fn width(own: f64, halo: f64) -> f64 {
    ((own + halo).cbrt() - own.cbrt()) / 2.0
}

impl Hierarchy {
    /// The last level that at least 8 of so many ranks have: levels below it are taken to be like it.
    fn last(&self, ranks: f64) -> usize {
        let divided = |level: &Level| level.halo > 0.0 && (level.rows / self.fewest).min(ranks) >= 8.0;
        self.levels.iter().rposition(divided).unwrap_or(0)
    }

    /// The busiest rank of `ranks` with `own` rows each, from counts with `counted` ranks.
    pub fn iteration(&self, counted: f64, ranks: f64, own: f64) -> Iteration {
        let mut sum = Iteration { collectives: self.collectives, ..Iteration::default() };
        let last = self.last(counted);
        let (mut rows, mut l) = (own * ranks, 0);
        while let Some(level) = self.levels.get(l.min(last)) {
            let active = if l == 0 { ranks } else { (rows / self.fewest).floor().clamp(1.0, ranks) };
            let here = rows / active;
            let nonzeros = here * level.nonzeros / level.rows;
            let side = here.cbrt();
            let halo = ((side + 2.0 * width(level.own, level.halo)).powi(3) - here).min(rows - here);
            let neighbours = level.neighbours.min(active - 1.0);
            let read = |value: f64, element: f64| nonzeros * (value + 4.0) + here * (8.0 + 3.0 * element + VECTORS);
            let mut add = |times: f64, value: f64, element: f64| {
                sum.memory += times * read(value, element);
                sum.operations += times * 2.0 * nonzeros;
                sum.steps += times;
                sum.exchanges += if active > 1.0 { times } else { 0.0 };
                sum.messages += times * neighbours;
                sum.bytes += times * halo * element;
            };
            add(level.products, level.value, level.element);
            if l == 0 {
                // That of the Krylov method, in f64.
                add(1.0, 8.0, 8.0);
            }
            l += 1;
            if rows <= self.coarsest || l > 64 {
                break;
            }
            // Restriction and interpolation.
            sum.steps += 2.0;
            sum.memory += 2.0 * here * VECTORS;
            sum.exchanges += if active > 1.0 { 2.0 } else { 0.0 };
            let next = self.levels.get(l.min(last + 1)).map_or(0.0, |next| next.rows);
            let above = self.levels[l.min(last + 1) - 1].rows;
            rows /= if next > 0.0 { (above / next).max(1.5) } else { 8.0 };
        }
        sum.levels = l;
        sum.messages *= 1.0 + self.transfer_messages;
        sum.bytes *= 1.0 + self.transfer_bytes;
        sum
    }
}

/// A GPU and a network. What is assumed is printed with the figures.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Bytes that a product moves in a second.
    pub memory: f64,
    /// Seconds that a step of a level takes beside these bytes: launches, and the host that waits.
    pub step: f64,
    /// Bytes that a rank receives in a second, and seconds of a message until its first byte.
    pub network: f64,
    pub latency: f64,
    /// Seconds of a copy between device and host, of which an exchange has two; 0 where messages leave device memory.
    pub copy: f64,
}

/// Seconds of an iteration.
#[derive(Clone, Copy, Debug)]
pub struct Seconds {
    pub work: f64,
    pub exchange: f64,
    pub collective: f64,
}

impl Seconds {
    pub fn total(&self) -> f64 {
        self.work + self.exchange + self.collective
    }
}

impl Machine {
    /// The time of an iteration. Messages of an exchange follow each other, and nothing overlaps.
    pub fn seconds(&self, of: &Iteration, ranks: f64) -> Seconds {
        let alone = ranks <= 1.0;
        let exchange = of.messages * self.latency
            + of.bytes / self.network
            + of.exchanges * 2.0 * self.copy
            + 2.0 * if self.copy > 0.0 { of.bytes / self.network } else { 0.0 };
        // An inner product gathers 48 bytes of each rank.
        let collective = of.collectives * (ranks.log2().ceil() * self.latency + 48.0 * ranks / self.network);
        Seconds {
            work: of.memory / self.memory + of.steps * self.step,
            exchange: if alone { 0.0 } else { exchange },
            collective: if alone { 0.0 } else { collective },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 ranks with cubes of 16^3 points and halos of one point; every level has an eighth of the rows.
    fn hierarchy() -> Hierarchy {
        let level = |rows: f64| {
            let own = rows / 64.0;
            let halo = (own.cbrt() + 2.0).powi(3) - own;
            let (nonzeros, products) = (27.0 * rows, 2.0);
            Level { rows, nonzeros, own, halo, neighbours: 26.0, products, value: 8.0, element: 8.0 }
        };
        let levels = vec![level(262_144.0), level(32_768.0), level(4096.0), level(512.0)];
        Hierarchy {
            levels,
            transfer_messages: 0.5,
            transfer_bytes: 0.25,
            collectives: 3.0,
            coarsest: 512.0,
            fewest: 512.0,
        }
    }

    #[test]
    fn what_was_counted_is_what_is_told_for_the_same_ranks() {
        let told = hierarchy().iteration(64.0, 64.0, 4096.0);
        assert_eq!(told.levels, 4);
        // Three products with 26 neighbours on the finest level, two on the next, two with 7 on the third, none below.
        assert!((told.messages - 1.5 * (5.0 * 26.0 + 2.0 * 7.0)).abs() < 1e-9, "{told:?}");
        let finest = 3.0 * 8.0 * (18.0_f64.powi(3) - 16.0_f64.powi(3));
        let next = 2.0 * 8.0 * (10.0_f64.powi(3) - 8.0_f64.powi(3));
        let third = 2.0 * 8.0 * (10.0_f64.powi(3) - 8.0_f64.powi(3));
        assert!((told.bytes / (1.25 * (finest + next + third)) - 1.0).abs() < 1e-9, "{told:?}");
        assert_eq!(told.operations, 54.0 * (3.0 * 4096.0 + 2.0 * (512.0 + 512.0 + 512.0)));
    }

    #[test]
    fn more_ranks_add_levels_and_longer_boxes_surface() {
        let hierarchy = hierarchy();
        let (few, many) = (hierarchy.iteration(64.0, 64.0, 4096.0), hierarchy.iteration(64.0, 32_768.0, 4096.0));
        assert_eq!(many.levels, few.levels + 3);
        assert!(many.messages > few.messages && many.bytes > few.bytes);
        // Memory of a rank grows by the added levels alone, and these have 512 rows.
        assert!(many.memory < 1.5 * few.memory, "{few:?} {many:?}");
        let longer = hierarchy.iteration(64.0, 64.0, 4096.0 * 64.0);
        assert!(longer.bytes > 10.0 * few.bytes && longer.bytes < 20.0 * few.bytes, "{longer:?}");
        let alone = hierarchy.iteration(64.0, 1.0, 4096.0);
        assert_eq!((alone.messages, alone.bytes, alone.exchanges), (0.0, 0.0, 0.0));
    }

    #[test]
    fn one_rank_sends_nothing_and_copies_cost_time() {
        let machine = Machine { memory: 1e12, step: 1e-5, network: 1e10, latency: 1e-6, copy: 0.0 };
        let of = Iteration {
            messages: 10.0,
            bytes: 1e4,
            memory: 1e8,
            steps: 4.0,
            exchanges: 2.0,
            collectives: 3.0,
            ..Iteration::default()
        };
        let one = machine.seconds(&of, 1.0);
        assert!((one.work - 1.4e-4).abs() < 1e-12 && one.total() == one.work, "{one:?}");
        let two = machine.seconds(&of, 8.0);
        assert!((two.exchange - 1.1e-5).abs() < 1e-12 && two.collective > 9e-6, "{two:?}");
        let staged = Machine { copy: 5e-6, ..machine }.seconds(&of, 8.0);
        assert!((staged.exchange - two.exchange - 2.2e-5).abs() < 1e-12, "{staged:?}");
    }
}
