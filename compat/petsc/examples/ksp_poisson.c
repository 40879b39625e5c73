/*
 * A Poisson problem on a square or cube, solved with KSP. Three lines make Terrace its preconditioner: the include, the registration, and
 * PCSetType(), which -pc_type on the command line overrides.
 *
 *     ksp_poisson -n 40 -dimension 3 [-convection 0.5] [-transpose] [-mat_type aij] [-ksp_view] [-pc_type gamg]
 *
 * With -convection the matrix is not symmetric, and the method is GMRES. With -transpose the system is that of the transposed matrix.
 */

#include <terrace_petsc.h>

/* Rows of the 5- or 7-point Laplacian on n points in each direction, with an upwind difference in the first. */
static PetscErrorCode Assemble(PetscInt n, PetscInt dimension, PetscReal convection, Mat *matrix)
{
  PetscInt  rows = dimension == 2 ? n * n : n * n * n, row, first, last, d, stride;
  PetscBool is_half;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, matrix));
  PetscCall(MatSetSizes(*matrix, PETSC_DECIDE, PETSC_DECIDE, rows, rows));
  PetscCall(MatSetFromOptions(*matrix));
  PetscCall(MatSeqAIJSetPreallocation(*matrix, 7, NULL));
  PetscCall(MatMPIAIJSetPreallocation(*matrix, 7, NULL, 6, NULL));
  PetscCall(MatSeqBAIJSetPreallocation(*matrix, 1, 7, NULL));
  PetscCall(MatMPIBAIJSetPreallocation(*matrix, 1, 7, NULL, 6, NULL));
  PetscCall(MatSeqSBAIJSetPreallocation(*matrix, 1, 7, NULL));
  PetscCall(MatSetUp(*matrix));
  PetscCall(PetscObjectTypeCompare((PetscObject)*matrix, MATSEQSBAIJ, &is_half));
  if (is_half) PetscCall(MatSetOption(*matrix, MAT_IGNORE_LOWER_TRIANGULAR, PETSC_TRUE));
  PetscCall(MatGetOwnershipRange(*matrix, &first, &last));
  for (row = first; row < last; row++) {
    PetscReal diagonal = 2.0 * (PetscReal)dimension + convection;
    PetscCall(MatSetValue(*matrix, row, row, diagonal, INSERT_VALUES));
    for (d = 0, stride = 1; d < dimension; d++, stride *= n) {
      const PetscInt  place = row / stride % n;
      const PetscReal wind  = d == 0 ? convection : 0.0;
      if (place > 0) PetscCall(MatSetValue(*matrix, row, row - stride, -1.0 - wind, INSERT_VALUES));
      if (place < n - 1) PetscCall(MatSetValue(*matrix, row, row + stride, -1.0, INSERT_VALUES));
    }
  }
  PetscCall(MatAssemblyBegin(*matrix, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(*matrix, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  PetscInt       n = 40, dimension = 3, iterations;
  PetscReal      convection = 0.0, error, norm;
  PetscBool      transpose = PETSC_FALSE;
  PetscLogDouble begin, set_up, end;
  Mat            matrix;
  Vec            exact, b, x;
  KSP            ksp;
  PC             pc;
  PCType         type;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
  PetscCall(TerracePetscRegister());
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-n", &n, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-dimension", &dimension, NULL));
  PetscCall(PetscOptionsGetReal(NULL, NULL, "-convection", &convection, NULL));
  PetscCall(PetscOptionsGetBool(NULL, NULL, "-transpose", &transpose, NULL));
  PetscCheck(n > 0 && (dimension == 2 || dimension == 3), PETSC_COMM_WORLD, PETSC_ERR_USER_INPUT, "-n is 1 or more, -dimension 2 or 3");
  PetscCall(Assemble(n, dimension, convection, &matrix));
  PetscCall(MatCreateVecs(matrix, &x, &b));
  PetscCall(VecDuplicate(x, &exact));
  PetscCall(VecSet(exact, 1.0));
  if (transpose) PetscCall(MatMultTranspose(matrix, exact, b));
  else PetscCall(MatMult(matrix, exact, b));

  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOperators(ksp, matrix, matrix));
  PetscCall(KSPSetType(ksp, convection == 0.0 ? KSPCG : KSPGMRES));
  PetscCall(KSPSetTolerances(ksp, 1e-8, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCSetType(pc, PCTERRACE));
  PetscCall(KSPSetFromOptions(ksp));
  PetscCall(PetscTime(&begin));
  PetscCall(KSPSetUp(ksp));
  PetscCall(PetscTime(&set_up));
  if (transpose) PetscCall(KSPSolveTranspose(ksp, b, x));
  else PetscCall(KSPSolve(ksp, b, x));
  PetscCall(PetscTime(&end));

  PetscCall(KSPGetIterationNumber(ksp, &iterations));
  PetscCall(VecNorm(exact, NORM_2, &norm));
  PetscCall(VecAXPY(x, -1.0, exact));
  PetscCall(VecNorm(x, NORM_2, &error));
  PetscCall(PCGetType(pc, &type));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%s: %" PetscInt_FMT " iterations, error %.1e\n", type, iterations, (double)(error / norm)));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "set-up %.3f s, solve %.3f s\n", set_up - begin, end - set_up));

  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&exact));
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(MatDestroy(&matrix));
  PetscCall(PetscFinalize());
  return 0;
}
