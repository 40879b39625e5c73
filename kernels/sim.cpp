// Runs kernels on the CPU; see sim.h. Blocks run one after the other on the calling thread, warps of a block too, from one barrier to the
// next. `reverse` turns both orders round: a result that changes with it is a race. Nothing here needs the C++ runtime library, so that
// programs which link the static library do not either.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
// Valgrind must know the stacks of fibers: it takes a switch between two of them for a change of one stack.
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define VALGRIND_STACK_REGISTER(begin, end) 0
#define VALGRIND_STACK_DEREGISTER(id) ((void)(id))
#endif

namespace terrace_sim {

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

enum class State : std::uint8_t { fresh, ready, exchanging, waiting, ended };

struct Fiber {
    // Where it was left.
    Stack stack;
    // The number of the stack that it runs on.
    int number;
    std::uint64_t bits;
    // Of the group that it exchanges with.
    int lanes;
    std::size_t shared;
};

// Sizes of groups: powers of two up to a warp.
constexpr int GROUP_SIZES = 6;

// What one launch at a time needs.
struct Engine {
    char stacks[BLOCK][STACK];
    // What valgrind calls them.
    unsigned stack_ids[BLOCK];
    // Numbers of the stacks that no fiber runs on: the one used last is taken first, so that few of them are in use where
    // threads do not wait for each other.
    int unused[BLOCK];
    int unused_count;
    // From a lane to the next one: 1, or -1 when the order is turned round.
    int step;
    alignas(16) char shared[SHARED_BYTES];
    // Bytes of it that were set to NaN for this block.
    std::size_t shared_ready;
    State states[BLOCK];
    Fiber fibers[BLOCK];
    // What the lanes of a warp got last in groups of each size. A lane has read it before its group exchanges again.
    std::uint64_t exchanged[GROUP_SIZES][WARP];
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
    bool can_run(int thread) const { return states[thread] <= State::ready; }
};

__thread Position here;

// Of the launch that this thread runs.
static thread_local Engine *engine = nullptr;

inline Fiber &current() { return engine->fibers[here.thread]; }

void run_fiber();

// A thread that has not run yet gets a stack.
INLINE void prepare(int thread) {
    Engine &e = *engine;
    if (e.states[thread] == State::fresh) {
        Fiber &fiber = e.fibers[thread];
        e.states[thread] = State::ready;
        fiber.number = e.unused[--e.unused_count];
        fiber.shared = 0;
        fiber.stack.prepare(e.stacks[fiber.number], STACK, run_fiber);
    }
}

INLINE void yield_to_scheduler(State state) {
    engine->states[here.thread] = state;
    switch_stacks(current().stack, engine->scheduler);
}

INLINE void yield_to(int next, State state) {
    Engine &e = *engine;
    Fiber &fiber = current();
    e.states[here.thread] = state;
    prepare(next);
    here.thread = next;
    switch_stacks(fiber.stack, e.fibers[next].stack);
}

// Whether there is a next lane of the warp that can run.
INLINE bool next_can_run(int next) { return ((here.thread ^ next) & ~(WARP - 1)) == 0 && engine->can_run(next); }

// Goes on with the next lane of the warp if it can run, else with the scheduler: half as many switches as by the scheduler alone.
INLINE void yield(State state) {
    const int next = here.thread + engine->step;
    if (next_can_run(next)) {
        yield_to(next, state);
    } else {
        yield_to_scheduler(state);
    }
}

// Runs a thread, and on the same stack those after it of the warp that have not started.
void run_fiber() {
    Engine &e = *engine;
    for (;;) {
        e.entry->invoke(e.entry->kernel, e.arguments);
        const int thread = here.thread;
        const int next = thread + e.step;
        if (!next_can_run(next) || e.states[next] != State::fresh) {
            break;
        }
        e.states[thread] = State::ended;
        e.states[next] = State::ready;
        e.fibers[next].number = e.fibers[thread].number;
        e.fibers[next].shared = 0;
        here.thread = next;
    }
    e.unused[e.unused_count++] = current().number;
    yield(State::ended);
    std::abort(); // a fiber that has ended is not resumed
}

INLINE void resume(int thread) {
    prepare(thread);
    here.thread = thread;
    switch_stacks(engine->scheduler, engine->fibers[thread].stack);
}

// Runs a warp until all of its lanes wait at a barrier or have ended.
void run_warp(int warp) {
    Engine &e = *engine;
    for (bool any = true; any;) {
        any = false;
        for (int i = 0; i < WARP; ++i) {
            const int thread = warp * WARP + (e.step < 0 ? WARP - 1 - i : i);
            if (e.can_run(thread)) {
                // Other lanes may run, too, before the scheduler goes on.
                resume(thread);
                any = true;
            }
            if (e.failed) {
                return;
            }
        }
    }
    for (int lane = 0; lane < WARP; ++lane) {
        if (e.states[warp * WARP + lane] == State::exchanging) {
            e.fail("lanes of a warp exchange values while others have ended or wait at a barrier");
            return;
        }
    }
}

void run_block(bool reverse) {
    Engine &e = *engine;
    e.step = reverse ? -1 : 1;
    e.shared_ready = 0;
    std::memset(e.states, static_cast<int>(State::fresh), sizeof e.states);
    for (;;) {
        for (int i = 0; i < WARPS && !e.failed; ++i) {
            run_warp(reverse ? WARPS - 1 - i : i);
        }
        int waiting = 0;
        for (const State &state : e.states) {
            waiting += state == State::waiting;
        }
        if (e.failed || waiting == 0) {
            return;
        }
        if (waiting != BLOCK) {
            e.fail("threads wait at a barrier that others have passed by");
            return;
        }
        std::memset(e.states, static_cast<int>(State::ready), sizeof e.states);
    }
}

Entry *entries = nullptr;

Entry::Entry(const char *name, const void *kernel, Invoke invoke, const unsigned char *sizes, std::size_t count)
    : name(name), kernel(kernel), invoke(invoke), sizes(sizes), count(count), next(entries) {
    entries = this;
}

void barrier() { yield(State::waiting); }

// Goes on when all lanes of the group have come: with the next lane until then, in a circle, so that a group runs on its own. The last one to
// come hands out the values, and runs on.
const std::uint64_t *exchange(std::uint64_t bits, int lanes) {
    Engine &e = *engine;
    const int thread = here.thread;
    const int first = thread & ~(lanes - 1);
    std::uint64_t *exchanged = e.exchanged[__builtin_ctz(static_cast<unsigned>(lanes))] + first % WARP;
    e.fibers[thread].bits = bits;
    e.fibers[thread].lanes = lanes;
    const int next = first + ((thread + e.step) & (lanes - 1));
    if (next != thread && e.can_run(next)) {
        yield_to(next, State::exchanging);
        return exchanged;
    }
    for (int k = first; k < first + lanes; ++k) {
        if (k != thread && (e.states[k] != State::exchanging || e.fibers[k].lanes != lanes)) {
            yield(State::exchanging);
            return exchanged;
        }
    }
    for (int k = 0; k < lanes; ++k) {
        exchanged[k] = e.fibers[first + k].bits;
    }
    std::memset(e.states + first, static_cast<int>(State::ready), static_cast<std::size_t>(lanes));
    return exchanged;
}

void *shared(std::size_t bytes) {
    Engine &e = *engine;
    Fiber &fiber = current();
    const std::size_t start = fiber.shared;
    fiber.shared = (start + bytes + 15) / 16 * 16;
    if (fiber.shared > SHARED_BYTES) {
        stop("an allocation of shared memory", static_cast<i64>(fiber.shared), SHARED_BYTES);
    }
    // The first thread of the block that comes here sets all bits: NaN in every format.
    if (fiber.shared > e.shared_ready) {
        std::memset(e.shared + e.shared_ready, 0xff, fiber.shared - e.shared_ready);
        e.shared_ready = fiber.shared;
    }
    return e.shared + start;
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

using namespace terrace_sim;

// The kernel of a name, or null.
extern "C" const void *terrace_sim_find(const char *name) {
    for (const sim::Entry *entry = sim::entries; entry != nullptr; entry = entry->next) {
        if (std::strcmp(entry->name, name) == 0) {
            return entry;
        }
    }
    return nullptr;
}

// An engine, or null when there is no memory. It runs one launch at a time.
extern "C" void *terrace_sim_create() {
    auto *e = static_cast<sim::Engine *>(std::calloc(1, sizeof(sim::Engine)));
    for (int k = 0; e && k < BLOCK; k++) {
        e->stack_ids[k] = VALGRIND_STACK_REGISTER(e->stacks[k], e->stacks[k] + sim::STACK);
    }
    return e;
}
extern "C" void terrace_sim_destroy(void *engine) {
    auto *e = static_cast<sim::Engine *>(engine);
    for (int k = 0; e && k < BLOCK; k++) {
        VALGRIND_STACK_DEREGISTER(e->stack_ids[k]);
    }
    std::free(engine);
}

// Runs all blocks of a kernel. Returns 0, or 1 with a message when the kernel did something wrong.
extern "C" int terrace_sim_launch(void *memory, const void *kernel, long long blocks, void **arguments,
                                 const unsigned char *sizes, std::size_t count, int reverse, char *message,
                                 std::size_t message_len) {
    sim::Engine &engine = *static_cast<sim::Engine *>(memory);
    sim::engine = &engine;
    engine.entry = static_cast<const sim::Entry *>(kernel);
    engine.arguments = arguments;
    engine.message = message;
    engine.message_len = message_len;
    engine.failed = false;
    for (int i = 0; i < BLOCK; ++i) {
        engine.unused[i] = i;
    }
    engine.unused_count = BLOCK;
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
