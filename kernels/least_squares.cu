// Adaptive least-squares interpolation; see src/host/least_squares.rs. Sums have the order of the host, so the bits are the same. A thread has
// a row.
#include "numbers.h"

// As in src/backend/least_squares.rs.
constexpr u8 JOINS = 255;
constexpr f64 RIDGE = 1e-10;
constexpr int REFINEMENTS = 2;

// Most vectors of a near-null space.
constexpr int MOST = 8;

// No distance yet for fine unknowns with strong couplings.
KERNEL(least_squares_begin, i64 rows, In<i32> number, In<i64> strong_offsets, Out<u8> reach) {
    const i64 i = global_index();
    if (i < rows) {
        reach[i] = number[i] >= 0 || strong_offsets[i] == strong_offsets[i + 1] ? 0 : JOINS;
    }
}

// Walks of no steps: the coarse unknowns, but for those that joined. Runs twice: first to count, without offsets, then to write.
template <class T>
DEVICE void least_squares_starts(i64 rows, const In<i32> &number, const In<u8> &reach, const In<i64> &to_offsets, const Out<i32> &to_columns,
                                 const Out<T> &to_values, const Out<i32> &counts) {
    const i64 i = global_index();
    if (i >= rows) {
        return;
    }
    const bool is_start = number[i] >= 0 && reach[i] == 0;
    if (to_offsets.len == 0) {
        counts[i] = is_start ? 1 : 0;
    } else if (is_start) {
        to_columns[to_offsets[i]] = number[i];
        to_values[to_offsets[i]] = 1;
    }
}

// One step of the walks of rows that reach so far, by the sizes of their strong couplings; the others stay. Runs twice.
template <class T>
DEVICE void least_squares_step(i64 rows, int distance, const In<u8> &reach, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                               const In<i64> &strong_offsets, const In<i32> &strong_columns, const In<i64> &to_offsets,
                               const Out<i32> &to_columns, const Out<T> &to_values, const Out<i32> &counts) {
    const i64 i = global_index();
    if (i >= rows) {
        return;
    }
    const bool stays = reach[i] < distance;
    const i64 strong_begin = strong_offsets[i], strong_end = strong_offsets[i + 1];
    if (to_offsets.len == 0) {
        counts[i] = stays ? 1 : static_cast<i32>(strong_end - strong_begin);
        return;
    }
    const i64 begin = to_offsets[i];
    if (stays) {
        to_columns[begin] = static_cast<i32>(i);
        to_values[begin] = 1;
        return;
    }
    T total = 0;
    // The strong columns stand in the order of the matrix's row.
    i64 strong = strong_begin, to = begin;
    for (i64 k = offsets[i]; k < offsets[i + 1] && strong < strong_end; ++k) {
        const i32 j = columns[k];
        if (strong_columns[strong] == j) {
            const T v = values[k], size = v < 0 ? -v : v;
            total += size;
            to_columns[to] = j;
            to_values[to++] = size;
            ++strong;
        }
    }
    for (i64 k = begin; k < to; ++k) {
        to_values[k] = total > 0 ? to_values[k] / total : T(1);
    }
}

// The fit of a row.
template <class T> struct Fit {
    const In<f64> &vectors;
    i64 rows;
    int k;
    // The unknown of each column of the candidates.
    const In<i32> &unknowns;
    const In<i32> &columns;
    const In<T> &shares;
    i64 begin, end;
    i64 i;
    // The vector that leads, or -1.
    int lead;
    f64 multiples[MOST], largest[MOST], solution[MOST];

    DEVICE Fit(const In<f64> &vectors, i64 rows, int k, const In<i32> &unknowns, const In<i64> &offsets, const In<i32> &columns,
               const In<T> &shares, i64 i)
        : vectors(vectors), rows(rows), k(k), unknowns(unknowns), columns(columns), shares(shares), begin(offsets[i]), end(offsets[i + 1]), i(i),
          lead(-1) {
        for (int c = 0; c < k; ++c) {
            const f64 own = magnitude(of(i, c));
            f64 most = own;
            for (i64 at = begin; at < end; ++at) {
                const f64 size = magnitude(of(unknowns[columns[at]], c));
                most = size > most ? size : most;
            }
            largest[c] = most;
            if (lead < 0 && own > 0 && times(2.0, own) >= most) {
                lead = c;
            }
        }
        for (int c = 0; c < k; ++c) {
            multiples[c] = lead >= 0 && c != lead ? of(i, c) / of(i, lead) : 0;
            solution[c] = 0;
        }
        solve();
    }

    // Vector c on an unknown.
    DEVICE f64 of(i64 unknown, int c) const { return vectors[c * rows + unknown]; }

    // All vectors on a candidate, without the multiples of the leading one.
    DEVICE void row(i64 at, f64 *to) const {
        const i64 unknown = unknowns[columns[at]];
        const f64 first = lead >= 0 ? of(unknown, lead) : 0;
        for (int c = 0; c < k; ++c) {
            to[c] = of(unknown, c) - times(multiples[c], first);
        }
    }

    DEVICE f64 weight(i64 at, const f64 *row) const {
        f64 sum = 0;
        for (int c = 0; c < k; ++c) {
            sum += times(row[c], solution[c]);
        }
        return times(static_cast<f64>(shares[at]), sum);
    }

    DEVICE f64 weight(i64 at) const {
        f64 of_row[MOST];
        row(at, of_row);
        return weight(at, of_row);
    }

    // What the weights leave of each vector on the row, without the multiples of the leading one.
    DEVICE void residual(f64 *r) const {
        for (int c = 0; c < k; ++c) {
            r[c] = lead < 0 || lead == c ? of(i, c) : 0;
        }
        for (i64 at = begin; at < end; ++at) {
            f64 of_row[MOST];
            row(at, of_row);
            const f64 w = weight(at, of_row);
            for (int c = 0; c < k; ++c) {
                r[c] -= times(w, of_row[c]);
            }
        }
    }

    // Solves the normal equations by a Cholesky factor, scaled to a unit diagonal with a ridge.
    DEVICE void solve() {
        f64 m[MOST][MOST], roots[MOST], y[MOST];
        for (int c = 0; c < k; ++c) {
            for (int d = 0; d <= c; ++d) {
                m[c][d] = 0;
            }
        }
        for (i64 at = begin; at < end; ++at) {
            row(at, y);
            const f64 share = static_cast<f64>(shares[at]);
            for (int c = 0; c < k; ++c) {
                const f64 scaled = times(share, y[c]);
                for (int d = 0; d <= c; ++d) {
                    m[c][d] += times(scaled, y[d]);
                }
            }
        }
        for (int c = 0; c < k; ++c) {
            roots[c] = square_root(m[c][c]);
        }
        for (int c = 0; c < k; ++c) {
            for (int d = 0; d <= c; ++d) {
                const f64 scale = times(roots[c], roots[d]);
                m[c][d] = scale > 0 ? m[c][d] / scale : 0;
            }
        }
        for (int c = 0; c < k; ++c) {
            f64 pivot = m[c][c] + RIDGE;
            for (int e = 0; e < c; ++e) {
                pivot -= times(m[c][e], m[c][e]);
            }
            m[c][c] = square_root(pivot);
            for (int d = c + 1; d < k; ++d) {
                f64 v = m[d][c];
                for (int e = 0; e < c; ++e) {
                    v -= times(m[d][e], m[c][e]);
                }
                m[d][c] = v / m[c][c];
            }
        }
        for (int pass = 0; pass <= REFINEMENTS; ++pass) {
            f64 r[MOST];
            residual(r);
            for (int c = 0; c < k; ++c) {
                f64 v = roots[c] > 0 ? r[c] / roots[c] : 0;
                for (int e = 0; e < c; ++e) {
                    v -= times(m[c][e], y[e]);
                }
                y[c] = v / m[c][c];
            }
            for (int c = k - 1; c >= 0; --c) {
                f64 v = y[c];
                for (int e = c + 1; e < k; ++e) {
                    v -= times(m[e][c], y[e]);
                }
                y[c] = v / m[c][c];
            }
            for (int c = 0; c < k; ++c) {
                solution[c] += roots[c] > 0 ? y[c] / roots[c] : 0;
            }
        }
    }

    // Whether both tests hold.
    DEVICE bool is_accepted(f64 tolerance, f64 norm) const {
        f64 r[MOST];
        residual(r);
        for (int c = 0; c < k; ++c) {
            if (!(magnitude(r[c]) <= times(tolerance, largest[c]))) {
                return false;
            }
        }
        f64 squares = 0;
        for (i64 at = begin; at < end; ++at) {
            const f64 w = weight(at);
            squares += times(w, w);
        }
        return squares <= times(norm, norm);
    }
};

// Notes the distance for the rows whose fit is accepted, and counts the others.
template <class T>
DEVICE void least_squares_judge(i64 rows, int k, int distance, f64 tolerance, f64 norm, const In<f64> &vectors, const In<i32> &unknowns,
                                const In<i64> &offsets, const In<i32> &columns, const In<T> &shares, const Out<u8> &reach,
                                const Out<i32> &failed) {
    const i64 i = global_index();
    if (i >= rows || reach[i] != JOINS) {
        return;
    }
    const Fit<T> fit(vectors, rows, k, unknowns, offsets, columns, shares, i);
    if (fit.is_accepted(tolerance, norm)) {
        reach[i] = static_cast<u8>(distance);
    } else {
        atomic_add(failed[0], 1);
    }
}

// A flag for each coarse unknown, those that join included.
KERNEL(least_squares_flags, i64 rows, In<i32> number, In<u8> reach, Out<u8> flags) {
    const i64 i = global_index();
    if (i < rows) {
        flags[i] = number[i] >= 0 || reach[i] == JOINS ? 1 : 0;
    }
}

// The prolongator. Runs twice.
template <class T>
DEVICE void least_squares_rows(i64 rows, int k, const In<f64> &vectors, const In<i32> &unknowns, const In<i32> &number, const In<i64> &offsets,
                               const In<i32> &columns, const In<T> &shares, const In<i64> &to_offsets, const Out<i32> &to_columns,
                               const Out<T> &to_values, const Out<i32> &counts) {
    const i64 i = global_index();
    if (i >= rows) {
        return;
    }
    const bool is_coarse = number[i] >= 0;
    if (to_offsets.len == 0) {
        counts[i] = is_coarse ? 1 : static_cast<i32>(offsets[i + 1] - offsets[i]);
        return;
    }
    const i64 to = to_offsets[i];
    if (is_coarse) {
        to_columns[to] = number[i];
        to_values[to] = 1;
        return;
    }
    const Fit<T> fit(vectors, rows, k, unknowns, offsets, columns, shares, i);
    for (i64 at = fit.begin; at < fit.end; ++at) {
        to_columns[to + at - fit.begin] = number[unknowns[columns[at]]];
        to_values[to + at - fit.begin] = As<T>::of(fit.weight(at));
    }
}

// Turns A P into P plus that, times D⁻¹ and a factor. Columns ascend in both.
template <class T>
DEVICE void least_squares_jacobi(i64 rows, T factor, const In<T> &inverse, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                                 const In<i64> &to_offsets, const In<i32> &to_columns, const Out<T> &to_values) {
    const i64 i = global_index();
    if (i >= rows) {
        return;
    }
    const T scale = times(factor, inverse[i]);
    i64 from = offsets[i];
    const i64 end = offsets[i + 1];
    for (i64 to = to_offsets[i]; to < to_offsets[i + 1]; ++to) {
        T v = times(to_values[to], scale);
        if (from < end && columns[from] == to_columns[to]) {
            v += values[from++];
        }
        to_values[to] = v;
    }
}

// The strong neighbours of each fine unknown and the unknown itself, coarse ones alone. Runs twice.
template <class T>
DEVICE void least_squares_near(i64 rows, const In<i32> &number, const In<i64> &strong_offsets, const In<i32> &strong_columns,
                               const In<i64> &to_offsets, const Out<i32> &to_columns, const Out<T> &to_values, const Out<i32> &counts) {
    const i64 i = global_index();
    if (i >= rows) {
        return;
    }
    const i64 begin = strong_offsets[i], end = number[i] < 0 ? strong_offsets[i + 1] : begin;
    if (to_offsets.len == 0) {
        counts[i] = static_cast<i32>(end - begin + 1);
        return;
    }
    i64 to = to_offsets[i];
    for (i64 k = begin; k < end; ++k) {
        to_columns[to] = strong_columns[k];
        to_values[to++] = 1;
    }
    to_columns[to] = static_cast<i32>(i);
    to_values[to] = 1;
}

// The entries of P in the pattern of one that has more. Columns ascend in both.
template <class T>
DEVICE void least_squares_embed(i64 rows, const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const In<i64> &to_offsets,
                                const In<i32> &to_columns, const Out<T> &to_values) {
    const i64 i = global_index();
    if (i >= rows) {
        return;
    }
    i64 from = offsets[i];
    const i64 end = offsets[i + 1];
    for (i64 to = to_offsets[i]; to < to_offsets[i + 1] && from < end; ++to) {
        if (columns[from] == to_columns[to]) {
            to_values[to] = values[from++];
        }
    }
}

#define LEAST_SQUARES(T) \
    KERNEL(least_squares_near_##T, i64 rows, In<i32> number, In<i64> strong_offsets, In<i32> strong_columns, In<i64> to_offsets, \
           Out<i32> to_columns, Out<T> to_values, Out<i32> counts) { \
        least_squares_near<T>(rows, number, strong_offsets, strong_columns, to_offsets, to_columns, to_values, counts); \
    } \
    KERNEL(least_squares_embed_##T, i64 rows, In<i64> offsets, In<i32> columns, In<T> values, In<i64> to_offsets, In<i32> to_columns, \
           Out<T> to_values) { \
        least_squares_embed<T>(rows, offsets, columns, values, to_offsets, to_columns, to_values); \
    } \
    KERNEL(least_squares_jacobi_##T, i64 rows, f64 factor, In<T> inverse, In<i64> offsets, In<i32> columns, In<T> values, \
           In<i64> to_offsets, In<i32> to_columns, Out<T> to_values) { \
        least_squares_jacobi<T>(rows, As<T>::of(factor), inverse, offsets, columns, values, to_offsets, to_columns, to_values); \
    } \
    KERNEL(least_squares_starts_##T, i64 rows, In<i32> number, In<u8> reach, In<i64> to_offsets, Out<i32> to_columns, Out<T> to_values, \
           Out<i32> counts) { \
        least_squares_starts<T>(rows, number, reach, to_offsets, to_columns, to_values, counts); \
    } \
    KERNEL(least_squares_step_##T, i64 rows, i32 distance, In<u8> reach, In<i64> offsets, In<i32> columns, In<T> values, \
           In<i64> strong_offsets, In<i32> strong_columns, In<i64> to_offsets, Out<i32> to_columns, Out<T> to_values, Out<i32> counts) { \
        least_squares_step<T>(rows, distance, reach, offsets, columns, values, strong_offsets, strong_columns, to_offsets, to_columns, \
                              to_values, counts); \
    } \
    KERNEL(least_squares_judge_##T, i64 rows, i32 k, i32 distance, f64 tolerance, f64 norm, In<f64> vectors, In<i32> unknowns, \
           In<i64> offsets, In<i32> columns, In<T> shares, Out<u8> reach, Out<i32> failed) { \
        least_squares_judge<T>(rows, k, distance, tolerance, norm, vectors, unknowns, offsets, columns, shares, reach, failed); \
    } \
    KERNEL(least_squares_rows_##T, i64 rows, i32 k, In<f64> vectors, In<i32> unknowns, In<i32> number, In<i64> offsets, In<i32> columns, \
           In<T> shares, In<i64> to_offsets, Out<i32> to_columns, Out<T> to_values, Out<i32> counts) { \
        least_squares_rows<T>(rows, k, vectors, unknowns, number, offsets, columns, shares, to_offsets, to_columns, to_values, counts); \
    }
FOR_SETUP(LEAST_SQUARES)
