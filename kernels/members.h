// A table of coarse unknowns and their weights for one row of an interpolation, which a tile of N lanes fills together: open addressing, in shared
// memory.
#pragma once
#include "tile.h"

// Where c is looked for first, of so many slots.
DEVICE int home_of(i32 c, int slots) {
    return static_cast<int>(static_cast<u64>(static_cast<u32>(c) * 2654435769u) * static_cast<u64>(slots) >> 32);
}

template <class T, int N, class Keys, class Weights> struct Members {
    // Of the number of a slot.
    static constexpr int SLOT_BITS = 8;
    Keys keys;
    Weights weights;
    // Where the table of this tile begins.
    i64 base;
    // Its size, a power of two of at least N.
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

    // The slot of c, which is put there if it is `added` and not there yet; -1 if it is not there, or does not fit.
    DEVICE int place(i32 c, bool added) const {
        int slot = home_of(c, slots);
        ROLLED
        for (int probe = 0; probe < slots; ++probe) {
            i32 there = key(slot);
            if (there == -1 && added) {
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

    // Brings the members whose weight, times `scale`, is not zero to the front, in no order; nothing can be found any more. Returns their number.
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

template <class T, int N, class K, class W> DEVICE Members<T, N, K, W> members_of(K keys, W weights, i64 base, int slots) {
    return Members<T, N, K, W>{keys, weights, base, slots};
}
