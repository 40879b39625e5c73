// Tiles: N neighbouring lanes of a warp that work together. Unlike a `Group`, their operations are those of the whole
// warp, with all of its lanes, so that tiles never wait for each other. Control flow around them is uniform in a
// warp.
#pragma once
#include "portability.h"

template <int N> struct Tile {
    static_assert(N <= WARP && (N & (N - 1)) == 0, "a power of two");
    static DEVICE int rank() { return thread_index() & (N - 1); }
    // The value of the lane of this rank.
    template <class T> static DEVICE T shuffle(T v, int from) { return ::shuffle(v, first() + from); }
    // Bit k is the predicate of rank k.
    static DEVICE u64 ballot(bool predicate) {
        const u64 all = Group<WARP>::ballot(predicate);
        return N == WARP ? all : all >> first() & ((1ull << N % 64) - 1);
    }
    // Whether a predicate holds for any lane of the warp.
    static DEVICE bool any(bool predicate) { return Group<WARP>::ballot(predicate) != 0; }
    static DEVICE void barrier() { Group<WARP>::barrier(); }
    // The number of lanes of smaller rank for which a predicate holds, from its ballot.
    static DEVICE int rank_among(u64 ballot) { return count_bits(ballot & ((1ull << rank()) - 1)); }

  private:
    static DEVICE int first() { return thread_index() % WARP & ~(N - 1); }
};

template <int N, class T> DEVICE T tile_max(T v) {
    UNROLL
    for (int step = N / 2; step > 0; step /= 2) {
        const T other = Tile<N>::shuffle(v, Tile<N>::rank() ^ step);
        v = other > v ? other : v;
    }
    return v;
}

// For integers, or for numbers of which all but one are zero: other sums would round in an order that depends on N.
template <int N, class T> DEVICE T tile_sum(T v) {
    UNROLL
    for (int step = N / 2; step > 0; step /= 2) {
        v += Tile<N>::shuffle(v, Tile<N>::rank() ^ step);
    }
    return v;
}

// A sum in four interleaved parts: part p adds terms p, p + 4, p + 8, ...; the same as `InterleavedSum` in
// src/host/interleaved_sum.rs. Each step adds the next N terms, one of each lane.
template <class T, int N> struct InterleavedSum {
    static_assert(N >= 4, "a lane for each part");
    T part = 0;
    DEVICE void add(T v) {
        UNROLL
        for (int step = 0; step < N; step += 4) {
            part += Tile<N>::shuffle(v, (Tile<N>::rank() & 3) + step);
        }
    }
    DEVICE T sum() const {
        const T half = part + Tile<N>::shuffle(part, Tile<N>::rank() ^ 2);
        return half + Tile<N>::shuffle(half, Tile<N>::rank() ^ 1);
    }
};
