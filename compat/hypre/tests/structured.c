/*
 * A program for hypre's Struct interface, written against its public headers alone. It knows nothing of Terrace: the same executable runs with and
 * without libterrace_hypre.so. Each case solves for a known solution and fails when the error is above what the tolerance allows.
 *
 *   structured CASE [N]       prints the case, iterations, error, seconds of set-up and of solve
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mpi.h>

#include "HYPRE.h"
#include "HYPRE_struct_ls.h"

/* What a system is like. */
struct problem {
    int dimensions, points; /* 2 and 5, 3 and 7 or 27 */
    int symmetric;          /* half of the entries are stored */
    int boxes;              /* of the grid, along the last axis */
    int periodic;           /* along x, with a diagonal that is 0.1 larger */
    double strong, jump;    /* couplings along the last axis, and in its upper half */
    double wind;            /* along x */
};

/* A grid and its system. */
struct system {
    struct problem is;
    int cells[3], stored, offsets[27][3];
    HYPRE_StructGrid grid;
    HYPRE_StructStencil stencil;
    HYPRE_StructMatrix A;
    HYPRE_StructVector b, x, known;
};

static const struct problem laplacian7 = {3, 7, 0, 1, 0, 1, 1, 0};
/* The first cell. */
static const HYPRE_Int origin[3] = {3, -2, 5};
static int failed;
static double setup_seconds, solve_seconds;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

/* Step number 0 to 26; 13 is none. Whether the stencil has it. */
static int step_of(const struct problem *is, int number, int step[3])
{
    int moves = 0;
    for (int axis = 0; axis < 3; axis++) {
        step[axis] = (axis == 0 ? number % 3 : axis == 1 ? number / 3 % 3 : number / 9) - 1;
        moves += step[axis] != 0;
    }
    return (step[2] == 0 || is->dimensions == 3) && (moves < 2 || is->points == 27);
}

/* The stiffness of the coupling of a cell with its neighbour. */
static double stiffness(const struct system *s, const int *step, int at_last)
{
    int last = s->is.dimensions - 1, lower = step[last] < 0 ? at_last - 1 : at_last;
    return (step[last] != 0 ? s->is.strong : 1) * (lower >= s->cells[last] / 2 ? s->is.jump : 1);
}

static double entry(const struct system *s, const int *step, int at_last)
{
    double sum = s->is.periodic ? 0.1 : 0;
    if (step[0] != 0 || step[1] != 0 || step[2] != 0)
        return -stiffness(s, step, at_last) + s->is.wind * step[0];
    for (int number = 0, other[3]; number < 27; number++)
        if (number != 13 && step_of(&s->is, number, other))
            sum += stiffness(s, other, at_last);
    return sum;
}

static void each_cell(struct system *s, void (*call)(struct system *, const int *, HYPRE_Int *))
{
    int at[3];
    for (at[2] = 0; at[2] < s->cells[2]; at[2]++)
        for (at[1] = 0; at[1] < s->cells[1]; at[1]++)
            for (at[0] = 0; at[0] < s->cells[0]; at[0]++) {
                HYPRE_Int index[3] = {origin[0] + at[0], origin[1] + at[1], origin[2] + at[2]};
                call(s, at, index);
            }
}

static void set_row(struct system *s, const int *at, HYPRE_Int *index)
{
    for (HYPRE_Int point = 0; point < s->stored; point++) {
        double value = entry(s, s->offsets[point], at[s->is.dimensions - 1]);
        for (int axis = 0; axis < 3; axis++) {
            int next = at[axis] + s->offsets[point][axis];
            if ((next < 0 || next >= s->cells[axis]) && !(axis == 0 && s->is.periodic))
                value = 0;
        }
        HYPRE_StructMatrixSetValues(s->A, index, 1, &point, &value);
    }
}

static void set_known(struct system *s, const int *at, HYPRE_Int *index)
{
    int row = at[0] + s->cells[0] * (at[1] + s->cells[1] * at[2]);
    HYPRE_StructVectorSetValues(s->known, index, 0.5 + (double)((row * 7919 + 13) % 1009) / 1009);
}

static HYPRE_StructVector vector(struct system *s)
{
    HYPRE_StructVector v;
    HYPRE_StructVectorCreate(MPI_COMM_WORLD, s->grid, &v);
    HYPRE_StructVectorInitialize(v);
    HYPRE_StructVectorSetConstantValues(v, 0.0);
    HYPRE_StructVectorAssemble(v);
    return v;
}

/* The values of the problem as it is now, the right-hand side of the known solution, and a zero guess. */
static void fill(struct system *s)
{
    each_cell(s, set_row);
    HYPRE_StructMatrixAssemble(s->A);
    each_cell(s, set_known);
    HYPRE_StructVectorAssemble(s->known);
    HYPRE_StructMatrixMatvec(1.0, s->A, s->known, 0.0, s->b);
    HYPRE_StructVectorSetConstantValues(s->x, 0.0);
}

static void make(struct system *s, int n, struct problem is)
{
    HYPRE_Int lower[3], upper[3], period[3] = {0};
    int last = is.dimensions - 1;
    memset(s, 0, sizeof *s);
    s->is = is;
    for (int axis = 0; axis < 3; axis++) {
        s->cells[axis] = axis < is.dimensions ? n + (axis > 0) : 1;
        lower[axis] = origin[axis];
        upper[axis] = origin[axis] + s->cells[axis] - 1;
    }
    HYPRE_StructGridCreate(MPI_COMM_WORLD, is.dimensions, &s->grid);
    for (int box = 0; box < is.boxes; box++) {
        lower[last] = origin[last] + s->cells[last] * box / is.boxes;
        upper[last] = origin[last] + s->cells[last] * (box + 1) / is.boxes - 1;
        HYPRE_StructGridSetExtents(s->grid, lower, upper);
    }
    period[0] = is.periodic ? s->cells[0] : 0;
    HYPRE_StructGridSetPeriodic(s->grid, period);
    HYPRE_StructGridAssemble(s->grid);
    for (int number = 0; number < 27; number++)
        if (step_of(&is, number, s->offsets[s->stored]) && (!is.symmetric || number <= 13))
            s->stored++;
    HYPRE_StructStencilCreate(is.dimensions, s->stored, &s->stencil);
    for (HYPRE_Int point = 0; point < s->stored; point++)
        HYPRE_StructStencilSetElement(s->stencil, point, s->offsets[point]);
    HYPRE_StructMatrixCreate(MPI_COMM_WORLD, s->grid, s->stencil, &s->A);
    HYPRE_StructMatrixSetSymmetric(s->A, is.symmetric);
    HYPRE_StructMatrixInitialize(s->A);
    s->b = vector(s);
    s->x = vector(s);
    s->known = vector(s);
    fill(s);
}

static void end(struct system *s)
{
    HYPRE_StructVectorDestroy(s->b);
    HYPRE_StructVectorDestroy(s->x);
    HYPRE_StructVectorDestroy(s->known);
    HYPRE_StructMatrixDestroy(s->A);
    HYPRE_StructStencilDestroy(s->stencil);
    HYPRE_StructGridDestroy(s->grid);
}

static double largest;

static void compare(struct system *s, const int *at, HYPRE_Int *index)
{
    double x, known;
    (void)at;
    HYPRE_StructVectorGetValues(s->x, index, &x);
    HYPRE_StructVectorGetValues(s->known, index, &known);
    largest = fmax(largest, fabs(x - known));
}

static void tell(const char *name, HYPRE_Int iterations, struct system *s, double bound)
{
    largest = 0;
    each_cell(s, compare);
    failed |= !(largest <= bound);
    printf("%s iterations %d error %.2e setup %.4f solve %.4f%s\n", name, (int)iterations, largest, setup_seconds, solve_seconds, largest <= bound ? "" : " FAILED");
}

/* PFMG or SMG by itself to 1e-9. */
static HYPRE_StructSolver alone(int smg)
{
    HYPRE_StructSolver solver;
    HYPRE_Real tolerance = 0;
    smg ? HYPRE_StructSMGCreate(MPI_COMM_WORLD, &solver) : HYPRE_StructPFMGCreate(MPI_COMM_WORLD, &solver);
    smg ? HYPRE_StructSMGSetTol(solver, 1e-9) : HYPRE_StructPFMGSetTol(solver, 1e-9);
    smg ? HYPRE_StructSMGSetMaxIter(solver, 100) : HYPRE_StructPFMGSetMaxIter(solver, 100);
    smg ? HYPRE_StructSMGSetLogging(solver, 1) : HYPRE_StructPFMGSetLogging(solver, 1);
    smg ? HYPRE_StructSMGGetTol(solver, &tolerance) : HYPRE_StructPFMGGetTol(solver, &tolerance);
    failed |= tolerance != 1e-9;
    return solver;
}

static HYPRE_Int solve_alone(HYPRE_StructSolver solver, int smg, struct system *s)
{
    HYPRE_Int iterations = 0;
    HYPRE_Real norm = 1;
    double start = seconds();
    failed |= (smg ? HYPRE_StructSMGSetup : HYPRE_StructPFMGSetup)(solver, s->A, s->b, s->x) != 0;
    setup_seconds = seconds() - start;
    start = seconds();
    failed |= (smg ? HYPRE_StructSMGSolve : HYPRE_StructPFMGSolve)(solver, s->A, s->b, s->x) != 0;
    solve_seconds = seconds() - start;
    (smg ? HYPRE_StructSMGGetNumIterations : HYPRE_StructPFMGGetNumIterations)(solver, &iterations);
    (smg ? HYPRE_StructSMGGetFinalRelativeResidualNorm : HYPRE_StructPFMGGetFinalRelativeResidualNorm)(solver, &norm);
    if (!(norm > 0 && norm < 1e-9)) {
        printf("relative residual %e\n", (double)norm);
        failed = 1;
    }
    return iterations;
}

static void destroy(HYPRE_StructSolver solver, int smg) { smg ? HYPRE_StructSMGDestroy(solver) : HYPRE_StructPFMGDestroy(solver); }

static void halve(struct system *s, const int *at, HYPRE_Int *index)
{
    double x;
    (void)at;
    HYPRE_StructVectorGetValues(s->x, index, &x);
    HYPRE_StructVectorSetValues(s->x, index, 0.5 * x);
}

/* By itself. The guess of a second solve is the solution, and of a third one half of it. */
static void case_alone(const char *name, int n, int smg, struct problem is)
{
    struct system s;
    make(&s, n, is);
    HYPRE_StructSolver solver = alone(smg);
    HYPRE_Int iterations = solve_alone(solver, smg, &s), again;
    tell(name, iterations, &s, 1e-6);
    again = solve_alone(solver, smg, &s);
    failed |= again > 2;
    each_cell(&s, halve);
    again = solve_alone(solver, smg, &s);
    failed |= again > iterations + 2;
    largest = 0;
    each_cell(&s, compare);
    failed |= !(largest < 1e-6);
    destroy(solver, smg);
    end(&s);
}

/* As the preconditioner of CG to 1e-9. */
static void case_pcg(const char *name, int n, int smg, struct problem is)
{
    struct system s;
    HYPRE_StructSolver solver, pcg;
    HYPRE_Int iterations;
    make(&s, n, is);
    smg ? HYPRE_StructSMGCreate(MPI_COMM_WORLD, &solver) : HYPRE_StructPFMGCreate(MPI_COMM_WORLD, &solver);
    smg ? HYPRE_StructSMGSetTol(solver, 0.0) : HYPRE_StructPFMGSetTol(solver, 0.0);
    smg ? HYPRE_StructSMGSetMaxIter(solver, 1) : HYPRE_StructPFMGSetMaxIter(solver, 1);
    smg ? HYPRE_StructSMGSetZeroGuess(solver) : HYPRE_StructPFMGSetZeroGuess(solver);
    HYPRE_StructPCGCreate(MPI_COMM_WORLD, &pcg);
    HYPRE_StructPCGSetTol(pcg, 1e-9);
    HYPRE_StructPCGSetTwoNorm(pcg, 1);
    HYPRE_StructPCGSetMaxIter(pcg, 100);
    HYPRE_StructPCGSetPrecond(pcg, smg ? HYPRE_StructSMGSolve : HYPRE_StructPFMGSolve, smg ? HYPRE_StructSMGSetup : HYPRE_StructPFMGSetup, solver);
    double start = seconds();
    HYPRE_StructPCGSetup(pcg, s.A, s.b, s.x);
    setup_seconds = seconds() - start;
    start = seconds();
    failed |= HYPRE_StructPCGSolve(pcg, s.A, s.b, s.x) != 0;
    solve_seconds = seconds() - start;
    HYPRE_StructPCGGetNumIterations(pcg, &iterations);
    tell(name, iterations, &s, 1e-6);
    HYPRE_StructPCGDestroy(pcg);
    destroy(solver, smg);
    end(&s);
}

/* New values in the grid of a system. */
static void refill(struct system *s, double strong, double jump)
{
    s->is.strong = strong;
    s->is.jump = jump;
    HYPRE_StructMatrixInitialize(s->A);
    fill(s);
}

/* Other values on the same grid, then with another relaxation. */
static void case_update(int n)
{
    struct system s;
    make(&s, n, laplacian7);
    HYPRE_StructSolver solver = alone(0);
    solve_alone(solver, 0, &s);
    refill(&s, 1, 100);
    tell("update", solve_alone(solver, 0, &s), &s, 1e-5);
    HYPRE_StructPFMGSetRelaxType(solver, 2);
    HYPRE_StructPFMGSetRelChange(solver, 1);
    HYPRE_StructVectorSetConstantValues(s.x, 0.0);
    tell("red_black", solve_alone(solver, 0, &s), &s, 1e-5);
    destroy(solver, 0);
    end(&s);
}

/* Other strong axes than at set-up. */
static void case_turned(int n)
{
    struct system s;
    make(&s, n, laplacian7);
    HYPRE_StructSolver solver = alone(0);
    solve_alone(solver, 0, &s);
    refill(&s, 1000, 1);
    HYPRE_Int iterations = solve_alone(solver, 0, &s);
    failed |= iterations > 30;
    tell("turned", iterations, &s, 1e-5);
    destroy(solver, 0);
    end(&s);
}

/* The same entries in every cell, stored once. */
static void case_constant(int n)
{
    struct system s;
    HYPRE_Int entries[7];
    HYPRE_Real values[7];
    HYPRE_StructMatrix constant;
    make(&s, n, laplacian7);
    HYPRE_StructMatrixCreate(MPI_COMM_WORLD, s.grid, s.stencil, &constant);
    for (HYPRE_Int point = 0; point < 7; point++) {
        entries[point] = point;
        values[point] = entry(&s, s.offsets[point], 1);
    }
    HYPRE_StructMatrixSetConstantEntries(constant, 7, entries);
    HYPRE_StructMatrixInitialize(constant);
    HYPRE_StructMatrixSetConstantValues(constant, 7, entries, values);
    HYPRE_StructMatrixAssemble(constant);
    HYPRE_StructMatrixDestroy(s.A);
    s.A = constant;
    HYPRE_StructSolver solver = alone(0);
    tell("constant", solve_alone(solver, 0, &s), &s, 1e-6);
    destroy(solver, 0);
    end(&s);
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        int smg, pcg, n;
        struct problem is;
    } cases[] = {
        {"pfmg7", 0, 0, 16, {3, 7, 0, 1, 0, 1, 1, 0}},
        {"pfmg27", 0, 0, 12, {3, 27, 0, 1, 0, 1, 1, 0}},
        {"smg7", 1, 0, 10, {3, 7, 0, 1, 0, 1, 1, 0}},
        {"smg27", 1, 0, 10, {3, 27, 0, 1, 0, 1, 1, 0}},
        {"pcg7", 0, 1, 16, {3, 7, 0, 1, 0, 1, 1, 0}},
        {"pcg27", 0, 1, 12, {3, 27, 0, 1, 0, 1, 1, 0}},
        {"smg_pcg7", 1, 1, 10, {3, 7, 0, 1, 0, 1, 1, 0}},
        {"half7", 0, 1, 12, {3, 7, 1, 1, 0, 1, 10, 0}},
        {"half27", 0, 1, 10, {3, 27, 1, 1, 0, 1, 10, 0}},
        {"strong", 0, 1, 12, {3, 7, 0, 1, 0, 100, 1, 0}},
        {"strong_smg", 1, 1, 10, {3, 7, 0, 1, 0, 100, 1, 0}},
        {"plane", 0, 0, 30, {2, 5, 0, 1, 0, 1, 1, 0}},
        {"periodic", 0, 1, 16, {3, 7, 1, 1, 1, 1, 1, 0}},
        {"wind", 0, 0, 16, {3, 7, 0, 1, 0, 1, 1, 0.4}},
        {"boxes", 0, 1, 12, {3, 7, 0, 2, 0, 1, 1, 0}},
    };
    const char *name = count > 1 ? arguments[1] : "all";
    int n = count > 2 ? atoi(arguments[2]) : 0, all = strcmp(name, "all") == 0;
    MPI_Init(&count, &arguments);
    HYPRE_Init();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (all || !strcmp(name, cases[i].name))
            (cases[i].pcg ? case_pcg : case_alone)(cases[i].name, n ? n : cases[i].n, cases[i].smg, cases[i].is);
    if (all || !strcmp(name, "update"))
        case_update(n ? n : 12);
    if (!strcmp(name, "turned"))
        case_turned(n ? n : 12);
    if (all || !strcmp(name, "constant"))
        case_constant(n ? n : 12);
    HYPRE_Finalize();
    MPI_Finalize();
    return failed;
}
