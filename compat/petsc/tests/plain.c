/* A program that knows nothing of Terrace: the preconditioner comes from the command line, -dll_append libterrace_petsc.so -pc_type terrace, or
   -pc_type hypre with libterrace_hypre.so preloaded. */

#include <petscksp.h>

int main(int argc, char **argv)
{
  const PetscInt n = 1000;
  PetscInt       i, iterations;
  PetscReal      norm;
  Mat            matrix;
  Vec            b, x;
  KSP            ksp;
  PC             pc;
  PCType         type;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
  PetscCall(MatCreateSeqAIJ(PETSC_COMM_WORLD, n, n, 3, NULL, &matrix));
  for (i = 0; i < n; i++) {
    PetscCall(MatSetValue(matrix, i, i, 2.0, INSERT_VALUES));
    if (i > 0) PetscCall(MatSetValue(matrix, i, i - 1, -1.0, INSERT_VALUES));
    if (i < n - 1) PetscCall(MatSetValue(matrix, i, i + 1, -1.0, INSERT_VALUES));
  }
  PetscCall(MatAssemblyBegin(matrix, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(matrix, MAT_FINAL_ASSEMBLY));
  PetscCall(MatCreateVecs(matrix, &x, &b));
  PetscCall(VecSet(b, 1.0));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOperators(ksp, matrix, matrix));
  PetscCall(KSPSetType(ksp, KSPCG));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(KSPGetIterationNumber(ksp, &iterations));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCGetType(pc, &type));
  PetscCall(VecNorm(x, NORM_2, &norm));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%s: %" PetscInt_FMT " iterations, norm %.6e\n", type, iterations, (double)norm));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(MatDestroy(&matrix));
  PetscCall(PetscFinalize());
  return 0;
}
