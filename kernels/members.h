// A table of coarse unknowns and their weights for one row of an interpolation, which a group of N lanes fills together: open addressing, in
// shared memory or, for rows that do not fit there, in global memory.
#pragma once
#include "groups.h"

template <class T, int N, class Keys, class Weights> struct Members {
    Keys keys;
    Weights weights;
    // Where the table of this group begins.
    i64 base;
    // Its size, a power of two of at least 16 and N.
    int slots;
    // Slots that are looked at for a key; one that finds none of them free does not fit.
    int probes;
    // Whether other lanes' keys may be hidden by a cache.
    bool far;

    DEVICE i32 &key(int slot) const { return keys[base + slot]; }
    DEVICE T &weight(int slot) const { return weights[base + slot]; }
    DEVICE i32 seen(int slot) const { return far ? atomic_swap_if(key(slot), -2, -2) : key(slot); }
    DEVICE int home(i32 c) const { return static_cast<int>(static_cast<u64>(static_cast<u32>(c) * 2654435769u) * static_cast<u64>(slots) >> 32); }
    static DEVICE void meet() {
        if constexpr (N > 1) {
            Group<N>::barrier();
        }
    }

    DEVICE void clear() const {
        for (int slot = Group<N>::rank(); slot < slots; slot += N) {
            key(slot) = -1;
            weight(slot) = 0;
        }
        meet();
    }

    // Whether c has a place.
    DEVICE bool insert(i32 c) const {
        int slot = home(c);
        for (int probe = 0; probe < probes; ++probe) {
            i32 there = key(slot);
            if (there == -1) {
                if constexpr (N == 1) {
                    key(slot) = c;
                    return true;
                }
                there = atomic_swap_if(key(slot), -1, c);
            }
            if (there == -1 || there == c) {
                return true;
            }
            slot = (slot + 1) & (slots - 1);
        }
        return false;
    }

    // The slot of c, or -1.
    DEVICE int find(i32 c) const {
        int slot = home(c);
        for (int probe = 0; probe < probes; ++probe) {
            const i32 there = seen(slot);
            if (there == c) {
                return slot;
            }
            if (there == -1) {
                return -1;
            }
            slot = (slot + 1) & (slots - 1);
        }
        return -1;
    }

    // Brings the members whose weight, times `scale`, is not zero to the front, in no order; nothing can be found any more. Returns their number.
    DEVICE int compact(T scale) const {
        int count = 0;
        for (int start = 0; start < slots; start += N) {
            const int slot = start + Group<N>::rank();
            const i32 c = seen(slot);
            const T w = weight(slot) * scale;
            const bool stays = c >= 0 && w != 0;
            const u64 all = Group<N>::ballot(stays);
            meet();
            if (stays) {
                const int to = count + rank_among<N>(all);
                key(to) = c;
                weight(to) = w;
            }
            count += count_bits(all);
        }
        meet();
        return count;
    }
};

template <class T, int N, class K, class W>
DEVICE Members<T, N, K, W> members_of(K keys, W weights, i64 base, int slots, int probes, bool far) {
    return Members<T, N, K, W>{keys, weights, base, slots, probes, far};
}

// A sum in four parts, of every fourth term each, whatever the number of lanes: as `Quarters` in src/host/extended_i.rs. Each step adds one term
// for each lane, in the order of ranks.
template <class T, int N> struct Quarters {
    T part = 0;
    DEVICE void add(T v) {
        UNROLL
        for (int step = 0; step < N; step += 4) {
            part += Group<N>::shuffle(v, (Group<N>::rank() & 3) + step);
        }
    }
    DEVICE T sum() const {
        const T half = part + Group<N>::shuffle(part, Group<N>::rank() ^ 2);
        return half + Group<N>::shuffle(half, Group<N>::rank() ^ 1);
    }
};
template <class T> struct Quarters<T, 1> {
    T part[4] = {0, 0, 0, 0};
    // The parts go round: their sum is the same wherever the first one stands.
    DEVICE void add(T v) {
        const T next = part[0] + v;
        part[0] = part[1];
        part[1] = part[2];
        part[2] = part[3];
        part[3] = next;
    }
    DEVICE T sum() const { return (part[0] + part[2]) + (part[1] + part[3]); }
};
