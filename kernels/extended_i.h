// What rows of extended+i interpolation are computed from.
#pragma once
#include "strong.h"
#include "truncate.h"

// No coupling.
constexpr i32 COUPLING_NONE = -2147483647 - 1;

// Couplings of each fine unknown k to coarse l, with ā_kl, as far as they are strong or that is not 0: the number of l where k depends strongly on
// it, and else that number with all bits inverted. The first few have places of their own, so that nothing has to be looked up to load them; the
// others stand where the row of the matrix does. `reach` is twice their number, and 1 more where a_kk is positive.
template <class T> struct Couplings {
    Out<i32> near_columns;
    Out<T> near_values;
    Out<i32> columns;
    Out<T> values;
    Out<i32> reach;
};

template <class T> struct ExtendedI {
    Entries<T> a;
    In<u8> kinds;
    Couplings<T> couplings;
    // Whether a row is made of Ĉ_i, with i; otherwise it is one of classical interpolation, modified: of C_i, without i.
    bool extended;

    // ā_ki, from row k, where entry (i, k) has this place in its row: in a symmetric stencil the one that is sought has the mirrored place.
    DEVICE T back(i64 from, i64 end, bool is_positive, i32 i, int place) const {
        const i64 found = place_of(i, a.columns, from, end, end - 1 - place);
        const T v = found < 0 ? 0 : a.values[found];
        return (v < 0) == is_positive ? v : 0;
    }
};

// The near couplings of a neighbour.
template <int R> struct Near {
    i32 columns[R];
    DEVICE void load(const Out<i32> &from, i64 k) {
        UNROLL
        for (int t = 0; t < R; t += 4) {
            const Pack<i32, 4> pack = from.template pack<4>(k * R + t);
            UNROLL
            for (int s = 0; s < 4; ++s) {
                columns[t + s] = pack.of[s];
            }
        }
    }
};
template <int R, class T> DEVICE void load_near(const Out<T> &from, i64 k, T *to) {
    UNROLL
    for (int t = 0; t < R; t += 2) {
        const Pack<T, 2> pack = from.template pack<2>(k * R + t);
        to[t] = pack.of[0];
        to[t + 1] = pack.of[1];
    }
}

DEVICE i32 coupling_number(i32 c) { return c < 0 ? ~c : c; }

// What is left over: how many rows did not fit, twice, and the largest bound of those that did not the second time.
constexpr int LEFT_FIRST = 0;
constexpr int LEFT_SECOND = 1;
constexpr int LEFT_LARGEST = 2;

// Arguments of the kernels for rows; `how` is what becomes of a row, and 4 more for classical interpolation, modified.
#define EXTENDED_I_LEVEL(T) \
    In<i64> offsets, In<i32> columns, In<T> values, In<i32> number, In<u8> kinds, Out<i32> near_columns, Out<T> near_values, \
        Out<i32> far_columns, Out<T> far_values, Out<i32> reach, In<i32> only, In<i64> to_offsets, Out<i32> to_columns, Out<T> to_values, \
        Out<i32> counts
#define EXTENDED_I_OF(T) \
    ExtendedI<T>{Entries<T>{offsets, columns, values, number}, kinds, \
                 Couplings<T>{near_columns, near_values, far_columns, far_values, reach}, (how & 4) == 0}
#define EXTENDED_I_TO(T) Target<T>{how & 3, most, As<T>::of(factor), to_offsets, to_columns, to_values, counts}
