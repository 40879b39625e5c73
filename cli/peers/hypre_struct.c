/* Peer for `terrace bench grid-peers`: CG or GMRES of hypre on structured grids, preconditioned by PFMG, SMG or SysPFMG, on a system written by it.
 *
 *   mpirun -np N hypre_struct FILE pfmg|pfmg-rb|smg|syspfmg cg|gmres REPEAT
 *
 * The file holds int64 cells along x, y and z, unknowns of a cell and offsets; three int32 for each offset; f64 values, one array over all cells for
 * each entry of the blocks of each offset; and the f64 right-hand side. Ranks have slabs along z.
 * Prints one line of JSON: medians in seconds, iterations (at most 500), relative residual, and the peak memory of all ranks together.
 */
#include "arrays.h"
#include <HYPRE.h>
#include <HYPRE_krylov.h>
#include <HYPRE_sstruct_ls.h>
#include <HYPRE_struct_ls.h>
#include <_hypre_sstruct_mv.h> /* HYPRE_SStructVectorSetConstantValues */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* What this rank has of the system. */
typedef struct {
    int low[3], high[3], unknowns, count, *offsets;
    size_t cells;
    double *values; /* [unknown][unknown][cell][offset] */
    double *rhs;    /* [unknown][cell] */
} System;

static System read_system(const char *name, int rank, int ranks) {
    FILE *file = fopen(name, "rb");
    if (file == NULL) exit(2);
    int64_t *head = read_array(file, 5, sizeof *head);
    System s;
    int nx = (int)head[0], ny = (int)head[1], nz = (int)head[2], u = (int)head[3];
    s.unknowns = u;
    s.count = (int)head[4];
    s.offsets = read_array(file, 3 * (size_t)s.count, sizeof *s.offsets);
    int first = (int)((int64_t)nz * rank / ranks), last = (int)((int64_t)nz * (rank + 1) / ranks);
    int low[3] = {0, 0, first}, high[3] = {nx - 1, ny - 1, last - 1};
    memcpy(s.low, low, sizeof low);
    memcpy(s.high, high, sizeof high);
    size_t plane = (size_t)nx * (size_t)ny, all = plane * (size_t)nz, skip = plane * (size_t)first;
    s.cells = plane * (size_t)(last - first);
    size_t count = (size_t)s.count;
    s.values = allocate(s.cells * count * (size_t)(u * u) * sizeof *s.values);
    s.rhs = allocate(s.cells * (size_t)u * sizeof *s.rhs);
    size_t begin = 5 * 8 + 12 * (size_t)s.count;
    for (int k = 0; k < s.count; ++k)
        for (int r = 0; r < u; ++r)
            for (int c = 0; c < u; ++c) {
                fseek(file, (long)(begin + 8 * (((size_t)((k * u + r) * u + c)) * all + skip)), SEEK_SET);
                double *array = read_array(file, s.cells, sizeof *array);
                for (size_t i = 0; i < s.cells; ++i) s.values[((size_t)(r * u + c) * s.cells + i) * count + (size_t)k] = array[i];
                free(array);
            }
    fseek(file, (long)(begin + 8 * ((size_t)(s.count * u * u) * all + skip * (size_t)u)), SEEK_SET);
    double *rhs = read_array(file, s.cells * (size_t)u, sizeof *rhs);
    for (size_t i = 0; i < s.cells; ++i)
        for (int r = 0; r < u; ++r) s.rhs[(size_t)r * s.cells + i] = rhs[i * (size_t)u + (size_t)r];
    free(rhs);
    free(head);
    fclose(file);
    return s;
}

/* Seconds of set-up and solve, iterations, relative residual. */
typedef struct {
    double setup, solve, residual;
    int iterations;
} Run;

typedef struct {
    HYPRE_StructMatrix a;
    HYPRE_StructVector b, x;
} Scalar;

static Scalar scalar_system(const System *s) {
    HYPRE_StructGrid grid;
    HYPRE_StructGridCreate(MPI_COMM_WORLD, 3, &grid);
    HYPRE_StructGridSetExtents(grid, (int *)s->low, (int *)s->high);
    HYPRE_StructGridAssemble(grid);
    HYPRE_StructStencil stencil;
    HYPRE_StructStencilCreate(3, s->count, &stencil);
    int *entries = allocate((size_t)s->count * sizeof *entries);
    for (int k = 0; k < s->count; ++k) {
        HYPRE_StructStencilSetElement(stencil, k, s->offsets + 3 * k);
        entries[k] = k;
    }
    Scalar made;
    HYPRE_StructMatrixCreate(MPI_COMM_WORLD, grid, stencil, &made.a);
    HYPRE_StructMatrixInitialize(made.a);
    HYPRE_StructMatrixSetBoxValues(made.a, (int *)s->low, (int *)s->high, s->count, entries, s->values);
    HYPRE_StructMatrixAssemble(made.a);
    HYPRE_StructVector *vectors[2] = {&made.b, &made.x};
    for (int v = 0; v < 2; ++v) {
        HYPRE_StructVectorCreate(MPI_COMM_WORLD, grid, vectors[v]);
        HYPRE_StructVectorInitialize(*vectors[v]);
        HYPRE_StructVectorSetBoxValues(*vectors[v], (int *)s->low, (int *)s->high, s->rhs);
        HYPRE_StructVectorAssemble(*vectors[v]);
    }
    free(entries);
    return made;
}

/* One cycle of PFMG, with weighted Jacobi (the default) or red-black Gauss-Seidel, or of SMG. */
static HYPRE_StructSolver struct_preconditioner(const char *method) {
    HYPRE_StructSolver inverse;
    if (strcmp(method, "smg") == 0) {
        HYPRE_StructSMGCreate(MPI_COMM_WORLD, &inverse);
        HYPRE_StructSMGSetMemoryUse(inverse, 0);
        HYPRE_StructSMGSetMaxIter(inverse, 1);
        HYPRE_StructSMGSetTol(inverse, 0.0);
        HYPRE_StructSMGSetZeroGuess(inverse);
        HYPRE_StructSMGSetNumPreRelax(inverse, 1);
        HYPRE_StructSMGSetNumPostRelax(inverse, 1);
        return inverse;
    }
    HYPRE_StructPFMGCreate(MPI_COMM_WORLD, &inverse);
    HYPRE_StructPFMGSetMaxIter(inverse, 1);
    HYPRE_StructPFMGSetTol(inverse, 0.0);
    HYPRE_StructPFMGSetZeroGuess(inverse);
    HYPRE_StructPFMGSetRelaxType(inverse, strcmp(method, "pfmg-rb") == 0 ? 2 : 1);
    return inverse;
}

static Run scalar_run(const Scalar *s, const char *method, int gmres) {
    int smg = strcmp(method, "smg") == 0;
    HYPRE_StructSolver inverse = struct_preconditioner(method), krylov;
    HYPRE_PtrToStructSolverFcn solve = smg ? HYPRE_StructSMGSolve : HYPRE_StructPFMGSolve;
    HYPRE_PtrToStructSolverFcn setup = smg ? HYPRE_StructSMGSetup : HYPRE_StructPFMGSetup;
    HYPRE_StructVectorSetConstantValues(s->x, 0.0);
    if (gmres) {
        HYPRE_StructGMRESCreate(MPI_COMM_WORLD, &krylov);
        HYPRE_StructGMRESSetTol(krylov, 1e-8);
        HYPRE_StructGMRESSetMaxIter(krylov, 500);
        HYPRE_GMRESSetKDim((HYPRE_Solver)krylov, 100);
        HYPRE_StructGMRESSetPrecond(krylov, solve, setup, inverse);
    } else {
        HYPRE_StructPCGCreate(MPI_COMM_WORLD, &krylov);
        HYPRE_StructPCGSetTol(krylov, 1e-8);
        HYPRE_StructPCGSetMaxIter(krylov, 500);
        HYPRE_StructPCGSetTwoNorm(krylov, 1);
        HYPRE_StructPCGSetPrecond(krylov, solve, setup, inverse);
    }
    Run run;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    if (gmres) HYPRE_StructGMRESSetup(krylov, s->a, s->b, s->x);
    else HYPRE_StructPCGSetup(krylov, s->a, s->b, s->x);
    MPI_Barrier(MPI_COMM_WORLD);
    run.setup = MPI_Wtime() - start;
    start = MPI_Wtime();
    if (gmres) HYPRE_StructGMRESSolve(krylov, s->a, s->b, s->x);
    else HYPRE_StructPCGSolve(krylov, s->a, s->b, s->x);
    MPI_Barrier(MPI_COMM_WORLD);
    run.solve = MPI_Wtime() - start;
    if (gmres) {
        HYPRE_StructGMRESGetNumIterations(krylov, &run.iterations);
        HYPRE_StructGMRESGetFinalRelativeResidualNorm(krylov, &run.residual);
        HYPRE_StructGMRESDestroy(krylov);
    } else {
        HYPRE_StructPCGGetNumIterations(krylov, &run.iterations);
        HYPRE_StructPCGGetFinalRelativeResidualNorm(krylov, &run.residual);
        HYPRE_StructPCGDestroy(krylov);
    }
    if (smg) HYPRE_StructSMGDestroy(inverse);
    else HYPRE_StructPFMGDestroy(inverse);
    return run;
}

typedef struct {
    HYPRE_SStructMatrix a;
    HYPRE_SStructVector b, x;
} Vector;

static Vector vector_system(const System *s) {
    int u = s->unknowns, size = s->count * u;
    HYPRE_SStructGrid grid;
    HYPRE_SStructGridCreate(MPI_COMM_WORLD, 3, 1, &grid);
    HYPRE_SStructGridSetExtents(grid, 0, (int *)s->low, (int *)s->high);
    HYPRE_SStructVariable *kinds = allocate((size_t)u * sizeof *kinds);
    for (int r = 0; r < u; ++r) kinds[r] = HYPRE_SSTRUCT_VARIABLE_CELL;
    HYPRE_SStructGridSetVariables(grid, 0, u, kinds);
    HYPRE_SStructGridAssemble(grid);
    HYPRE_SStructGraph graph;
    HYPRE_SStructGraphCreate(MPI_COMM_WORLD, grid, &graph);
    HYPRE_SStructGraphSetObjectType(graph, HYPRE_SSTRUCT);
    int *entries = allocate((size_t)s->count * sizeof *entries);
    for (int r = 0; r < u; ++r) {
        HYPRE_SStructStencil stencil;
        HYPRE_SStructStencilCreate(3, size, &stencil);
        for (int e = 0; e < size; ++e) HYPRE_SStructStencilSetEntry(stencil, e, s->offsets + 3 * (e / u), e % u);
        HYPRE_SStructGraphSetStencil(graph, 0, r, stencil);
    }
    HYPRE_SStructGraphAssemble(graph);
    Vector made;
    HYPRE_SStructMatrixCreate(MPI_COMM_WORLD, graph, &made.a);
    HYPRE_SStructMatrixSetObjectType(made.a, HYPRE_SSTRUCT);
    HYPRE_SStructMatrixInitialize(made.a);
    /* The entries of a call lead to one unknown. */
    for (int r = 0; r < u; ++r)
        for (int c = 0; c < u; ++c) {
            for (int k = 0; k < s->count; ++k) entries[k] = k * u + c;
            double *values = s->values + (size_t)(r * u + c) * s->cells * (size_t)s->count;
            HYPRE_SStructMatrixSetBoxValues(made.a, 0, (int *)s->low, (int *)s->high, r, s->count, entries, values);
        }
    HYPRE_SStructMatrixAssemble(made.a);
    HYPRE_SStructVector *vectors[2] = {&made.b, &made.x};
    for (int v = 0; v < 2; ++v) {
        HYPRE_SStructVectorCreate(MPI_COMM_WORLD, grid, vectors[v]);
        HYPRE_SStructVectorSetObjectType(*vectors[v], HYPRE_SSTRUCT);
        HYPRE_SStructVectorInitialize(*vectors[v]);
        for (int r = 0; r < u; ++r)
            HYPRE_SStructVectorSetBoxValues(*vectors[v], 0, (int *)s->low, (int *)s->high, r, s->rhs + (size_t)r * s->cells);
        HYPRE_SStructVectorAssemble(*vectors[v]);
    }
    free(entries);
    return made;
}

static Run vector_run(const Vector *s, int gmres) {
    HYPRE_SStructSolver inverse, krylov;
    HYPRE_SStructSysPFMGCreate(MPI_COMM_WORLD, &inverse);
    HYPRE_SStructSysPFMGSetMaxIter(inverse, 1);
    HYPRE_SStructSysPFMGSetTol(inverse, 0.0);
    HYPRE_SStructSysPFMGSetZeroGuess(inverse);
    HYPRE_SStructVectorSetConstantValues(s->x, 0.0);
    if (gmres) {
        HYPRE_SStructGMRESCreate(MPI_COMM_WORLD, &krylov);
        HYPRE_SStructGMRESSetTol(krylov, 1e-8);
        HYPRE_SStructGMRESSetMaxIter(krylov, 500);
        HYPRE_SStructGMRESSetKDim(krylov, 100);
        HYPRE_SStructGMRESSetPrecond(krylov, HYPRE_SStructSysPFMGSolve, HYPRE_SStructSysPFMGSetup, inverse);
    } else {
        HYPRE_SStructPCGCreate(MPI_COMM_WORLD, &krylov);
        HYPRE_SStructPCGSetTol(krylov, 1e-8);
        HYPRE_SStructPCGSetMaxIter(krylov, 500);
        HYPRE_SStructPCGSetTwoNorm(krylov, 1);
        HYPRE_SStructPCGSetPrecond(krylov, HYPRE_SStructSysPFMGSolve, HYPRE_SStructSysPFMGSetup, inverse);
    }
    Run run;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    if (gmres) HYPRE_SStructGMRESSetup(krylov, s->a, s->b, s->x);
    else HYPRE_SStructPCGSetup(krylov, s->a, s->b, s->x);
    MPI_Barrier(MPI_COMM_WORLD);
    run.setup = MPI_Wtime() - start;
    start = MPI_Wtime();
    if (gmres) HYPRE_SStructGMRESSolve(krylov, s->a, s->b, s->x);
    else HYPRE_SStructPCGSolve(krylov, s->a, s->b, s->x);
    MPI_Barrier(MPI_COMM_WORLD);
    run.solve = MPI_Wtime() - start;
    if (gmres) {
        HYPRE_SStructGMRESGetNumIterations(krylov, &run.iterations);
        HYPRE_SStructGMRESGetFinalRelativeResidualNorm(krylov, &run.residual);
        HYPRE_SStructGMRESDestroy(krylov);
    } else {
        HYPRE_SStructPCGGetNumIterations(krylov, &run.iterations);
        HYPRE_SStructPCGGetFinalRelativeResidualNorm(krylov, &run.residual);
        HYPRE_SStructPCGDestroy(krylov);
    }
    HYPRE_SStructSysPFMGDestroy(inverse);
    return run;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 5) return 2;
    const char *method = argv[2];
    int gmres = strcmp(argv[3], "gmres") == 0, repeat = atoi(argv[4]), is_vector = strcmp(method, "syspfmg") == 0;
    System system = read_system(argv[1], rank, ranks);
    HYPRE_Init();
    Scalar scalar = {0};
    Vector vector = {0};
    if (is_vector) vector = vector_system(&system);
    else scalar = scalar_system(&system);
    free(system.values);
    free(system.rhs);
    double *setups = allocate((size_t)repeat * sizeof *setups), *solves = allocate((size_t)repeat * sizeof *solves);
    Run run = {0};
    for (int r = 0; r < repeat; ++r) {
        run = is_vector ? vector_run(&vector, gmres) : scalar_run(&scalar, method, gmres);
        setups[r] = run.setup;
        solves[r] = run.solve;
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double peak = 1024.0 * (double)usage.ru_maxrss, all = 0.0;
    MPI_Reduce(&peak, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        qsort(setups, (size_t)repeat, sizeof *setups, ascending);
        qsort(solves, (size_t)repeat, sizeof *solves, ascending);
        printf("{\"version\": \"%s\", \"setup_seconds\": %.6f, \"solve_seconds\": %.6f, \"iterations\": %d, \"residual\": %.3e, \"peak_bytes\": %.0f}\n",
               HYPRE_RELEASE_VERSION, setups[repeat / 2], solves[repeat / 2], run.iterations, run.residual, all);
    }
    MPI_Finalize();
    return 0;
}
