// What a group of lanes finds out together, with the same bits in all of its lanes.
#pragma once
#include "portability.h"

template <int N, class T> DEVICE T group_max(T v) {
    UNROLL
    for (int step = N / 2; step > 0; step /= 2) {
        const T other = Group<N>::shuffle(v, Group<N>::rank() ^ step);
        v = other > v ? other : v;
    }
    return v;
}

// Integers, or numbers of which all but one are zero: others would be rounded in an order that depends on N.
template <int N, class T> DEVICE T group_sum(T v) {
    UNROLL
    for (int step = N / 2; step > 0; step /= 2) {
        v += Group<N>::shuffle(v, Group<N>::rank() ^ step);
    }
    return v;
}

// Lanes of a smaller rank for which a predicate holds, from its ballot.
template <int N> DEVICE int rank_among(u64 ballot) { return count_bits(ballot & ((1ull << Group<N>::rank()) - 1)); }
