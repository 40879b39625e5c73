/*
 * A block of an elastic material, held at one end and pulled down, in trilinear hexahedra: three displacements in each node. Rigid-body
 * modes reach the preconditioner as near-null space of the matrix (the default), or as coordinates.
 *
 *     ksp_elasticity -n 12 [-modes matrix|coordinates|none] [-mat_type aij|baij] [-ksp_view] [-pc_type gamg]
 */

#include <terrace_petsc.h>

#define POISSON_RATIO 0.3

/* Stiffness of a cube with edges of length h, Young's modulus 1; node i is at the bits of i. 2 x 2 x 2 Gauss points. */
static void Stiffness(PetscReal h, PetscScalar stiffness[24 * 24])
{
  const PetscReal lambda = POISSON_RATIO / ((1.0 + POISSON_RATIO) * (1.0 - 2.0 * POISSON_RATIO)), mu = 0.5 / (1.0 + POISSON_RATIO);
  const PetscReal gauss[2] = {0.5 - 0.5 / PetscSqrtReal(3.0), 0.5 + 0.5 / PetscSqrtReal(3.0)};
  int             point, i, j, c, d, axis;

  for (i = 0; i < 24 * 24; i++) stiffness[i] = 0.0;
  for (point = 0; point < 8; point++) {
    PetscReal gradient[8][3];
    for (i = 0; i < 8; i++) {
      for (c = 0; c < 3; c++) {
        gradient[i][c] = 1.0 / h;
        for (axis = 0; axis < 3; axis++) {
          const PetscReal at = gauss[point >> axis & 1];
          const int       is_far = i >> axis & 1;
          if (axis == c) gradient[i][c] *= is_far ? 1.0 : -1.0;
          else gradient[i][c] *= is_far ? at : 1.0 - at;
        }
      }
    }
    for (i = 0; i < 8; i++) {
      for (j = 0; j < 8; j++) {
        const PetscReal product = gradient[i][0] * gradient[j][0] + gradient[i][1] * gradient[j][1] + gradient[i][2] * gradient[j][2];
        for (c = 0; c < 3; c++) {
          for (d = 0; d < 3; d++) stiffness[(3 * i + c) * 24 + 3 * j + d] += h * h * h / 8.0 * (lambda * gradient[i][c] * gradient[j][d] + mu * gradient[i][d] * gradient[j][c] + (c == d ? mu * product : 0.0));
        }
      }
    }
  }
}

/* The matrix of n^3 cubes; nodes with x = 0 are fixed, and keep their diagonal alone. */
static PetscErrorCode Assemble(PetscInt n, Mat *matrix)
{
  const PetscInt m = n + 1;
  PetscScalar    stiffness[24 * 24], element[24 * 24];
  PetscInt       nodes[8], x, y, z, i, j;
  PetscMPIInt    rank, processes;

  PetscFunctionBeginUser;
  PetscCall(MatCreate(PETSC_COMM_WORLD, matrix));
  PetscCall(MatSetSizes(*matrix, PETSC_DECIDE, PETSC_DECIDE, 3 * m * m * m, 3 * m * m * m));
  PetscCall(MatSetBlockSize(*matrix, 3));
  PetscCall(MatSetFromOptions(*matrix));
  PetscCall(MatSeqAIJSetPreallocation(*matrix, 81, NULL));
  PetscCall(MatMPIAIJSetPreallocation(*matrix, 81, NULL, 54, NULL));
  PetscCall(MatSeqBAIJSetPreallocation(*matrix, 3, 27, NULL));
  PetscCall(MatMPIBAIJSetPreallocation(*matrix, 3, 27, NULL, 18, NULL));
  PetscCallMPI(MPI_Comm_rank(PETSC_COMM_WORLD, &rank));
  PetscCallMPI(MPI_Comm_size(PETSC_COMM_WORLD, &processes));
  Stiffness(1.0 / (PetscReal)n, stiffness);
  for (z = n * rank / processes; z < n * (rank + 1) / processes; z++) {
    for (y = 0; y < n; y++) {
      for (x = 0; x < n; x++) {
        for (i = 0; i < 8; i++) nodes[i] = (x + (i & 1)) + m * ((y + (i >> 1 & 1)) + m * (z + (i >> 2 & 1)));
        for (i = 0; i < 24; i++) {
          for (j = 0; j < 24; j++) {
            const PetscBool is_fixed = (PetscBool)(nodes[i / 3] % m == 0 || nodes[j / 3] % m == 0);
            element[i * 24 + j]      = is_fixed && i != j ? 0.0 : stiffness[i * 24 + j];
          }
        }
        PetscCall(MatSetValuesBlocked(*matrix, 8, nodes, 8, nodes, element, ADD_VALUES));
      }
    }
  }
  PetscCall(MatAssemblyBegin(*matrix, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(*matrix, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  PetscInt           n = 12, m, i, k, first, last, iterations;
  PetscReal          residual, norm, deflection, *coordinates;
  PetscLogDouble     begin, set_up, end;
  PetscBool          is_matrix, is_coordinates;
  PetscScalar       *place, *load;
  char               modes[32] = "matrix";
  Mat                matrix;
  Vec                b, x, r, where;
  MatNullSpace       space;
  KSP                ksp;
  PC                 pc;
  PCType             type;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
  PetscCall(TerracePetscRegister());
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-n", &n, NULL));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-modes", modes, sizeof(modes), NULL));
  PetscCall(PetscStrcmp(modes, "matrix", &is_matrix));
  PetscCall(PetscStrcmp(modes, "coordinates", &is_coordinates));
  m = n + 1;
  PetscCall(Assemble(n, &matrix));
  PetscCall(MatCreateVecs(matrix, &x, &b));
  PetscCall(VecDuplicate(x, &where));
  PetscCall(VecDuplicate(x, &r));
  PetscCall(VecSetBlockSize(where, 3));
  PetscCall(VecGetOwnershipRange(x, &first, &last));
  PetscCall(PetscMalloc1(last - first, &coordinates));
  PetscCall(VecGetArray(where, &place));
  PetscCall(VecGetArray(b, &load));
  for (i = first / 3; i < last / 3; i++) {
    k                  = 3 * i - first;
    coordinates[k]     = (PetscReal)(i % m) / (PetscReal)n;
    coordinates[k + 1] = (PetscReal)(i / m % m) / (PetscReal)n;
    coordinates[k + 2] = (PetscReal)(i / (m * m)) / (PetscReal)n;
    load[k + 2]        = i % m == n ? -1.0 / (PetscReal)(m * m) : 0.0;
  }
  PetscCall(PetscArraycpy(place, coordinates, last - first));
  PetscCall(VecRestoreArray(where, &place));
  PetscCall(VecRestoreArray(b, &load));

  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOperators(ksp, matrix, matrix));
  PetscCall(KSPSetType(ksp, KSPCG));
  PetscCall(KSPSetNormType(ksp, KSP_NORM_UNPRECONDITIONED));
  PetscCall(KSPSetTolerances(ksp, 1e-8, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCSetType(pc, PCTERRACE));
  PetscCall(KSPSetFromOptions(ksp));
  if (is_matrix) {
    PetscCall(MatNullSpaceCreateRigidBody(where, &space));
    PetscCall(MatSetNearNullSpace(matrix, space));
    PetscCall(MatNullSpaceDestroy(&space));
  }
  if (is_coordinates) PetscCall(PCSetCoordinates(pc, 3, (last - first) / 3, coordinates));
  PetscCall(PetscTime(&begin));
  PetscCall(KSPSetUp(ksp));
  PetscCall(PetscTime(&set_up));
  PetscCall(KSPSolve(ksp, b, x));
  PetscCall(PetscTime(&end));

  PetscCall(KSPGetIterationNumber(ksp, &iterations));
  PetscCall(MatMult(matrix, x, r));
  PetscCall(VecAYPX(r, -1.0, b));
  PetscCall(VecNorm(r, NORM_2, &residual));
  PetscCall(VecNorm(b, NORM_2, &norm));
  PetscCall(PCGetType(pc, &type));
  PetscCall(VecMin(x, NULL, &deflection));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "%s: %" PetscInt_FMT " iterations, residual %.1e, deflection %.6f\n", type, iterations, (double)(residual / norm), (double)-deflection));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "set-up %.3f s, solve %.3f s\n", set_up - begin, end - set_up));

  PetscCall(PetscFree(coordinates));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&where));
  PetscCall(VecDestroy(&r));
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(MatDestroy(&matrix));
  PetscCall(PetscFinalize());
  return 0;
}
