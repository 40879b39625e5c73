// What becomes of a row's product: the three forms in which a matrix is applied.
#pragma once
#include "portability.h"

constexpr int OVERWRITE = 0;
constexpr int SCALE = 1;
constexpr int RESIDUAL = 2;

// y_i = alpha ax, alpha ax + beta y_i, or b_i - ax.
struct Finish {
    i32 form;
    // Of b and y. One for which the sums are f64 is f64.
    i32 format;
    f64 alpha;
    f64 beta;
    Any b;
    Any y;
};

// `ax` is the sum over row i. Branches on formats are the same for all threads, and taken once a row.
template <class A> DEVICE void finish(const Finish &f, i64 i, A ax) {
    A result = As<A>::of(f.alpha) * ax;
    if (f.form == RESIDUAL) {
        result = load<A>(f.b, f.format, i) - ax;
    } else if (f.form == SCALE) {
        result += As<A>::of(f.beta) * load<A>(f.y, f.format, i);
    }
    store(f.y, f.format, i, result);
}
