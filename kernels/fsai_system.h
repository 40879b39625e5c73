// The small dense system of a row of an FSAI factor; see src/host/fsai/system.rs. 32 lanes work on it, and each sum is added
// up in the order of the host.
#pragma once
#include "numbers.h"

// Larger than any column.
constexpr i32 FSAI_NO_COLUMN = 0x7fffffff;
constexpr int FSAI_LANES = 32;
using Lanes = Group<FSAI_LANES>;

template <class T> DEVICE T fsai_root(T v) { return As<T>::of(square_root(to_f64(v))); }

template <class T> DEVICE bool fsai_is_finite(T v) { return v - v == 0; }

// The candidate of a lane with the largest decrease; of equal ones that with the smallest column.
template <class T> struct FsaiBest {
    T decrease = 0;
    i32 column = FSAI_NO_COLUMN;
    int candidate = -1;

    DEVICE void offer(T of, i32 at, int c) {
        if (of > 0 && fsai_is_finite(of) && (of > decrease || (of == decrease && at < column))) {
            decrease = of;
            column = at;
            candidate = c;
        }
    }

    // That of all lanes, or -1 where no decrease is above zero.
    DEVICE int of_all() const {
        const T largest = group_max<FSAI_LANES>(decrease);
        if (!(largest > 0)) {
            return -1;
        }
        const i32 mine = decrease == largest ? column : FSAI_NO_COLUMN, smallest = Lanes::least(mine);
        return Lanes::shuffle(candidate, lowest_bit(Lanes::ballot(mine == smallest)));
    }
};

template <class T> DEVICE bool fsai_is_positive(T diagonal) { return diagonal > 0 && fsai_is_finite(diagonal); }

// The Cholesky factor L of A on the pattern, which grows by a row for each column, with y and g of the host.
template <class T> struct FsaiSystem {
    // The rows of L one behind the other, with the inverse of the diagonal.
    Out<T> l;
    Out<T> y;
    Out<T> g;
    T smallest;
    T diagonal;
    T psi;
    int count;

    static DEVICE i64 begin_of(int row) { return static_cast<i64>(row) * (row + 1) / 2; }

    // The place of the coupling of the next column with column t of the pattern.
    DEVICE T &coupling(int t) const { return l[begin_of(count) + t]; }

    // Zeros for the couplings of the next column.
    DEVICE void begin_row() const {
        const i64 row = begin_of(count);
        ROLLED
        for (int t = Lanes::rank(); t < count; t += FSAI_LANES) {
            l[row + t] = 0;
        }
        Lanes::barrier();
    }

    // Appends a column with diagonal `own` and coupling a_ki, whose couplings with the pattern are there. False, and nothing is
    // added, where A would not be positive definite.
    DEVICE bool append(T own, T of_i) {
        const i64 row = begin_of(count);
        T pivot = own, rhs = -of_i;
        ROLLED
        for (int t = 0; t < count; ++t) {
            Lanes::barrier();
            const T v = times(l[row + t], l[begin_of(t) + t]);
            pivot -= times(v, v);
            rhs -= times(v, y[t]);
            Lanes::barrier();
            if (Lanes::rank() == 0) {
                l[row + t] = v;
            }
            ROLLED
            for (int u = t + 1 + Lanes::rank(); u < count; u += FSAI_LANES) {
                l[row + u] -= times(v, l[begin_of(u) + t]);
            }
        }
        const T inverse = 1 / fsai_root(pivot), next = times(rhs, inverse), reduced = psi - times(next, next);
        if (!(pivot > times(smallest, own)) || !(reduced > times(smallest, diagonal))) {
            return false;
        }
        Lanes::barrier();
        if (Lanes::rank() == 0) {
            l[row + count] = inverse;
            y[count] = next;
        }
        psi = reduced;
        ++count;
        Lanes::barrier();
        return true;
    }

    // Solves for g.
    DEVICE void solve() const {
        ROLLED
        for (int t = Lanes::rank(); t < count; t += FSAI_LANES) {
            g[t] = y[t];
        }
        ROLLED
        for (int t = count - 1; t >= 0; --t) {
            Lanes::barrier();
            const i64 row = begin_of(t);
            const T v = times(g[t], l[row + t]);
            Lanes::barrier();
            if (Lanes::rank() == 0) {
                g[t] = v;
            }
            ROLLED
            for (int u = Lanes::rank(); u < t; u += FSAI_LANES) {
                g[u] -= times(l[row + u], v);
            }
        }
        Lanes::barrier();
    }
};

// Numbers of the workspace of a system of this many columns.
DEVICE i64 fsai_system_size(int capacity) { return static_cast<i64>(capacity) * (capacity + 1) / 2 + 2 * static_cast<i64>(capacity); }

// The system of a team of lanes in the workspace of all, still empty, for a row with this diagonal.
template <class T> DEVICE FsaiSystem<T> fsai_system(const Out<T> &work, i64 group, int capacity, f64 smallest, T diagonal) {
    const i64 triangle = static_cast<i64>(capacity) * (capacity + 1) / 2, own = group * fsai_system_size(capacity);
    return {Out<T>{work.data + own, triangle}, Out<T>{work.data + own + triangle, capacity},
            Out<T>{work.data + own + triangle + capacity, capacity}, As<T>::of(smallest), diagonal, diagonal, 0};
}
