// Line relaxation on a stencil: the unknowns of the lines of a colour are solved for, each line by its block tridiagonal matrix. Formats of values are told
// at run time.
#include "numbers.h"
#include "stencil.h"

// The lines of a colour: from `start` on at steps of 2 along both axes across. With `checker` those of which the sum of the places and of start[0] is even.
struct ColourLines {
    i32 axis;
    i32 across[2];
    i32 start[2];
    i32 count[2];
    i32 checker;
    // The offset to the cell before, or -1.
    i32 before;
};

// The place of the first cell of a line; false behind the last line.
DEVICE bool first_of_line(const StencilShape &g, const ColourLines &lines, i64 number, int *at) {
    const int k = static_cast<int>(number % lines.count[0]);
    int p = lines.start[0] + 2 * k, q = static_cast<int>(number / lines.count[0]);
    if (q >= lines.count[1]) {
        return false;
    }
    if (lines.checker) {
        p = 2 * k + ((q + lines.start[0]) & 1);
    } else {
        q = lines.start[1] + 2 * q;
    }
    at[lines.axis] = 0;
    at[lines.across[0]] = p;
    at[lines.across[1]] = q;
    return p < g.dims[lines.across[0]];
}

// Values whose format is told.
template <class A> struct ToldValues {
    Any values;
    i32 format;
    DEVICE A once(i64 i) const { return load_any<A>(values, format, i); }
};

// r = b - A x for the cells of the lines. Neighbouring threads have neighbouring cells.
template <int N, class A>
DEVICE void line_residuals(const StencilShape &g, const ColourLines &lines, int storage, const Any &values, int format, const Any &b, const Any &x,
                           const Any &r) {
    const int n = N == 1 ? 1 : g.block, along = g.dims[lines.axis];
    const i64 i = global_index(), inner = lines.axis == 0 ? 1 : lines.count[0];
    int at[3];
    if (!first_of_line(g, lines, i % inner + inner * (i / inner / along), at)) {
        return;
    }
    at[lines.axis] = static_cast<int>(i / inner % along);
    const i64 line = at[1] + static_cast<i64>(g.dims[1]) * at[2], row = (line * g.dims[0] + at[0]) * n;
    const ToldValues<A> a{values, storage};
    const Told<A> vector{x, format};
    A sums[N] = {};
    for (int l = 0; l < g.lines; ++l) {
        const i64 to = line_at(g, l, at[1], at[2]);
        if (to >= 0) {
            add_blocks<N>(n, g, l, to, line, at[0], a, vector, sums);
        }
    }
    UNROLL_SMALL
    for (int c = 0; c < N; ++c) {
        if (c < n) {
            store(r, format, row + c, load<A>(b, format, row + c) - sums[c]);
        }
    }
}

// x += d with T d = r, a thread for each line: forward y_k = E_k^-1 (r_k - A_k,k-1 y_k-1), backward d_k = y_k - W_k d_k+1. y replaces r.
template <int N, class A>
DEVICE void solve_lines(const StencilShape &g, const ColourLines &lines, int storage, const Any &values, const Any &factors, int format, const Any &r,
                        const Any &x) {
    const int n = N == 1 ? 1 : g.block, along = g.dims[lines.axis];
    int at[3];
    if (!first_of_line(g, lines, global_index(), at)) {
        return;
    }
    const i64 nx = g.dims[0], ny = g.dims[1], line = at[1] + ny * at[2];
    const i64 cell_step = lines.axis == 0 ? 1 : lines.axis == 1 ? nx : nx * ny;
    const i64 place_step = lines.axis == 0 ? 1 : lines.axis == 1 ? g.pitch : g.pitch * ny;
    const i64 cells = nx * grid_lines(g), size = array_size(g);
    const i64 lower = static_cast<i64>(lines.before) * n * n * size;
    const ToldValues<A> a{values, storage}, f{factors, storage};
    i64 cell = line * nx + at[0], place = line * g.pitch + at[0];
    A y[N] = {};
    for (int k = 0; k < along; ++k) {
        A rest[N] = {};
        UNROLL_SMALL
        for (int c = 0; c < N; ++c) {
            if (c < n) {
                rest[c] = load<A>(r, format, cell * n + c);
            }
        }
        if (k > 0 && lines.before >= 0) {
            UNROLL_SMALL
            for (int e = 0; e < N; ++e) {
                UNROLL_SMALL
                for (int c = 0; c < N; ++c) {
                    if (e < n && c < n) {
                        rest[e] -= a.once(lower + (e * n + c) * size + place) * y[c];
                    }
                }
            }
        }
        UNROLL_SMALL
        for (int e = 0; e < N; ++e) {
            if (e < n) {
                A sum = 0;
                UNROLL_SMALL
                for (int c = 0; c < N; ++c) {
                    if (c < n) {
                        sum += f.once((e * n + c) * cells + cell) * rest[c];
                    }
                }
                y[e] = rounded(format, sum);
                store(r, format, cell * n + e, sum);
            }
        }
        cell += cell_step;
        place += place_step;
    }
    A d[N] = {};
    for (int k = along - 1; k >= 0; --k) {
        cell -= cell_step;
        A change[N] = {};
        UNROLL_SMALL
        for (int e = 0; e < N; ++e) {
            if (e < n) {
                change[e] = load<A>(r, format, cell * n + e);
                UNROLL_SMALL
                for (int c = 0; c < N; ++c) {
                    if (c < n && k + 1 < along) {
                        change[e] -= f.once(((n + e) * n + c) * cells + cell) * d[c];
                    }
                }
            }
        }
        UNROLL_SMALL
        for (int e = 0; e < N; ++e) {
            if (e < n) {
                d[e] = rounded(format, change[e]);
                store(x, format, cell * n + e, load<A>(x, format, cell * n + e) + d[e]);
            }
        }
    }
}

#define LINE_SWEEP(NAME, N, A) \
    KERNEL(line_residuals##NAME##_##A, StencilShape g, ColourLines lines, i32 storage, Any values, i32 format, Any b, Any x, Any r) { \
        line_residuals<N, A>(g, lines, storage, values, format, b, x, r); \
    } \
    KERNEL(solve_lines##NAME##_##A, StencilShape g, ColourLines lines, i32 storage, Any values, Any factors, i32 format, Any r, Any x) { \
        solve_lines<N, A>(g, lines, storage, values, factors, format, r, x); \
    }
LINE_SWEEP(, 1, f64)
LINE_SWEEP(, 1, f32)
LINE_SWEEP(_blocks, 8, f64)
LINE_SWEEP(_blocks, 8, f32)

// Unknowns of a cell, at most.
constexpr int MAX_BLOCK = 8;

// Inverts an n x n matrix in place by exchanges of its diagonal, best pivot first, as the inverses of diagonal blocks.
DEVICE void invert_block(f64 *m, int n, f64 bound) {
    u32 left = (1u << n) - 1;
    f64 size[MAX_BLOCK];
    for (int k = 0; k < n; ++k) {
        size[k] = magnitude(m[k * n + k]);
    }
    for (;;) {
        int k = -1;
        f64 best = 0.0;
        for (int other = 0; other < n; ++other) {
            const f64 share = size[other] > 0.0 ? magnitude(m[other * n + other]) / size[other] : 0.0;
            if ((left >> other & 1) != 0 && (k < 0 || share > best)) {
                k = other;
                best = share;
            }
        }
        if (k < 0 || !(best > bound)) {
            break;
        }
        left &= ~(1u << k);
        const f64 pivot = m[k * n + k];
        for (int i = 0; i < n; ++i) {
            if (i == k) {
                continue;
            }
            const f64 factor = m[i * n + k] / pivot;
            for (int j = 0; j < n; ++j) {
                if (j != k) {
                    const f64 change = times(factor, m[k * n + j]);
                    m[i * n + j] -= change;
                    if (i == j && (left >> i & 1) != 0) {
                        size[i] += magnitude(change);
                    }
                }
            }
            m[i * n + k] = -factor;
        }
        for (int j = 0; j < n; ++j) {
            m[k * n + j] = j == k ? 1.0 / pivot : m[k * n + j] / pivot;
        }
    }
    for (int k = 0; k < n; ++k) {
        for (int j = 0; j < n && (left >> k & 1) != 0; ++j) {
            m[k * n + j] = 0.0;
            m[j * n + k] = 0.0;
        }
    }
}

// The factors of all lines along an axis, a thread for each: E_k^-1 with E_k = A_kk - A_k,k-1 W_k-1, and W_k = E_k^-1 A_k,k+1, in f64. Pivots up to `bound`
// times their diagonal entry are rounding.
template <class T>
DEVICE void factorise_lines(const StencilShape &g, const ColourLines &lines, int centre, int behind, f64 bound, const In<T> &values, const Out<T> &out) {
    const int n = g.block, along = g.dims[lines.axis], count = g.dims[lines.across[0]];
    const i64 number = global_index(), nx = g.dims[0], ny = g.dims[1];
    int at[3];
    at[lines.axis] = 0;
    at[lines.across[0]] = static_cast<int>(number % count);
    at[lines.across[1]] = static_cast<int>(number / count);
    if (number / count >= g.dims[lines.across[1]]) {
        return;
    }
    const i64 line = at[1] + ny * at[2], cells = nx * grid_lines(g), size = array_size(g), entries = n * n * size;
    const i64 cell_step = lines.axis == 0 ? 1 : lines.axis == 1 ? nx : nx * ny;
    const i64 place_step = lines.axis == 0 ? 1 : lines.axis == 1 ? g.pitch : g.pitch * ny;
    i64 cell = line * nx + at[0], place = line * g.pitch + at[0];
    f64 w[MAX_BLOCK * MAX_BLOCK] = {}, pivot[MAX_BLOCK * MAX_BLOCK], diagonal[MAX_BLOCK];
    for (int k = 0; k < along; ++k) {
        for (int e = 0; e < n * n; ++e) {
            pivot[e] = centre < 0 ? 0.0 : to_f64(values[centre * entries + e * size + place]);
        }
        for (int e = 0; e < n; ++e) {
            diagonal[e] = magnitude(pivot[e * n + e]);
        }
        for (int e = 0; e < n * n && k > 0 && lines.before >= 0; ++e) {
            for (int j = 0; j < n; ++j) {
                pivot[e] -= times(to_f64(values[lines.before * entries + (e / n * n + j) * size + place]), w[j * n + e % n]);
            }
        }
        for (int e = 0; e < n; ++e) {
            if (!(magnitude(pivot[e * n + e]) > times(bound, diagonal[e]))) {
                for (int c = 0; c < n; ++c) {
                    pivot[e * n + c] = 0.0;
                    pivot[c * n + e] = 0.0;
                }
            }
        }
        invert_block(pivot, n, bound);
        for (int e = 0; e < n * n; ++e) {
            w[e] = 0.0;
            for (int j = 0; j < n && k + 1 < along && behind >= 0; ++j) {
                w[e] += times(pivot[e / n * n + j], to_f64(values[behind * entries + (j * n + e % n) * size + place]));
            }
        }
        for (int e = 0; e < n * n; ++e) {
            out[e * cells + cell] = As<T>::of(pivot[e]);
            out[(n * n + e) * cells + cell] = As<T>::of(w[e]);
        }
        cell += cell_step;
        place += place_step;
    }
}

#define LINE_FACTORS(T) \
    KERNEL(line_factors_##T, StencilShape g, ColourLines lines, i32 centre, i32 behind, f64 bound, In<T> values, Out<T> out) { \
        factorise_lines<T>(g, lines, centre, behind, bound, values, out); \
    }
FOR_SETUP(LINE_FACTORS)
