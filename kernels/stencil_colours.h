// Colours of the cells of a stencil. Cells of a colour are not coupled.
#pragma once
#include "stencil.h"

// The cells of a colour: from `start` on at steps of 2 along each axis. With `checker` all planes along z, whose lines are those of which y + z + start[1]
// is even.
struct ColourCells {
    i32 start[3];
    i32 count[3];
    i32 checker;
};

// The line of a number among those of a colour; false behind the last.
DEVICE bool line_of(const StencilShape &g, const ColourCells &cells, i64 number, int &y, int &z) {
    const u32 lines = static_cast<u32>(cells.count[1]), plane = static_cast<u32>(number) / lines;
    const int k = static_cast<int>(static_cast<u32>(number) - plane * lines);
    z = static_cast<int>(plane);
    if (z >= cells.count[2]) {
        return false;
    }
    if (cells.checker) {
        y = 2 * k + ((z + cells.start[1]) & 1);
        return y < g.dims[1];
    }
    y = cells.start[1] + 2 * k;
    z = cells.start[2] + 2 * z;
    return true;
}

// Of the lines around one of each colour, bits of those that come later in a pass.
struct LaterLines {
    i32 of[4];
    // Whether lines have two colours, by the parity of y + z, and otherwise how many classes there are along y.
    i32 two;
    i32 classes;
};

// Those of the line at y and z.
DEVICE i32 later_lines(const LaterLines &later, int y, int z) {
    const int colour = later.two ? (y + z) & 1 : (y & 1) + later.classes * (z & 1);
    return colour == 0 ? later.of[0] : colour == 1 ? later.of[1] : colour == 2 ? later.of[2] : later.of[3];
}

// A vector that changes while it is read.
template <class A> struct Changing {
    Any x;
    i32 format;
    DEVICE A operator[](i64 i) const { return load<A>(x, format, i); }
    template <int N> DEVICE Pack<A, N> pack(i64 i) const { return x.out<A>().template pack<N>(i); }
};

// The same in the format of sums.
template <class A> struct PlainChanging {
    Any x;
    i32 format;
    DEVICE A operator[](i64 i) const { return x.out<A>()[i]; }
    template <int N> DEVICE Pack<A, N> pack(i64 i) const { return x.out<A>().template pack<N>(i); }
};
