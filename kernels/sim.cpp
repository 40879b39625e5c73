// Runs kernels on the CPU; see sim.h. Blocks run one after the other on the calling thread, warps of a block too, from one barrier to the
// next. `reverse` turns both orders round: a result that changes with it is a race. Nothing here needs the C++ runtime library, so that
// programs which link the static library do not either.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define EXPORTED(name) JOIN(JOIN(terrace_sim, TERRACE_WARP), name)

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace JOIN(terrace_sim, TERRACE_WARP) {

#include "sim.h"

namespace sim {

#define INLINE inline __attribute__((always_inline))

#if defined(__x86_64__)
struct Stack {
    void *at = nullptr;
    void prepare(char *base, std::size_t bytes, void (*entry)()) {
        auto top = reinterpret_cast<std::uintptr_t>(base + bytes) & ~static_cast<std::uintptr_t>(15);
        auto *slots = reinterpret_cast<std::uintptr_t *>(top);
        // A function starts with the address to return to on top of its stack; `run_fiber` does not return.
        slots[-1] = 0;
        slots[-2] = reinterpret_cast<std::uintptr_t>(entry);
        at = slots - 2;
    }
};
// Goes on with another fiber, and comes back when that switches to this one. It is a jump, in line: the processor predicts
// where it leads and where the functions around it return to, since the fibers of a kernel do the same one after the
// other. A call that returns on another stack is mispredicted every time.
INLINE void switch_stacks(Stack &from, Stack &to) {
    void **save = &from.at;
    void *next = to.at;
    // Below the stack pointer, 128 bytes belong to the function.
    asm volatile("leaq -128(%%rsp), %%rsp\n\t"
                 "pushq %%rbp\n\t"
                 "pushq %%rbx\n\t"
                 "leaq 1f(%%rip), %%rax\n\t"
                 "pushq %%rax\n\t"
                 "movq %%rsp, (%0)\n\t"
                 "movq %1, %%rsp\n\t"
                 "popq %%rax\n\t"
                 "jmp *%%rax\n"
                 "1:\n\t"
                 "popq %%rbx\n\t"
                 "popq %%rbp\n\t"
                 "leaq 128(%%rsp), %%rsp"
                 : "+D"(save), "+S"(next)
                 :
                 : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3",
                   "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc",
                   "memory");
}
#else
struct Stack {
    ucontext_t context;
    void prepare(char *base, std::size_t bytes, void (*entry)()) {
        getcontext(&context);
        context.uc_stack.ss_sp = base;
        context.uc_stack.ss_size = bytes;
        context.uc_link = nullptr;
        makecontext(&context, entry, 0);
    }
};
void switch_stacks(Stack &from, Stack &to) { swapcontext(&from.context, &to.context); }
#endif

// An odd number of cache lines: the tops of the stacks are in different sets of the caches.
constexpr std::size_t STACK = 32 * 1024 + 5 * 64;
constexpr std::size_t SHARED_BYTES = 48 * 1024;
constexpr int WARPS = BLOCK / WARP;

enum class State { ready, exchanging, waiting, ended };

struct Fiber {
    Stack stack;
    State state;
    std::uint64_t bits;
    // Of the group that it exchanges with.
    int lanes;
    std::size_t shared;
};

// What one launch at a time needs.
struct Engine {
    char stacks[BLOCK][STACK];
    // From a lane to the next one: 1, or -1 when the order is turned round.
    int step;
    alignas(16) char shared[SHARED_BYTES];
    Fiber fibers[BLOCK];
    std::uint64_t exchanged[WARP];
    Stack scheduler;
    const Entry *entry;
    void **arguments;
    char *message;
    std::size_t message_len;
    bool failed;

    void fail(const char *text) {
        if (!failed) {
            std::snprintf(message, message_len, "kernel %s, block %lld of %lld: %s", entry->name, here.block, here.blocks, text);
        }
        failed = true;
    }
};

__thread Position here;

// Of the launch that this thread runs.
static thread_local Engine *engine = nullptr;

inline Fiber &current() { return engine->fibers[here.thread]; }

INLINE void yield_to_scheduler(State state) {
    Fiber &fiber = current();
    fiber.state = state;
    switch_stacks(fiber.stack, engine->scheduler);
}

// Goes on with the next lane of the warp if it can run, else with the scheduler: half as many switches as by the scheduler alone.
INLINE void yield(State state) {
    Engine &e = *engine;
    const int thread = here.thread;
    const int next = thread + e.step;
    Fiber &fiber = e.fibers[thread];
    if (((thread ^ next) & ~(WARP - 1)) != 0 || e.fibers[next].state != State::ready) {
        return yield_to_scheduler(state);
    }
    fiber.state = state;
    here.thread = next;
    switch_stacks(fiber.stack, e.fibers[next].stack);
}

void run_fiber() {
    engine->entry->invoke(engine->entry->kernel, engine->arguments);
    yield(State::ended);
    std::abort(); // a fiber that has ended is not resumed
}

INLINE void resume(int thread) {
    here.thread = thread;
    switch_stacks(engine->scheduler, engine->fibers[thread].stack);
}

// Lets the groups of a warp go on of which every lane exchanges values, and tells whether there was one.
bool complete_exchanges(int warp) {
    Engine &e = *engine;
    bool any = false;
    for (int lane = 0; lane < WARP; ++lane) {
        Fiber *warp_fibers = e.fibers + warp * WARP;
        const int lanes = warp_fibers[lane].lanes;
        if (warp_fibers[lane].state != State::exchanging || lane % lanes != 0) {
            continue;
        }
        int ready = 0;
        for (int k = 0; k < lanes; ++k) {
            const Fiber &fiber = warp_fibers[lane + k];
            ready += fiber.state == State::exchanging && fiber.lanes == lanes;
        }
        if (ready != lanes) {
            continue;
        }
        for (int k = 0; k < lanes; ++k) {
            Fiber &fiber = warp_fibers[lane + k];
            e.exchanged[lane + k] = fiber.bits;
            fiber.state = State::ready;
        }
        any = true;
    }
    return any;
}

// Runs a warp until all of its lanes wait at a barrier or have ended.
void run_warp(int warp) {
    Engine &e = *engine;
    for (;;) {
        for (int i = 0; i < WARP; ++i) {
            const int thread = warp * WARP + (e.step < 0 ? WARP - 1 - i : i);
            if (e.fibers[thread].state == State::ready) {
                // Lanes after it may run, too, before the scheduler goes on.
                resume(thread);
            }
            if (e.failed) {
                return;
            }
        }
        int exchanging = 0;
        for (int lane = 0; lane < WARP; ++lane) {
            exchanging += e.fibers[warp * WARP + lane].state == State::exchanging;
        }
        if (exchanging == 0) {
            return;
        }
        if (!complete_exchanges(warp)) {
            e.fail("lanes of a warp exchange values while others have ended or wait at a barrier");
            return;
        }
    }
}

void run_block(bool reverse) {
    Engine &e = *engine;
    e.step = reverse ? -1 : 1;
    // All bits set: NaN in every format.
    std::memset(e.shared, 0xff, sizeof e.shared);
    for (int thread = 0; thread < BLOCK; ++thread) {
        Fiber &fiber = e.fibers[thread];
        fiber.state = State::ready;
        fiber.shared = 0;
        fiber.stack.prepare(e.stacks[thread], STACK, run_fiber);
    }
    for (;;) {
        for (int i = 0; i < WARPS && !e.failed; ++i) {
            run_warp(reverse ? WARPS - 1 - i : i);
        }
        int waiting = 0;
        for (const Fiber &fiber : e.fibers) {
            waiting += fiber.state == State::waiting;
        }
        if (e.failed || waiting == 0) {
            return;
        }
        if (waiting != BLOCK) {
            e.fail("threads wait at a barrier that others have passed by");
            return;
        }
        for (Fiber &fiber : e.fibers) {
            fiber.state = State::ready;
        }
    }
}

Entry *entries = nullptr;

Entry::Entry(const char *name, const void *kernel, Invoke invoke, const unsigned char *sizes, std::size_t count)
    : name(name), kernel(kernel), invoke(invoke), sizes(sizes), count(count), next(entries) {
    entries = this;
}

void barrier() { yield(State::waiting); }

const std::uint64_t *exchange(std::uint64_t bits, int lanes) {
    current().bits = bits;
    current().lanes = lanes;
    yield(State::exchanging);
    return engine->exchanged + here.thread % WARP / lanes * lanes;
}

void *shared(std::size_t bytes) {
    Fiber &fiber = current();
    const std::size_t start = fiber.shared;
    fiber.shared = (start + bytes + 15) / 16 * 16;
    if (fiber.shared > SHARED_BYTES) {
        stop("an allocation of shared memory", static_cast<i64>(fiber.shared), SHARED_BYTES);
    }
    return engine->shared + start;
}

void stop(const char *what, i64 index, i64 len) {
    char text[160];
    std::snprintf(text, sizeof text, "%s at %lld of %lld by thread %d", what, index, len, here.thread);
    engine->fail(text);
    yield_to_scheduler(State::ended);
    std::abort(); // a fiber that has ended is not resumed
}

} // namespace sim

} // namespace

using namespace JOIN(terrace_sim, TERRACE_WARP);

// The kernel of a name, or null.
extern "C" const void *EXPORTED(_find)(const char *name) {
    for (const sim::Entry *entry = sim::entries; entry != nullptr; entry = entry->next) {
        if (std::strcmp(entry->name, name) == 0) {
            return entry;
        }
    }
    return nullptr;
}

// Room for launches, or null when there is no memory. One launch at a time uses it.
extern "C" void *EXPORTED(_create)() { return std::calloc(1, sizeof(sim::Engine)); }
extern "C" void EXPORTED(_destroy)(void *engine) { std::free(engine); }

// Runs all blocks of a kernel. Returns 0, or 1 with a message when the kernel did something wrong.
extern "C" int EXPORTED(_launch)(void *room, const void *kernel, long long blocks, void **arguments,
                                 const unsigned char *sizes, std::size_t count, int reverse, char *message,
                                 std::size_t message_len) {
    sim::Engine &engine = *static_cast<sim::Engine *>(room);
    sim::engine = &engine;
    engine.entry = static_cast<const sim::Entry *>(kernel);
    engine.arguments = arguments;
    engine.message = message;
    engine.message_len = message_len;
    engine.failed = false;
    if (count != engine.entry->count || std::memcmp(sizes, engine.entry->sizes, count) != 0) {
        sim::here = {0, 0, blocks};
        engine.fail("the arguments have not the number and the sizes that the kernel declares");
    }
    for (long long i = 0; i < blocks && !engine.failed; ++i) {
        sim::here.block = reverse != 0 ? blocks - 1 - i : i;
        sim::here.blocks = blocks;
        sim::run_block(reverse != 0);
    }
    return engine.failed ? 1 : 0;
}
