// Reductions over a group of lanes. All lanes get the same bits.
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

// For integers, or for numbers of which all but one are zero: other sums would round in an order that depends on N.
template <int N, class T> DEVICE T group_sum(T v) {
    UNROLL
    for (int step = N / 2; step > 0; step /= 2) {
        v += Group<N>::shuffle(v, Group<N>::rank() ^ step);
    }
    return v;
}

// The number of lanes of smaller rank for which a predicate holds, from its ballot.
template <int N> DEVICE int rank_among(u64 ballot) { return count_bits(ballot & ((1ull << Group<N>::rank()) - 1)); }
