// Values of a product C = A B of scalars, where it is known to which sum each term is added: nothing is looked up, and columns of B and C are not
// read. As `Chunks` in src/host/terms.rs: rows of B are in chunks of four entries, the last one of a row filled up, and a word for each a_ik and each
// chunk of row k of B has the places of the four sums in row i of C, a byte each.
//
// A team of L lanes has a row of C, and its sums in shared memory. Entries a_ik come one after the other, so that sums are added in the order of the
// host; the terms of a chunk are of different sums.
#include "terms.h"

// The factors. Row k of B begins with chunk chunks[k], or with chunk k where there are no such numbers, because every row is one chunk. The words of
// row i begin at begins[i], or where the row of A begins.
template <class T> struct Terms {
    In<i64> offsets;
    In<i32> columns;
    In<T> left;
    In<i32> chunks;
    Out<T> right;
    In<i64> begins;
    In<u32> words;
};

// Where rows of C go: they begin at offsets[i], or with chunk chunks[i], and are then filled up with zeros. With `fill` a zero on the diagonal
// becomes a one; only then are there columns.
template <class T> struct Renewed {
    In<i64> offsets;
    In<i32> chunks;
    In<i32> columns;
    Out<T> values;
    bool fill;
    DEVICE i64 begin(i64 row) const { return chunks.len > 0 ? static_cast<i64>(chunks[row]) * CHUNK : offsets[row]; }
};

// COUNT neighbours.
template <int COUNT, class T> DEVICE void load_neighbours(const Out<T> &from, i64 at, T *to) {
    constexpr int AT_ONCE = 16 / sizeof(T) < COUNT ? 16 / sizeof(T) : COUNT;
    UNROLL
    for (int e = 0; e < COUNT; e += AT_ONCE) {
        const Pack<T, AT_ONCE> pack = from.template pack<AT_ONCE>(at + e);
        UNROLL
        for (int n = 0; n < AT_ONCE; ++n) {
            to[e + n] = pack.of[n];
        }
    }
}

// Sums of a team: sum s is of lane s % L, and lanes never meet in a bank, nor do teams of a warp.
template <int L> DEVICE int sum_of(u32 place) {
    return static_cast<int>(place) / L * BLOCK + (thread_index() & ~(L - 1)) + static_cast<int>(place) % L;
}

// Adds x b for COUNT terms of a chunk, from its entry `first` on.
template <int L, int COUNT, class T, class Sums> DEVICE void add_terms(Sums &sums, u32 word, int first, T x, const T *b) {
    T sum[COUNT];
    UNROLL
    for (int e = 0; e < COUNT; ++e) {
        const u32 place = word >> 8 * (first + e) & 255;
        sum[e] = place != NOWHERE ? sums[sum_of<L>(place)] : T(0);
    }
    UNROLL
    for (int e = 0; e < COUNT; ++e) {
        const u32 place = word >> 8 * (first + e) & 255;
        if (place != NOWHERE) {
            sums[sum_of<L>(place)] = sum[e] + times(x, b[e]);
        }
    }
}

// Every row of B is one chunk, whose entries are shared by the lanes of the team.
template <int L, class T, class Sums> DEVICE void add_single_chunks(const Terms<T> &f, bool is_row, i64 row, Sums &sums) {
    constexpr int COUNT = L < CHUNK ? CHUNK / L : 1;
    const i64 end = is_row ? f.offsets[row + 1] : 0;
    const int first = Tile<L>::rank() * COUNT;
    const bool works = L <= CHUNK || first < CHUNK;
    struct Entry {
        i32 column;
        u32 word;
        T x;
    };
    const auto entry = [&](i64 k) { return works && k < end ? Entry{f.columns[k], f.words[k], f.left[k]} : Entry{0, NONE_OF_FOUR, T(0)}; };
    const auto load = [&](i64 k, const Entry &entry, T *b) {
        if (works && k < end) {
            load_neighbours<COUNT>(f.right, static_cast<i64>(entry.column) * CHUNK + first, b);
        }
    };
    i64 k = is_row ? f.offsets[row] : 0;
    Entry now = entry(k), next = entry(k + 1);
    T b[COUNT] = {}, ahead[COUNT] = {};
    load(k, now, b);
    for (; Tile<L>::any(k < end); ++k) {
        const Entry later = entry(k + 2);
        load(k + 1, next, ahead);
        add_terms<L, COUNT>(sums, now.word, first, now.x, b);
        if constexpr (L > 1) {
            Tile<L>::barrier();
        }
        now = next;
        next = later;
        UNROLL
        for (int e = 0; e < COUNT; ++e) {
            b[e] = ahead[e];
        }
    }
}

// Rows of B are any number of chunks, of which each lane has one at a time.
template <int L, class T, class Sums> DEVICE void add_chunks(const Terms<T> &f, bool is_row, i64 row, Sums &sums) {
    const int lane = Tile<L>::rank();
    const i64 end = is_row ? f.offsets[row + 1] : 0;
    i64 group = is_row ? f.offsets[row] : 0;
    i64 word = !is_row ? 0 : f.begins.len > 0 ? f.begins[row] : group;
    // L entries of A, one for each lane, and the L after them.
    struct Entry {
        i32 begin;
        i32 count;
        T x;
    };
    const auto entry = [&](i64 k) {
        if (k >= end) {
            return Entry{0, 0, T(0)};
        }
        const i64 column = f.columns[k];
        const i32 begin = f.chunks[column];
        return Entry{begin, f.chunks[column + 1] - begin, f.left[k]};
    };
    Entry entries = entry(group + lane), next_entries = entry(group + L + lane);
    int of = 0, q = lane;
    struct Step {
        bool is_one;
        u32 word;
        T x;
        T b[CHUNK];
    };
    const auto load = [&](Step &step) {
        const i32 begin = Tile<L>::shuffle(entries.begin, of), count = Tile<L>::shuffle(entries.count, of);
        step.x = Tile<L>::shuffle(entries.x, of);
        step.word = NONE_OF_FOUR;
        step.is_one = group + of < end;
        if (step.is_one) {
            if (q < count) {
                step.word = f.words[word + q];
                load_neighbours<CHUNK>(f.right, static_cast<i64>(begin + q) * CHUNK, step.b);
            }
            q += L;
            if (q - lane >= count) {
                word += count;
                q = lane;
                ++of;
            }
            if (of == L) {
                of = 0;
                group += L;
                entries = next_entries;
                next_entries = entry(group + L + lane);
            }
        }
    };
    Step now{}, next{};
    load(now);
    while (Tile<L>::any(now.is_one)) {
        load(next);
        add_terms<L, CHUNK>(sums, now.word, 0, now.x, now.b);
        if constexpr (L > 1) {
            Tile<L>::barrier();
        }
        now = next;
    }
}

// Rows of at most LANE_SUMS * L entries; others are left as they are.
template <int L, bool SINGLE, class T> DEVICE void terms_rows(i64 count, const In<i32> &list, const Terms<T> &f, const Renewed<T> &to) {
    SHARED(T, sums, BLOCK *LANE_SUMS);
    const i64 at = global_index() / L;
    const bool is_there = at < count;
    const i64 row = !is_there ? 0 : list.len > 0 ? list[at] : at;
    const i64 start = is_there ? to.begin(row) : 0;
    const i64 length = is_there ? to.begin(row + 1) - start : 0;
    const bool is_row = is_there && length <= LANE_SUMS * L;
    const int lane = Tile<L>::rank();
    for (int e = lane; is_row && e < length; e += L) {
        sums[e / L * BLOCK + thread_index()] = 0;
    }
    if constexpr (L > 1) {
        Tile<L>::barrier();
    }
    if constexpr (SINGLE) {
        add_single_chunks<L>(f, is_row, row, sums);
    } else {
        add_chunks<L>(f, is_row, row, sums);
    }
    for (int e = lane; is_row && e < length; e += L) {
        const T v = sums[e / L * BLOCK + thread_index()];
        to.values[start + e] = to.fill && v == T(0) && to.columns[start + e] == row ? T(1) : v;
    }
}

#define TERMS_ROWS(L, NAME, SINGLE, T) \
    KERNEL_OF(4, terms_##NAME##_##L##_##T, i64 count, In<i32> list, In<i64> offsets, In<i32> columns, In<T> left, In<i32> chunks, Out<T> right, \
              In<i64> begins, In<u32> words, In<i64> to_offsets, In<i32> to_chunks, In<i32> to_columns, Out<T> values, i32 fill) { \
        terms_rows<L, SINGLE>(count, list, Terms<T>{offsets, columns, left, chunks, right, begins, words}, \
                              Renewed<T>{to_offsets, to_chunks, to_columns, values, fill != 0}); \
    }
#define TERMS_OF(T) \
    TERMS_ROWS(1, single, true, T) \
    TERMS_ROWS(2, single, true, T) \
    TERMS_ROWS(4, single, true, T) \
    TERMS_ROWS(8, single, true, T) \
    TERMS_ROWS(16, single, true, T) \
    TERMS_ROWS(1, chunks, false, T) \
    TERMS_ROWS(2, chunks, false, T) \
    TERMS_ROWS(4, chunks, false, T) \
    TERMS_ROWS(8, chunks, false, T) \
    TERMS_ROWS(16, chunks, false, T)
TERMS_OF(f64)
TERMS_OF(f32)

// The values of a matrix in chunks, one after the other, or where `chunks` tells.
template <class T> DEVICE void terms_chunked(i64 rows, const In<i64> &offsets, const In<T> &values, const In<i32> &chunks, const Out<T> &to) {
    const i64 row = global_index() / CHUNK;
    if (row >= rows) {
        return;
    }
    const i64 begin = offsets[row], end = offsets[row + 1];
    const i64 first = (chunks.len > 0 ? chunks[row] : row) * CHUNK, last = (chunks.len > 0 ? chunks[row + 1] : row + 1) * CHUNK;
    for (i64 e = thread_index() % CHUNK; first + e < last; e += CHUNK) {
        to[first + e] = begin + e < end ? values[begin + e] : T(0);
    }
}
#define TERMS_CHUNKED(T) \
    KERNEL(terms_chunked_##T, i64 rows, In<i64> offsets, In<T> values, In<i32> chunks, Out<T> to) { \
        terms_chunked<T>(rows, offsets, values, chunks, to); \
    }
TERMS_CHUNKED(f64)
TERMS_CHUNKED(f32)
