// A block row of an FSAI factor; see src/host/fsai/system.rs. 32 lanes work on it, and each sum is added up in the order of the host.
// A block has N rows, or at most N where the number is told at run time.
#pragma once
#include "fsai_system.h"

// Most rows of a block.
constexpr int FSAI_MAX_BLOCK = 8;

// The system of a block row: L, y and g of the host, and the factors of psi. A member variable is the same in all lanes unless its
// comment says otherwise.
template <class T, int N, bool TOLD, class Numbers> struct FsaiBlockSystem {
    // The rows of L one behind the other, with the inverse of the diagonal; then y and g, a row for each scalar column.
    Numbers numbers;
    i64 first_number;
    // Diagonal blocks of A.
    In<T> diagonals;
    int told;
    // Most scalar columns.
    int capacity;
    T smallest;
    i64 i;
    // Block columns.
    int count;
    // Row s of psi in lane n + s.
    T psi[N];
    // psi = U D U^T.
    T u[N][N];
    T d[N];
    T inverses[N];

    DEVICE int n() const { return TOLD ? told : N; }
    static DEVICE i64 begin_of(int row) { return static_cast<i64>(row) * (row + 1) / 2; }
    DEVICE T &l(int row, int column) const { return numbers[first_number + begin_of(row) + column]; }
    DEVICE T &y(int row, int s) const { return numbers[first_number + begin_of(capacity) + row * n() + s]; }
    DEVICE T &g(int row, int s) const { return numbers[first_number + begin_of(capacity) + (capacity + row) * n() + s]; }
    // n x 2n numbers, in place of g while a block is appended.
    DEVICE T &scratch(int at) const { return numbers[first_number + begin_of(capacity) + capacity * n() + at]; }
    DEVICE T diagonal(i64 row, int r, int s) const { return diagonals[(row * n() + r) * n() + s]; }

    // Factorises psi. False, and the factors stay, where it is not positive definite.
    DEVICE bool factorise() {
        T next[N][N], pivots[N], of_pivots[N];
        bool is_definite = true;
        UNROLL_SMALL
        for (int s = 0; s < n(); ++s) {
            T w[N];
            T pivot = Lanes::shuffle(psi[s], n() + s);
            UNROLL_SMALL
            for (int t = 0; t < s; ++t) {
                w[t] = Lanes::shuffle(psi[t], n() + s);
                UNROLL_SMALL
                for (int q = 0; q < t; ++q) {
                    w[t] -= times(w[q], next[t][q]);
                }
                next[s][t] = times(w[t], of_pivots[t]);
                pivot -= times(w[t], next[s][t]);
            }
            is_definite = is_definite && pivot > times(smallest, diagonal(i, s, s)) && fsai_is_finite(pivot);
            pivots[s] = pivot;
            of_pivots[s] = 1 / pivot;
        }
        if (is_definite) {
            UNROLL_SMALL
            for (int s = 0; s < n(); ++s) {
                d[s] = pivots[s];
                inverses[s] = of_pivots[s];
                UNROLL_SMALL
                for (int t = 0; t < s; ++t) {
                    u[s][t] = next[s][t];
                }
            }
        }
        return is_definite;
    }

    // An empty pattern. False where the diagonal block is not positive definite.
    DEVICE bool begin() {
        count = 0;
        const int s = Lanes::rank() - n();
        bool is_positive = true;
        UNROLL_SMALL
        for (int t = 0; t < n(); ++t) {
            psi[t] = s >= 0 && s < n() ? diagonal(i, s, t) : T(0);
            is_positive = is_positive && fsai_is_positive(diagonal(i, t, t));
        }
        return is_positive && factorise();
    }

    // U^-1 x.
    DEVICE void solve_unit(T (&x)[N]) const {
        UNROLL_SMALL
        for (int s = 1; s < n(); ++s) {
            UNROLL_SMALL
            for (int t = 0; t < s; ++t) {
                x[s] -= times(u[s][t], x[t]);
            }
        }
    }

    // Appends block column k. Its blocks of A with the pattern are in the next rows of L, and A_ki in those of y. False, and nothing is
    // added, where A would not be positive definite.
    DEVICE bool append(i64 k) {
        const int m = count * n(), rank = Lanes::rank();
        Lanes::barrier();
        ROLLED
        for (int block = 0; block < count; ++block) {
            const int first = block * n();
            if (rank < n()) {
                T x[N];
                UNROLL_SMALL
                for (int q = 0; q < n(); ++q) {
                    x[q] = l(m + rank, first + q);
                    UNROLL_SMALL
                    for (int p = 0; p < q; ++p) {
                        x[q] -= times(x[p], l(first + q, first + p));
                    }
                    x[q] = times(x[q], l(first + q, first + q));
                    l(m + rank, first + q) = x[q];
                }
            }
            Lanes::barrier();
            const int after = first + n(), left = m - after;
            ROLLED
            for (int at = rank; at < left * n(); at += FSAI_LANES) {
                const int row = m + at % n(), column = after + at / n();
                T v = l(row, column);
                UNROLL_SMALL
                for (int q = 0; q < n(); ++q) {
                    v -= times(l(row, first + q), l(column, first + q));
                }
                l(row, column) = v;
            }
            Lanes::barrier();
        }
        // The block of the new rows, and the right-hand sides.
        ROLLED
        for (int at = rank; at < 2 * n() * n(); at += FSAI_LANES) {
            const int r = at / (2 * n()), z = at % (2 * n());
            const bool is_own = z < n();
            if (!is_own || z <= r) {
                T v = is_own ? diagonal(k, r, z) : -y(m + r, z - n());
                ROLLED
                for (int p = 0; p < m; ++p) {
                    v -= times(l(m + r, p), is_own ? l(m + z, p) : y(p, z - n()));
                }
                scratch(at) = v;
            }
        }
        Lanes::barrier();
        // Lane z has column z of both.
        T x[N];
        UNROLL_SMALL
        for (int r = 0; r < n(); ++r) {
            x[r] = rank < 2 * n() && (rank >= n() || rank <= r) ? scratch(r * 2 * n() + rank) : T(0);
        }
        bool is_definite = true;
        UNROLL_SMALL
        for (int r = 0; r < n(); ++r) {
            const T pivot = Lanes::shuffle(x[r], r), inverse = 1 / fsai_root(pivot);
            is_definite = is_definite && pivot > times(smallest, diagonal(k, r, r));
            x[r] = rank >= n() ? times(x[r], inverse) : x[r];
            T factor = x[r];
            T of_rows[N];
            UNROLL_SMALL
            for (int row = r + 1; row < n(); ++row) {
                of_rows[row] = times(Lanes::shuffle(x[row], r), inverse);
                factor = rank == row ? of_rows[row] : factor;
            }
            if (rank == r) {
                l(m + r, m + r) = inverse;
            }
            UNROLL_SMALL
            for (int row = r + 1; row < n(); ++row) {
                if (rank == r) {
                    l(m + row, m + r) = of_rows[row];
                } else if (rank > r) {
                    x[row] -= times(of_rows[row], factor);
                }
            }
        }
        T before[N];
        UNROLL_SMALL
        for (int t = 0; t < n(); ++t) {
            before[t] = psi[t];
        }
        UNROLL_SMALL
        for (int r = 0; r < n(); ++r) {
            UNROLL_SMALL
            for (int t = 0; t < n(); ++t) {
                psi[t] -= times(x[r], Lanes::shuffle(x[r], n() + t));
            }
            if (rank >= n() && rank < 2 * n()) {
                y(m + r, rank - n()) = x[r];
            }
        }
        is_definite = is_definite && factorise();
        if (!is_definite) {
            UNROLL_SMALL
            for (int t = 0; t < n(); ++t) {
                psi[t] = before[t];
            }
            return false;
        }
        ++count;
        Lanes::barrier();
        return true;
    }

    // Solves for g.
    DEVICE void solve() const {
        const int m = count * n(), rank = Lanes::rank();
        ROLLED
        for (int at = rank; at < m * n(); at += FSAI_LANES) {
            g(at / n(), at % n()) = y(at / n(), at % n());
        }
        Lanes::barrier();
        ROLLED
        for (int block = count - 1; block >= 0; --block) {
            const int first = block * n();
            if (rank < n()) {
                T x[N];
                UNROLL_SMALL
                for (int q = 0; q < n(); ++q) {
                    x[q] = g(first + q, rank);
                }
                UNROLL_SMALL
                for (int back = 0; back < n(); ++back) {
                    const int q = n() - 1 - back;
                    x[q] = times(x[q], l(first + q, first + q));
                    UNROLL_SMALL
                    for (int p = 0; p < q; ++p) {
                        x[p] -= times(l(first + q, first + p), x[q]);
                    }
                    g(first + q, rank) = x[q];
                }
            }
            Lanes::barrier();
            ROLLED
            for (int at = rank; at < first * n(); at += FSAI_LANES) {
                const int row = at / n(), s = at % n();
                T v = g(row, s);
                UNROLL_SMALL
                for (int back = 0; back < n(); ++back) {
                    const int q = first + n() - 1 - back;
                    v -= times(l(q, row), g(q, s));
                }
                g(row, s) = v;
            }
            Lanes::barrier();
        }
    }

    // Column q of the block of G at a place of the pattern, or of the diagonal block, written to the block that begins at `to`.
    DEVICE void write(int place, int q, const Out<T> &values, i64 to) const {
        T x[N];
        UNROLL_SMALL
        for (int s = 0; s < n(); ++s) {
            x[s] = place < count ? g(place * n() + q, s) : T(s == q ? 1 : 0);
        }
        solve_unit(x);
        UNROLL_SMALL
        for (int s = 0; s < n(); ++s) {
            values[to + s * n() + q] = times(x[s], 1 / fsai_root(d[s]));
        }
    }

    // The diagonal block of a row whose diagonal block in A is not positive definite.
    DEVICE void write_diagonal(const Out<T> &values, i64 to) const {
        ROLLED
        for (int at = Lanes::rank(); at < n() * n(); at += FSAI_LANES) {
            const int r = at / n();
            const T own = diagonal(i, r, r);
            values[to + at] = at % n() == r && fsai_is_positive(own) ? 1 / fsai_root(own) : T(0);
        }
    }
};

// Numbers of the workspace of a system of this many scalar columns.
DEVICE i64 fsai_block_system_size(int capacity, int n) {
    return static_cast<i64>(capacity) * (capacity + 1) / 2 + 2 * static_cast<i64>(capacity) * n;
}
