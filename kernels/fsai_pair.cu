// The two FSAI factors of a matrix that is not symmetric, on a given pattern; see src/host/fsai/pair.rs. 32 lanes compute a row,
// and go on with a later one. Each sum is added up in the order of the host.
#include "fsai_place.h"
#include "fsai_system.h"

// The system of a row: L and U of A on the pattern, which grow by a row and a column, with y, z, g and h of the host.
template <class T> struct FsaiPairSystem {
    Out<T> l;
    Out<T> u;
    Out<T> y;
    Out<T> z;
    Out<T> g;
    Out<T> h;
    T smallest;
    T psi;
    int count;

    static DEVICE i64 begin_of(int row) { return static_cast<i64>(row) * (row + 1) / 2; }

    static DEVICE bool is_large(T v, T own, T smallest) { return magnitude_of(v) > times(smallest, magnitude_of(own)) && fsai_is_finite(v); }
    static DEVICE T magnitude_of(T v) { return v < 0 ? -v : v; }

    // Zeros for the couplings of the next column.
    DEVICE void begin_row() const {
        const i64 row = begin_of(count);
        ROLLED
        for (int t = Lanes::rank(); t < count; t += FSAI_LANES) {
            l[row + t] = 0;
            u[row + t] = 0;
        }
        Lanes::barrier();
    }

    // Appends a column whose couplings with the pattern are there. False where there is no pivot.
    DEVICE bool append(T own, T a_ik, T a_ki) {
        const i64 row = begin_of(count);
        T pivot = own, next_y = -a_ki, next_z = -a_ik;
        ROLLED
        for (int t = 0; t < count; ++t) {
            Lanes::barrier();
            const i64 of_t = begin_of(t);
            const T left = l[row + t] / u[of_t + t], right = u[row + t];
            pivot -= times(left, right);
            next_y -= times(left, y[t]);
            next_z -= times(z[t], right);
            Lanes::barrier();
            if (Lanes::rank() == 0) {
                l[row + t] = left;
            }
            ROLLED
            for (int s = t + 1 + Lanes::rank(); s < count; s += FSAI_LANES) {
                const i64 of_s = begin_of(s);
                l[row + s] -= times(left, u[of_s + t]);
                u[row + s] -= times(l[of_s + t], right);
            }
        }
        if (!is_large(pivot, own, smallest)) {
            return false;
        }
        const T of_z = next_z / pivot;
        Lanes::barrier();
        if (Lanes::rank() == 0) {
            l[row + count] = 1;
            u[row + count] = pivot;
            y[count] = next_y;
            z[count] = of_z;
        }
        psi -= times(of_z, next_y);
        ++count;
        Lanes::barrier();
        return true;
    }

    // Solves for g and h.
    DEVICE void solve() const {
        ROLLED
        for (int t = Lanes::rank(); t < count; t += FSAI_LANES) {
            h[t] = y[t];
            g[t] = z[t];
        }
        ROLLED
        for (int t = count - 1; t >= 0; --t) {
            Lanes::barrier();
            const i64 row = begin_of(t);
            const T of_h = h[t] / u[row + t], of_g = g[t];
            Lanes::barrier();
            if (Lanes::rank() == 0) {
                h[t] = of_h;
            }
            ROLLED
            for (int s = Lanes::rank(); s < t; s += FSAI_LANES) {
                h[s] -= times(u[row + s], of_h);
                g[s] -= times(l[row + s], of_g);
            }
        }
        Lanes::barrier();
    }
};

// The couplings of a row of A with the columns of the pattern below `limit`, of which there are `count`.
template <class T>
DEVICE void fsai_gather(i64 row, i64 limit, i64 begin, int count, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                        const In<i32> &pattern, const Out<T> &to) {
    ROLLED
    for (i64 e = offsets[row] + Lanes::rank(); e < offsets[row + 1]; e += FSAI_LANES) {
        const int t = columns[e] < limit ? fsai_place(columns[e], begin, count, pattern) : -1;
        if (t >= 0) {
            to[t] = values[e];
        }
    }
}

// Values of both factors on a pattern whose rows have at most `capacity` entries beside the diagonal, their last. `work` has
// capacity (capacity + 1) + 6 capacity numbers for each of `groups` teams of lanes.
template <class T>
DEVICE void fsai_pair(i64 rows, int groups, int capacity, f64 smallest, const In<i64> &offsets, const In<i32> &columns,
                      const In<T> &values, const In<i64> &offsets_t, const In<i32> &columns_t, const In<T> &values_t,
                      const In<f64> &diagonals, const In<i64> &pattern_offsets, const In<i32> &pattern, const Out<T> &work,
                      const Out<T> &to_g, const Out<T> &to_h, const Out<i32> &breakdowns) {
    const i64 group = global_index() / FSAI_LANES;
    if (group >= groups) {
        return;
    }
    const i64 triangle = static_cast<i64>(capacity) * (capacity + 1) / 2;
    T *const own = work.data + group * (2 * triangle + 6 * static_cast<i64>(capacity));
    T *const lists = own + 2 * triangle;
    const Out<T> a_i{lists, capacity}, a_of_i{lists + capacity, capacity};
    ROLLED
    for (i64 i = group; i < rows; i += groups) {
        const i64 begin = pattern_offsets[i];
        const int count = static_cast<int>(pattern_offsets[i + 1] - begin) - 1;
        const T diagonal = As<T>::of(diagonals[i]), least = As<T>::of(smallest);
        FsaiPairSystem<T> system{Out<T>{own, triangle}, Out<T>{own + triangle, triangle}, Out<T>{lists + 2 * capacity, capacity},
                                 Out<T>{lists + 3 * capacity, capacity}, Out<T>{lists + 4 * capacity, capacity},
                                 Out<T>{lists + 5 * capacity, capacity}, least, diagonal, 0};
        bool is_complete = diagonal != 0 && fsai_is_finite(diagonal);
        ROLLED
        for (int t = Lanes::rank(); t < count; t += FSAI_LANES) {
            a_i[t] = 0;
            a_of_i[t] = 0;
        }
        Lanes::barrier();
        fsai_gather(i, i, begin, count, offsets, columns, values, pattern, a_i);
        fsai_gather(i, i, begin, count, offsets_t, columns_t, values_t, pattern, a_of_i);
        Lanes::barrier();
        ROLLED
        for (int t = 0; is_complete && t < count; ++t) {
            const i32 k = pattern[begin + t];
            system.begin_row();
            const i64 row = FsaiPairSystem<T>::begin_of(t);
            fsai_gather(k, k, begin, t, offsets, columns, values, pattern, Out<T>{own + row, t});
            fsai_gather(k, k, begin, t, offsets_t, columns_t, values_t, pattern, Out<T>{own + triangle + row, t});
            is_complete = system.append(As<T>::of(diagonals[k]), a_i[t], a_of_i[t]);
        }
        is_complete = is_complete && FsaiPairSystem<T>::is_large(system.psi, diagonal, least);
        if (is_complete) {
            system.solve();
        } else if (Lanes::rank() == 0) {
            atomic_add(breakdowns[0], 1);
        }
        const T psi = is_complete ? system.psi : diagonal;
        const bool is_usable = psi != 0 && fsai_is_finite(psi);
        const T scale = is_usable ? 1 / fsai_root(FsaiPairSystem<T>::magnitude_of(psi)) : T(0), scale_h = psi < 0 ? -scale : scale;
        ROLLED
        for (int t = Lanes::rank(); t < count; t += FSAI_LANES) {
            to_g[begin + t] = is_complete ? times(system.g[t], scale) : T(0);
            to_h[begin + t] = is_complete ? times(system.h[t], scale_h) : T(0);
        }
        if (Lanes::rank() == 0) {
            to_g[begin + count] = scale;
            to_h[begin + count] = scale_h;
        }
        Lanes::barrier();
    }
}

#define FSAI_PAIR(T) \
    KERNEL(fsai_pair_##T, i64 rows, i32 groups, i32 capacity, f64 smallest, In<i64> offsets, In<i32> columns, In<T> values, \
           In<i64> offsets_t, In<i32> columns_t, In<T> values_t, In<f64> diagonals, In<i64> pattern_offsets, In<i32> pattern, \
           Out<T> work, Out<T> to_g, Out<T> to_h, Out<i32> breakdowns) { \
        fsai_pair<T>(rows, groups, capacity, smallest, offsets, columns, values, offsets_t, columns_t, values_t, diagonals, \
                     pattern_offsets, pattern, work, to_g, to_h, breakdowns); \
    }
FOR_SETUP(FSAI_PAIR)
