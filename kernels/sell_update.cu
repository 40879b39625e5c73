// Value update of SELL chunks with an unchanged pattern (see sell_layout.cu). A bit for each row of a slot says whether it is an entry or padding, so
// that no column is read. Row sums for smoothers are computed in the same pass.
#include "sell_layout.h"
#include "numbers.h"

// Slots whose loads are in flight at the same time.
constexpr int SLOTS_IN_FLIGHT = 4;

// Stores the values of a chunk: v of row k * CHUNK_LANES + lane of a slot, entry `at` of the matrix, or 0 for padding.
template <int K, class V> struct Store {
    Out<V> to;
    template <class I> DEVICE void store(i64 position, int, bool, I, V v) { to[position] = v; }
};

// The same, with the sums of absolute values of off-diagonal entries, in the order of the rows.
template <int K, class T, class I> struct StoreAndSum {
    Out<T> to;
    // The entries on the diagonal, or -1.
    I diagonal[K];
    T own[K];
    f64 norm[K];
    DEVICE void store(i64 position, int k, bool is_entry, I at, T v) {
        to[position] = v;
        const bool is_own = is_entry && at == diagonal[k];
        own[k] = is_own ? v : own[k];
        norm[k] += is_own ? 0.0 : magnitude(to_f64(v));
    }
};

// Stores in f16, and flags values that are not exact.
template <int K, class T> struct StoreF16 {
    Out<f16> to;
    bool is_wrong;
    template <class I> DEVICE void store(i64 position, int, bool, I, T v) {
        const f16 narrow = to_f16(to_f32(v));
        to[position] = narrow;
        is_wrong = is_wrong || to_f64(narrow) != to_f64(v);
    }
};

// Slots from `slot` to `last` of a chunk of scalars, whose rows begin with entries at[k].
template <int K, class T, class I, class Values, class Sink>
DEVICE void update_chunk(I *at, i64 slot, i64 last, const In<u32> &occupied, const Values &values, Sink &sink) {
    using Lanes = Group<CHUNK_LANES>;
    // Slots whose words are loaded together.
    constexpr int TOGETHER = CHUNK_LANES / K;
    const int lane = Lanes::rank();
    for (; slot < last; slot += TOGETHER) {
        const int count = last - slot < TOGETHER ? static_cast<int>(last - slot) : TOGETHER;
        const u32 words = lane < count * K ? occupied[slot * K + lane] : 0;
        for (int first = 0; first < count; first += SLOTS_IN_FLIGHT) {
            T v[SLOTS_IN_FLIGHT][K];
            bool is_entry[SLOTS_IN_FLIGHT][K];
            I from[SLOTS_IN_FLIGHT][K];
            UNROLL
            for (int s = 0; s < SLOTS_IN_FLIGHT; ++s) {
                UNROLL
                for (int k = 0; k < K; ++k) {
                    is_entry[s][k] = (Lanes::shuffle(words, (first + s) * K + k) >> lane & 1) != 0;
                    from[s][k] = at[k];
                    v[s][k] = is_entry[s][k] ? values[at[k]] : T(0);
                    at[k] += is_entry[s][k] ? 1 : 0;
                }
            }
            UNROLL
            for (int s = 0; s < SLOTS_IN_FLIGHT; ++s) {
                UNROLL
                for (int k = 0; k < K; ++k) {
                    if (first + s < count) {
                        sink.store((slot + first + s) * (K * CHUNK_LANES) + k * CHUNK_LANES + lane, k, is_entry[s][k], from[s][k], v[s][k]);
                    }
                }
            }
        }
    }
}

// Advances to slot `last` without reading values.
template <int K, class I> DEVICE void skip_slots(I *at, i64 slot, i64 last, const In<u32> &occupied) {
    using Lanes = Group<CHUNK_LANES>;
    constexpr int TOGETHER = CHUNK_LANES / K;
    const int lane = Lanes::rank();
    for (; slot < last; slot += TOGETHER) {
        const int count = last - slot < TOGETHER ? static_cast<int>(last - slot) : TOGETHER;
        const u32 words = lane < count * K ? occupied[slot * K + lane] : 0;
        for (int s = 0; s < count; ++s) {
            UNROLL
            for (int k = 0; k < K; ++k) {
                at[k] += static_cast<I>(Lanes::shuffle(words, s * K + k) >> lane & 1);
            }
        }
    }
}

// Slots of a chunk from `first` up to `last`.
struct SlotRange {
    i64 first, last;
};

// The slots of part `part` of `parts` of a chunk.
DEVICE SlotRange slots_of_part(i64 start, i64 end, int part, int parts) {
    const i64 length = (end - start + parts - 1) / parts, first = start + part * length;
    return SlotRange{first < end ? first : end, first + length < end ? first + length : end};
}

// A scalar matrix and its chunks.
template <class T> struct Updated {
    i64 chunks;
    i64 rows;
    In<i64> offsets;
    In<T> values;
    In<i32> order;
    In<i64> starts;
    In<u32> occupied;
    DEVICE i64 row(i64 position) const { return order.len > 0 && position < rows ? order[position] : position; }
};

// Calls `work` for each chunk: its rows, K for each lane, their first entries, the values, and a range of slots.
template <int K, class T, class Work> DEVICE void each_chunk(const Updated<T> &m, const Work &work) {
    for (i64 chunk = global_index() / CHUNK_LANES; chunk < m.chunks; chunk += block_count() * (BLOCK / CHUNK_LANES)) {
        i64 row[K], at[K];
        UNROLL
        for (int k = 0; k < K; ++k) {
            row[k] = m.row(chunk * (K * CHUNK_LANES) + k * CHUNK_LANES + Group<CHUNK_LANES>::rank());
        }
        UNROLL
        for (int k = 0; k < K; ++k) {
            at[k] = row[k] < m.rows ? m.offsets[row[k]] : 0;
        }
        work(row, at, m.values, SlotRange{m.starts[chunk], m.starts[chunk + 1]});
    }
}

// The same for long rows, in tiles of `of_tile` chunks in shared memory; groups of lanes share a chunk. Before that a thread calls
// `whole` for each row, with its begin and end.
template <class T> constexpr int UPDATE_CAPACITY = 45056 / static_cast<int>(sizeof(T));
template <int K, class T, class Whole, class Work>
DEVICE void each_chunk_of_tiles(const Updated<T> &m, int of_tile, const Whole &whole, const Work &work) {
    SHARED(i64, row_starts, TILE);
    SHARED(i32, begins, TILE + 1);
    SHARED(T, copied, UPDATE_CAPACITY<T>);
    const i64 first = block_index() * of_tile;
    const int count = of_tile * (K * CHUNK_LANES);
    const bool fits = find_rows(first * (K * CHUNK_LANES), count, m.rows, m.offsets, m.order, row_starts, begins) <= UPDATE_CAPACITY<T>;
    barrier();
    if (fits) {
        copy_rows(m.order.len == 0, row_starts, begins, m.values, copied);
    }
    barrier();
    const i64 its_row = thread_index() < count ? m.row(first * (K * CHUNK_LANES) + thread_index()) : m.rows;
    if (its_row < m.rows) {
        if (fits) {
            whole(its_row, begins[thread_index()], begins[thread_index() + 1], copied);
        } else {
            whole(its_row, m.offsets[its_row], m.offsets[its_row + 1], m.values);
        }
    }
    const int parts = BLOCK / CHUNK_LANES / of_tile, group = thread_index() / CHUNK_LANES, s = group % of_tile, part = group / of_tile;
    if (part >= parts || first + s >= m.chunks) {
        return;
    }
    const i64 start = m.starts[first + s];
    const SlotRange range = slots_of_part(start, m.starts[first + s + 1], part, parts);
    i64 row[K];
    UNROLL
    for (int k = 0; k < K; ++k) {
        row[k] = m.row((first + s) * (K * CHUNK_LANES) + k * CHUNK_LANES + Group<CHUNK_LANES>::rank());
    }
    if (fits) {
        i32 at[K];
        UNROLL
        for (int k = 0; k < K; ++k) {
            at[k] = begins[(s * K + k) * CHUNK_LANES + Group<CHUNK_LANES>::rank()];
        }
        skip_slots<K>(at, start, range.first, m.occupied);
        work(row, at, copied, range);
    } else {
        i64 at[K];
        UNROLL
        for (int k = 0; k < K; ++k) {
            at[k] = row[k] < m.rows ? m.offsets[row[k]] : 0;
        }
        skip_slots<K>(at, start, range.first, m.occupied);
        work(row, at, m.values, range);
    }
}

// All chunks; `number` is the number of chunks of a tile, or 0 without tiles.
template <int K, class T, bool TILES, class Work> DEVICE void update_values(const Updated<T> &m, int number, const Work &work) {
    if constexpr (TILES) {
        each_chunk_of_tiles<K>(m, number, [](i64, i64, i64, const auto &) {}, work);
    } else {
        each_chunk<K>(m, work);
    }
}

// Values, copied bitwise; V has their size.
#define UPDATE_VALUES(K, V, NAME, TILES) \
    KERNEL(sell_update_##NAME##_##K##_##V, i64 chunks, i64 rows, i32 number, In<i64> offsets, In<V> values, In<i32> order, In<i64> starts, \
           In<u32> occupied, Out<V> to) { \
        const Updated<V> m{chunks, rows, offsets, values, order, starts, occupied}; \
        update_values<K, V, TILES>(m, number, [&](const i64 *, auto *at, const auto &from, const SlotRange &range) { \
            Store<K, V> sink{to}; \
            update_chunk<K, V>(at, range.first, range.last, m.occupied, from, sink); \
        }); \
    }
#define UPDATE_VALUES_BOTH(K, V) UPDATE_VALUES(K, V, slots, false) UPDATE_VALUES(K, V, tiles, true)
#define UPDATE_VALUES_OF(K) UPDATE_VALUES_BOTH(K, u64) UPDATE_VALUES_BOTH(K, u32) UPDATE_VALUES_BOTH(K, u16)
UPDATE_VALUES_OF(1)
UPDATE_VALUES_OF(2)
// Four rows at a time in formats of 16 bits alone.
UPDATE_VALUES_BOTH(4, u16)

// Values, and the inverse of the l1 diagonal as in diagonal_setup.cu; `diagonal` is the position of the diagonal in each row, or -1.
template <class T> DEVICE T inverse_of_l1(T own, f64 norm) {
    const f64 d = to_f64(own);
    return As<T>::of(inverse_or_zero(d + with_sign(norm, d)));
}
template <int K, class T, bool TILES>
DEVICE void update_with_l1(const Updated<T> &m, int number, const Out<T> &to, const In<i32> &diagonal, const Out<T> &inverse) {
    if constexpr (TILES) {
        const auto whole = [&](i64 row, i64 begin, i64 end, const auto &from) {
            const i32 position = diagonal[row];
            const i64 its_own = position < 0 ? -1 : begin + position;
            f64 norm = 0.0;
            for (i64 k = begin; k < end; ++k) {
                norm += k == its_own ? 0.0 : magnitude(to_f64(from[k]));
            }
            inverse[row] = inverse_of_l1(its_own < 0 ? T(0) : T(from[its_own]), norm);
        };
        each_chunk_of_tiles<K>(m, number, whole, [&](const i64 *, auto *at, const auto &from, const SlotRange &range) {
            Store<K, T> sink{to};
            update_chunk<K, T>(at, range.first, range.last, m.occupied, from, sink);
        });
    } else {
        each_chunk<K>(m, [&](const i64 *row, i64 *at, const auto &from, const SlotRange &range) {
            StoreAndSum<K, T, i64> sink{to, {}, {}, {}};
            UNROLL
            for (int k = 0; k < K; ++k) {
                const i32 position = row[k] < m.rows ? diagonal[row[k]] : -1;
                sink.diagonal[k] = position < 0 ? -1 : at[k] + position;
            }
            update_chunk<K, T>(at, range.first, range.last, m.occupied, from, sink);
            UNROLL
            for (int k = 0; k < K; ++k) {
                if (row[k] < m.rows) {
                    inverse[row[k]] = inverse_of_l1(sink.own[k], sink.norm[k]);
                }
            }
        });
    }
}
#define UPDATE_WITH_L1(K, T, NAME, TILES) \
    KERNEL(sell_update_l1_##NAME##_##K##_##T, i64 chunks, i64 rows, i32 number, In<i64> offsets, In<T> values, In<i32> order, In<i64> starts, \
           In<u32> occupied, Out<T> to, In<i32> diagonal, Out<T> inverse) { \
        const Updated<T> m{chunks, rows, offsets, values, order, starts, occupied}; \
        update_with_l1<K, T, TILES>(m, number, to, diagonal, inverse); \
    }
#define UPDATE_WITH_L1_BOTH(K, T) UPDATE_WITH_L1(K, T, slots, false) UPDATE_WITH_L1(K, T, tiles, true)
#define UPDATE_WITH_L1_OF(T) UPDATE_WITH_L1_BOTH(1, T) UPDATE_WITH_L1_BOTH(2, T)
FOR_SETUP(UPDATE_WITH_L1_OF)

// Values in f16, and a flag if one of them is not exact.
#define UPDATE_F16(K, T, NAME, TILES) \
    KERNEL(sell_update_f16_##NAME##_##K##_##T, i64 chunks, i64 rows, i32 number, In<i64> offsets, In<T> values, In<i32> order, In<i64> starts, \
           In<u32> occupied, Out<f16> to, Out<i32> flag) { \
        const Updated<T> m{chunks, rows, offsets, values, order, starts, occupied}; \
        update_values<K, T, TILES>(m, number, [&](const i64 *, auto *at, const auto &from, const SlotRange &range) { \
            StoreF16<K, T> sink{to, false}; \
            update_chunk<K, T>(at, range.first, range.last, m.occupied, from, sink); \
            if (sink.is_wrong) { \
                flag[0] = 1; \
            } \
        }); \
    }
#define UPDATE_F16_BOTH(K, T) UPDATE_F16(K, T, slots, false) UPDATE_F16(K, T, tiles, true)
#define UPDATE_F16_OF(T) UPDATE_F16_BOTH(1, T) UPDATE_F16_BOTH(2, T) UPDATE_F16_BOTH(4, T)
FOR_SETUP(UPDATE_F16_OF)

// The position of the diagonal in each row, or -1; eight lanes for a row.
KERNEL(diagonal_positions, i64 rows, In<i64> offsets, In<i32> columns, Out<i32> positions) {
    using Lanes = Group<8>;
    const i64 row = global_index() / 8;
    if (row >= rows) {
        return;
    }
    const i64 begin = offsets[row], end = offsets[row + 1];
    i64 at = -1;
    for (i64 base = begin; base < end && at < 0; base += 8) {
        const u64 hit = Lanes::ballot(base + Lanes::rank() < end && columns[base + Lanes::rank()] == row);
        at = hit != 0 ? base - begin + lowest_bit(hit) : -1;
    }
    if (Lanes::rank() == 0) {
        positions[row] = static_cast<i32>(at);
    }
}

// Blocks of `width` values; `parts` groups of lanes share a chunk. They stage STAGED_VALUES values of each block in shared memory with
// coalesced loads.
constexpr int STAGED_VALUES = 9;
template <int K, class V>
DEVICE void update_blocks(i64 chunks, i64 rows, i32 width, i32 parts, const In<i64> &offsets, const In<V> &values, const In<i32> &order,
                          const In<i64> &starts, const In<u32> &occupied, const Out<V> &to) {
    using Lanes = Group<CHUNK_LANES>;
    constexpr int STAGE = STAGED_VALUES * CHUNK_LANES;
    SHARED(V, stage, BLOCK / CHUNK_LANES * STAGE);
    const int lane = Lanes::rank(), own = thread_index() / CHUNK_LANES * STAGE;
    for (i64 task = global_index() / CHUNK_LANES; task < chunks * parts; task += block_count() * (BLOCK / CHUNK_LANES)) {
        const i64 chunk = task / parts, start = starts[chunk];
        const SlotRange range = slots_of_part(start, starts[chunk + 1], static_cast<int>(task - chunk * parts), parts);
        i64 at[K];
        UNROLL
        for (int k = 0; k < K; ++k) {
            const i64 position = chunk * (K * CHUNK_LANES) + k * CHUNK_LANES + lane;
            const i64 row = order.len > 0 && position < rows ? order[position] : position;
            at[k] = row < rows ? offsets[row] : 0;
        }
        skip_slots<K>(at, start, range.first, occupied);
        for (i64 slot = range.first; slot < range.last; ++slot) {
            UNROLL
            for (int k = 0; k < K; ++k) {
                const u32 word = occupied[slot * K + k];
                for (int q = 0; q < width; q += STAGED_VALUES) {
                    V v[STAGED_VALUES];
                    UNROLL
                    for (int p = 0; p < STAGED_VALUES; ++p) {
                        const int e = p * CHUNK_LANES + lane, which = e / STAGED_VALUES, number = q + e % STAGED_VALUES;
                        const i64 entry = Lanes::shuffle(at[k], which);
                        v[p] = (word >> which & 1) != 0 && number < width ? values[entry * width + number] : V(0);
                    }
                    UNROLL
                    for (int p = 0; p < STAGED_VALUES; ++p) {
                        stage[own + p * CHUNK_LANES + lane] = v[p];
                    }
                    Lanes::barrier();
                    UNROLL
                    for (int p = 0; p < STAGED_VALUES; ++p) {
                        if (q + p < width) {
                            to[(slot * width + q + p) * (K * CHUNK_LANES) + k * CHUNK_LANES + lane] = stage[own + lane * STAGED_VALUES + p];
                        }
                    }
                    Lanes::barrier();
                }
                at[k] += (word >> lane & 1) != 0 ? 1 : 0;
            }
        }
    }
}
#define UPDATE_BLOCKS(K, V) \
    KERNEL(sell_update_blocks_##K##_##V, i64 chunks, i64 rows, i32 width, i32 parts, In<i64> offsets, In<V> values, In<i32> order, In<i64> starts, \
           In<u32> occupied, Out<V> to) { \
        update_blocks<K, V>(chunks, rows, width, parts, offsets, values, order, starts, occupied, to); \
    }
UPDATE_BLOCKS(1, u64)
UPDATE_BLOCKS(1, u32)
UPDATE_BLOCKS(2, u16)
