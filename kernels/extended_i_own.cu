// Rows of extended+i interpolation by single threads, for levels with many short rows: nothing waits for other lanes, and what neighbouring threads
// load is often in neighbouring places. Each thread has a small table; what does not fit is left to tiles (extended_i.cu), which give the same.
#include "extended_i.h"

// Entries of the longest row that a thread computes: a bit for each.
constexpr int OWN_LONGEST = 64;

// Members and weights of a thread's row. Tables of a block lie slot by slot, so that its threads never meet in a bank of shared memory.
template <class T, int SLOTS, class K, class W> struct OwnMembers {
    K keys;
    W weights;
    DEVICE i32 &key(int slot) const { return keys[slot * BLOCK + thread_index()]; }
    DEVICE T &weight(int slot) const { return weights[slot * BLOCK + thread_index()]; }
    static DEVICE int home(i32 c) {
        return static_cast<int>(static_cast<u64>(static_cast<u32>(c) * 2654435769u) * static_cast<u64>(SLOTS) >> 32);
    }
    // Whether c has a place.
    DEVICE bool insert(i32 c) const {
        int slot = home(c);
        for (int probe = 0; probe < SLOTS; ++probe) {
            const i32 there = key(slot);
            if (there == c) {
                return true;
            }
            if (there == -1) {
                key(slot) = c;
                return true;
            }
            slot = slot + 1 == SLOTS ? 0 : slot + 1;
        }
        return false;
    }
    // The slot of c, or -1.
    DEVICE int find(i32 c) const {
        int slot = home(c);
        for (int probe = 0; probe < SLOTS; ++probe) {
            const i32 there = key(slot);
            if (there == c || there == -1) {
                return there == c ? slot : -1;
            }
            slot = slot + 1 == SLOTS ? 0 : slot + 1;
        }
        return -1;
    }
};

template <class T, int SLOTS, class K, class W> DEVICE OwnMembers<T, SLOTS, K, W> own_members(K keys, W weights) {
    return OwnMembers<T, SLOTS, K, W>{keys, weights};
}

// `Quarters` of one thread, which adds all terms.
template <class T> struct OwnQuarters {
    T part[4] = {0, 0, 0, 0};
    // Term number `at`, of a few.
    DEVICE void add_at(int at, T v) {
        UNROLL
        for (int k = 0; k < 4; ++k) {
            part[k] += at % 4 == k ? v : 0;
        }
    }
    // The next term of all. The parts go round: their sum is the same wherever the first one stands.
    DEVICE void add(T v) {
        const T next = part[0] + v;
        part[0] = part[1];
        part[1] = part[2];
        part[2] = part[3];
        part[3] = next;
    }
    DEVICE T sum() const { return (part[0] + part[2]) + (part[1] + part[3]); }
};

// Which entries of a row are couplings to F_i, and which have coarse columns.
struct OwnKinds {
    u64 fine;
    u64 coarse;
};

// Puts Ĉ_i, or C_i, into the table; whether it fits. `found` tells whether there is any.
template <int R, class T, class M>
DEVICE bool own_members_of(const ExtendedI<T> &e, i64 begin, int length, const M &m, OwnKinds &kinds, bool &found) {
    const Couplings<T> &near = e.couplings;
    kinds = OwnKinds{0, 0};
    u64 first = 0;
    for (int place = 0; place < length; ++place) {
        const u8 kind = e.kinds[begin + place];
        kinds.fine |= static_cast<u64>(kind == ENTRY_STRONG) << place;
        kinds.coarse |= static_cast<u64>((kind & ENTRY_COARSE) != 0) << place;
        first |= static_cast<u64>(kind == (ENTRY_STRONG | ENTRY_COARSE)) << place;
    }
    bool fits = true;
    found = first != 0;
    for (; first != 0; first &= first - 1) {
        fits = m.insert(e.a.number[e.a.columns[begin + lowest_bit(first)]]) && fits;
    }
    for (u64 fine = e.extended ? kinds.fine : 0; fine != 0 && fits; fine &= fine - 1) {
        const i32 k = e.a.columns[begin + lowest_bit(fine)];
        Near<R> its;
        its.load(near.near_columns, k);
        UNROLL
        for (int t = 0; t < R; ++t) {
            if (its.columns[t] >= 0) {
                fits = m.insert(its.columns[t]) && fits;
                found = true;
            }
        }
        if (its.columns[R - 1] != COUPLING_NONE) {
            const int count = near.reach[k] >> 1;
            const i64 from = e.a.offsets[k];
            for (int t = R; t < count; ++t) {
                const i32 c = near.columns[from + t];
                if (c >= 0) {
                    fits = m.insert(c) && fits;
                    found = true;
                }
            }
        }
    }
    return fits;
}

// Spreads a_ik over Ĉ_i and i; what falls to i, and to Ĉ_i.
template <int R, class T, class M>
DEVICE void own_spread(const ExtendedI<T> &e, i64 i, i64 begin, int place, const M &m, OwnQuarters<T> &diagonal, OwnQuarters<T> &total) {
    const Couplings<T> &near = e.couplings;
    const i64 k = e.a.columns[begin + place];
    const T a_ik = e.a.values[begin + place];
    const i32 reach = near.reach[k];
    const i64 from = e.a.offsets[k];
    const int count = reach >> 1;
    Near<R> its;
    T values[R];
    its.load(near.near_columns, k);
    load_near<R>(near.near_values, k, values);
    const T back = e.extended ? e.back(from, e.a.offsets[k + 1], (reach & 1) != 0, static_cast<i32>(i), place) : 0;
    T part[4] = {0, 0, 0, 0};
    UNROLL
    for (int t = 0; t < R; ++t) {
        const i32 c = its.columns[t];
        const int slot = c == COUPLING_NONE ? -1 : m.find(coupling_number(c));
        its.columns[t] = slot;
        part[t % 4] += slot >= 0 ? values[t] : 0;
    }
    for (int t = R; t < count; t += 4) {
        UNROLL
        for (int s = 0; s < 4; ++s) {
            if (t + s < count && m.find(coupling_number(near.columns[from + t + s])) >= 0) {
                part[s] += near.values[from + t + s];
            }
        }
    }
    const T others = (part[0] + part[2]) + (part[1] + part[3]), sum = others + back;
    if (sum == 0) {
        diagonal.add(a_ik);
        total.add(0);
        return;
    }
    const T share = a_ik / sum;
    diagonal.add(times(share, back));
    total.add(times(share, others));
    UNROLL
    for (int t = 0; t < R; ++t) {
        if (its.columns[t] >= 0) {
            m.weight(its.columns[t]) += times(share, values[t]);
        }
    }
    for (int t = R; t < count; ++t) {
        const int slot = m.find(coupling_number(near.columns[from + t]));
        if (slot >= 0) {
            m.weight(slot) += times(share, near.values[from + t]);
        }
    }
}

// The largest weights, written where there is room for `most`.
template <int SLOTS, class T, class M> DEVICE void own_write(const M &m, i64 row, T scale, T total, const Target<T> &p) {
    int n = 0;
    for (int slot = 0; slot < SLOTS; ++slot) {
        const i32 c = m.key(slot);
        const T w = c >= 0 ? m.weight(slot) * scale : 0;
        if (w != 0) {
            m.key(n) = c;
            m.weight(n) = w;
            ++n;
        }
    }
    T bound = 0;
    int kept = 0;
    for (; kept < n && kept < p.most; ++kept) {
        T size = -1;
        i32 column = 0;
        int at = 0;
        for (int e = kept; e < n; ++e) {
            const T other = size_of(m.weight(e));
            const i32 c = m.key(e);
            if (other > size || (other == size && c < column)) {
                size = other;
                column = c;
                at = e;
            }
        }
        bound = kept == 0 ? times(p.factor, size) : bound;
        if (!(size >= bound)) {
            break;
        }
        const T w = m.weight(at);
        m.weight(at) = m.weight(kept);
        m.key(at) = m.key(kept);
        // Those that were picked before stand in the order of columns.
        int to = kept;
        for (; to > 0 && m.key(to - 1) > column; --to) {
            m.key(to) = m.key(to - 1);
            m.weight(to) = m.weight(to - 1);
        }
        m.key(to) = column;
        m.weight(to) = w;
    }
    T rescaled = 1;
    if (kept < n) {
        T sum = 0;
        for (int e = 0; e < kept; ++e) {
            sum += m.weight(e);
        }
        rescaled = row_scale(sum, total);
    }
    const i64 start = p.start(row);
    for (int e = 0; e < kept; ++e) {
        p.columns[start + e] = m.key(e);
        p.values[start + e] = m.weight(e) * rescaled;
    }
    p.counts[row] = kept;
}

// The weights of the columns that the row has in a pattern.
template <int SLOTS, class T, class M> DEVICE void own_pattern(const M &m, i64 row, T scale, T total, const Target<T> &p) {
    const i64 start = p.start(row), end = p.offsets[row + 1];
    int left = 0;
    for (int slot = 0; slot < SLOTS; ++slot) {
        left += m.key(slot) >= 0 && m.weight(slot) * scale != 0;
    }
    T sum = 0;
    for (i64 e = start; e < end; ++e) {
        const int slot = m.find(p.columns[e]);
        const T w = slot < 0 ? 0 : m.weight(slot) * scale;
        left -= w != 0;
        sum += w;
        p.values[e] = w;
    }
    if (left > 0) {
        const T rescaled = row_scale(sum, total);
        for (i64 e = start; e < end; ++e) {
            p.values[e] = p.values[e] * rescaled;
        }
    }
}

template <class T, int SLOTS, int R>
DEVICE void extended_i_own(i64 rows, const ExtendedI<T> &e, const In<i32> &only, const Target<T> &p, const Out<i32> &more, const Out<i32> &left) {
    SHARED(i32, keys, SLOTS * BLOCK);
    SHARED(T, weights, SLOTS * BLOCK);
    const auto m = own_members<T, SLOTS>(keys, weights);
    const i64 row = global_index();
    if (row >= rows) {
        return;
    }
    const i64 i = only.len > 0 ? only[row] : row;
    const i32 number = e.a.number[i];
    if (number >= 0) {
        p.identity(row, number);
        return;
    }
    const i64 begin = e.a.offsets[i];
    const i64 length = e.a.offsets[i + 1] - begin;
    for (int slot = 0; slot < SLOTS; ++slot) {
        m.key(slot) = -1;
        m.weight(slot) = 0;
    }
    OwnKinds kinds;
    bool found;
    if (length > OWN_LONGEST || !own_members_of<R>(e, begin, static_cast<int>(length), m, kinds, found)) {
        more[atomic_add(left[LEFT_FIRST], 1)] = static_cast<i32>(row);
        return;
    }
    // What the row has itself: couplings to members are weights, other ones that are weak join the diagonal.
    OwnQuarters<T> diagonal, total;
    const u64 all = length < OWN_LONGEST ? (1ull << length) - 1 : ~0ull;
    for (u64 rest = found ? all & ~kinds.fine : 0; rest != 0; rest &= rest - 1) {
        const int place = lowest_bit(rest);
        const T value = e.a.values[begin + place];
        const int slot = (kinds.coarse >> place & 1) != 0 ? m.find(e.a.number[e.a.columns[begin + place]]) : -1;
        if (slot >= 0) {
            m.weight(slot) = value;
            total.add_at(place, value);
        } else {
            diagonal.add_at(place, value);
        }
    }
    for (u64 fine = found ? kinds.fine : 0; fine != 0; fine &= fine - 1) {
        own_spread<R>(e, i, begin, lowest_bit(fine), m, diagonal, total);
    }
    const T pivot = diagonal.sum(), scale = pivot == 0 ? 0 : -1 / pivot, sum = total.sum() * scale;
    if (p.mode == ROW_PATTERN) {
        own_pattern<SLOTS>(m, row, scale, sum, p);
    } else {
        own_write<SLOTS>(m, row, scale, sum, p);
    }
}

#define EXTENDED_I_OWN(T, R) \
    KERNEL_OF(R == 4 ? 4 : 3, extended_i_own_##T##_##R, i64 rows, i32 how, i32 most, f64 factor, EXTENDED_I_LEVEL(T), Out<i32> more, \
              Out<i32> left) { \
        extended_i_own<T, 16, R>(rows, EXTENDED_I_OF(T), only, EXTENDED_I_TO(T), more, left); \
    }
EXTENDED_I_OWN(f64, 4)
EXTENDED_I_OWN(f64, 8)
EXTENDED_I_OWN(f32, 4)
EXTENDED_I_OWN(f32, 8)
