! Bends a cantilever beam: the Fortran twin of c_examples/elasticity.c. Three displacements for each node, BSR with 3x3 blocks; the
! node coordinates give the library the rigid-body modes.
!
!   elasticity [n]      2n x n x n elements; n is 8 unless given
program elasticity
  use, intrinsic :: iso_fortran_env, only: int32, real64
  use terrace
  implicit none

  type(terrace_context) :: context
  type(terrace_matrix) :: matrix
  type(terrace_solver) :: solver
  type(terrace_report) :: report
  integer(int32), allocatable, target :: row_offsets(:), columns(:)
  real(real64), allocatable, target :: values(:, :, :)
  real(real64), allocatable :: coordinates(:, :), load(:), u(:)
  character(:), allocatable :: text
  integer :: status
  ! Nodes that are free in each direction; those with x = 0 are clamped and left out.
  integer :: nx, ny, nz, nodes
  integer :: n, x, y, z, k
  real(real64) :: h
  character(16) :: argument

  n = 8
  call get_command_argument(1, argument, status=status)
  if (status == 0) read (argument, *) n
  if (n < 1 .or. n > 100) error stop 'n must be from 1 to 100'
  nx = 2 * n
  ny = n + 1
  nz = n + 1
  h = 1.0_real64 / n
  nodes = nx * ny * nz
  call pattern()
  call assemble()

  allocate(coordinates(3, nodes))
  allocate(load(3 * nodes), u(3 * nodes), source=0.0_real64)
  do z = 1, nz
    do y = 1, ny
      do x = 1, nx
        k = node(x, y, z)
        coordinates(:, k) = h * [x, y - 1, z - 1]
        ! A unit force pulls the free end down.
        if (x == nx) load(3 * k) = -1.0_real64 / (ny * nz)
      end do
    end do
  end do
  print '(a,i0,a,i0,a,i0,a/)', 'elasticity, ', nodes, ' nodes, ', 3 * nodes, ' unknowns, ', size(columns), ' blocks'

  call terrace_context_create('host', context)
  call terrace_matrix_create_bsr(context, row_offsets, columns, values, matrix, borrow=.true., sorted=.true.)
  call terrace_matrix_set_coordinates(context, matrix, coordinates)
  call terrace_solver_create(context, solver)
  call terrace_solver_setup(solver, matrix)
  call terrace_solver_solve(solver, load, u)

  call terrace_solver_report(solver, report)
  call terrace_report_to_text(report, text)
  print '(a)', text
  print '(a,f9.6)', 'the free end sinks by ', -u(3 * node(nx, ny / 2 + 1, nz / 2 + 1))

  call terrace_report_destroy(report)
  call terrace_solver_destroy(solver)
  call terrace_matrix_destroy(matrix)
  call terrace_context_destroy(context)
  deallocate(row_offsets, columns, values, coordinates, load, u, text)

contains

  integer function node(x, y, z)
    integer, intent(in) :: x, y, z
    node = ((z - 1) * ny + y - 1) * nx + x
  end function

  ! Each node couples to its neighbours in the surrounding 3x3x3 nodes, columns ascending.
  subroutine pattern()
    integer :: x, y, z, u, v, w, k
    allocate(row_offsets(nodes + 1), columns(27 * nodes))
    k = 0
    do z = 1, nz
      do y = 1, ny
        do x = 1, nx
          row_offsets(node(x, y, z)) = k + 1
          do w = max(z - 1, 1), min(z + 1, nz)
            do v = max(y - 1, 1), min(y + 1, ny)
              do u = max(x - 1, 1), min(x + 1, nx)
                k = k + 1
                columns(k) = node(u, v, w)
              end do
            end do
          end do
        end do
      end do
    end do
    row_offsets(nodes + 1) = k + 1
    columns = columns(:k)
  end subroutine

  subroutine assemble()
    real(real64) :: ke(3, 3, 8, 8)
    integer :: x, y, z, a, b, xa, xb, row, column, k
    call element_stiffness(ke)
    allocate(values(3, 3, size(columns)), source=0.0_real64)
    do z = 1, nz - 1
      do y = 1, ny - 1
        do x = 0, nx - 1 ! the first layer of elements has its left nodes clamped
          do a = 0, 7
            do b = 0, 7
              xa = x + ibits(a, 0, 1)
              xb = x + ibits(b, 0, 1)
              if (xa == 0 .or. xb == 0) cycle
              row = node(xa, y + ibits(a, 1, 1), z + ibits(a, 2, 1))
              column = node(xb, y + ibits(b, 1, 1), z + ibits(b, 2, 1))
              k = row_offsets(row)
              do while (columns(k) /= column)
                k = k + 1
              end do
              values(:, :, k) = values(:, :, k) + ke(:, :, a + 1, b + 1)
            end do
          end do
        end do
      end do
    end do
  end subroutine

  ! Stiffness of a cube with edge h. ke(j, i, a, b) couples displacement i of corner a to displacement j of corner b: the order in
  ! which the library stores a block.
  subroutine element_stiffness(ke)
    real(real64), intent(out) :: ke(3, 3, 8, 8)
    real(real64), parameter :: young = 1.0_real64, ratio = 0.3_real64
    real(real64), parameter :: lambda = young * ratio / ((1 + ratio) * (1 - 2 * ratio)), mu = young / (2 * (1 + ratio))
    real(real64) :: gauss(0:1), at(3), shape(3), slope(3), gradient(3, 8), weight
    integer :: q, a, b, i, j
    gauss = 0.5_real64 + [-0.5_real64, 0.5_real64] / sqrt(3.0_real64)
    weight = h**3 / 8
    ke = 0
    do q = 0, 7
      at = [gauss(ibits(q, 0, 1)), gauss(ibits(q, 1, 1)), gauss(ibits(q, 2, 1))]
      do a = 0, 7
        do i = 1, 3
          shape(i) = merge(at(i), 1 - at(i), btest(a, i - 1))
          slope(i) = merge(1, -1, btest(a, i - 1)) / h
        end do
        gradient(:, a + 1) = [slope(1) * shape(2) * shape(3), shape(1) * slope(2) * shape(3), shape(1) * shape(2) * slope(3)]
      end do
      do a = 1, 8
        do b = 1, 8
          do i = 1, 3
            do j = 1, 3
              ke(j, i, a, b) = ke(j, i, a, b) &
                + weight * (lambda * gradient(i, a) * gradient(j, b) + mu * gradient(j, a) * gradient(i, b))
            end do
            ke(i, i, a, b) = ke(i, i, a, b) + weight * mu * dot_product(gradient(:, a), gradient(:, b))
          end do
        end do
      end do
    end do
  end subroutine
end program
