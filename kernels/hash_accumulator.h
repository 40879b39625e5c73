// A hash accumulator for one row of an interpolation: coarse unknowns and their weights, with open addressing in
// shared memory. The N lanes of a tile fill it together.
#pragma once
#include "tile.h"

// The first slot that is probed for c.
DEVICE int first_slot(i32 c, int slots) {
    return static_cast<int>(static_cast<u64>(static_cast<u32>(c) * 2654435769u) * static_cast<u64>(slots) >> 32);
}

template <class T, int N, class Keys, class Weights> struct HashAccumulator {
    // Bits of a slot's number.
    static constexpr int SLOT_BITS = 8;
    Keys keys;
    Weights weights;
    // The begin of this tile's table.
    i64 base;
    // The size of the table, a power of two and at least N.
    int slots;

    DEVICE i32 &key(int slot) const { return keys[base + slot]; }
    DEVICE T &weight(int slot) const { return weights[base + slot]; }

    DEVICE void clear() const {
        ROLLED
        for (int slot = Tile<N>::rank(); slot < slots; slot += N) {
            key(slot) = -1;
            weight(slot) = 0;
        }
        Tile<N>::barrier();
    }

    DEVICE void barrier() const { Tile<N>::barrier(); }

    // The slot of c, or -1. With `insert` a new c is inserted; -1 then means that the table is full.
    DEVICE int slot_of(i32 c, bool insert) const {
        int slot = first_slot(c, slots);
        ROLLED
        for (int probe = 0; probe < slots; ++probe) {
            i32 there = key(slot);
            if (there == -1 && insert) {
                there = atomic_swap_if(key(slot), -1, c);
                there = there == -1 ? c : there;
            }
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

    // Moves the entries whose weight times `scale` is not zero to the front, in any order, and scales them. No lookup
    // is possible afterwards. Returns their number.
    DEVICE int compact(T scale) const {
        int count = 0;
        ROLLED
        for (int start = 0; start < slots; start += N) {
            const int slot = start + Tile<N>::rank();
            const i32 c = key(slot);
            const T w = weight(slot) * scale;
            const bool stays = c >= 0 && w != 0;
            const u64 all = Tile<N>::ballot(stays);
            Tile<N>::barrier();
            if (stays) {
                const int to = count + Tile<N>::rank_among(all);
                key(to) = c;
                weight(to) = w;
            }
            count += count_bits(all);
        }
        Tile<N>::barrier();
        return count;
    }
};

template <class T, int N, class K, class W> DEVICE HashAccumulator<T, N, K, W> hash_accumulator(K keys, W weights, i64 base, int slots) {
    return HashAccumulator<T, N, K, W>{keys, weights, base, slots};
}
