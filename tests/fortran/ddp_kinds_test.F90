! SPDX-License-Identifier: Apache-2.0
!! Weights and gradients of a ddp: shapes, kinds, values.
program ddp_kinds_test
  use, intrinsic :: iso_fortran_env, only: int16, int64, real32, real64
  use checks
  use model, only: ramp
  use ostraka
  implicit none

  type(ostraka_mesh_t) :: mesh
  type(ostraka_ddp_t) :: ddp
  real(real64), pointer :: w0, w1(:), w2(:,:), w3(:,:,:), w4(:,:,:,:)
  real(real32), pointer :: n0, n1(:), n2(:,:), n3(:,:,:), n4(:,:,:,:)

  call start()
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call check_types()
  call check_shapes_and_kinds()
  call mesh%destroy()
  call finish()

contains

  !! On a communicator; gradients in bf16, some accumulated in f32.
  subroutine check_types()
    integer(int16), pointer :: h1(:)
    integer(int32) :: dtype, ierr

    call ddp%create(MPI_COMM_WORLD%mpi_val, gradient_dtype=OSTRAKA_BF16, f32_accumulators=['n.*   ', 'w.bias'], &
      ierr=ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call ddp%add_parameter('n.bias', [2], dtype=OSTRAKA_F32)
    call ddp%add_parameter('w.bias', [2_int64], dtype=OSTRAKA_F32, shared_embedding=.true.)
    call ddp%add_parameter('h.bias', [2], dtype=OSTRAKA_BF16, trainable=.true.)
    call ddp%finalize()
    call ddp%gradient_dtype('n.bias', dtype)
    call expect(dtype == OSTRAKA_F32, __LINE__)
    call ddp%gradient_dtype('w.bias', dtype)
    call expect(dtype == OSTRAKA_F32, __LINE__)
    call ddp%gradient_dtype('h.bias', dtype)
    call expect(dtype == OSTRAKA_BF16, __LINE__)
    call ddp%gradient('h.bias', h1)
    call expect(all(h1 == 0), __LINE__)
    call ddp%destroy()
  end subroutine

  subroutine check_shapes_and_kinds()
    integer(int16), pointer :: h0, h1(:), h2(:,:), h3(:,:,:), h4(:,:,:,:)
    integer(int64), allocatable :: extents(:)

    call ddp%create(mesh)
    call add_shapes('w', OSTRAKA_F64)
    call add_shapes('n', OSTRAKA_F32)
    call add_shapes('h', OSTRAKA_BF16)
    call ddp%finalize()
    call set_shapes('w')
    call set_shapes('n')
    call set_shapes('h')
    call ddp%parameter_shape('w3', extents)
    call expect(all(extents == [2, 3, 5]), __LINE__)
    call ddp%parameter_shape('h0', extents)
    call expect(size(extents) == 0, __LINE__)

    call ddp%parameter('w0', w0)
    call ddp%parameter('w1', w1)
    call ddp%parameter('w2', w2)
    call ddp%parameter('w3', w3)
    call ddp%parameter('w4', w4)
    call expect(w0 == 2.5d0 .and. all(w1 == ramp(7)) .and. all(w2 == reshape(ramp(15), [3, 5])), __LINE__)
    call expect(all(w3 == reshape(ramp(30), [2, 3, 5])) .and. all(w4 == reshape(ramp(24), [2, 1, 3, 4])), __LINE__)
    call ddp%parameter('n0', n0)
    call ddp%parameter('n1', n1)
    call ddp%parameter('n2', n2)
    call ddp%parameter('n3', n3)
    call ddp%parameter('n4', n4)
    call expect(n0 == 2.5 .and. all(n1 == ramp(7)) .and. all(n2 == reshape(ramp(15), [3, 5])), __LINE__)
    call expect(all(n3 == reshape(ramp(30), [2, 3, 5])) .and. all(n4 == reshape(ramp(24), [2, 1, 3, 4])), __LINE__)
    call ddp%parameter('h0', h0)
    call ddp%parameter('h1', h1)
    call ddp%parameter('h2', h2)
    call ddp%parameter('h3', h3)
    call ddp%parameter('h4', h4)
    call expect(all(shape(h2) == [3, 5]) .and. all(shape(h3) == [2, 3, 5]) .and. all(shape(h4) == [2, 1, 3, 4]), &
      __LINE__)
    call expect(ostraka_bf16_to_real32(h0) == 2.5 .and. all(ostraka_bf16_to_real32(h1) == real(ramp(7), real32)), &
      __LINE__)
    call expect(all(h4 == reshape(ostraka_real32_to_bf16(real(ramp(24), real32)), [2, 1, 3, 4])), __LINE__)

    call check_gradient_shapes()
    call ddp%destroy()
  end subroutine

  subroutine add_shapes(prefix, dtype)
    character(*), intent(in) :: prefix
    integer(int32), intent(in) :: dtype

    call ddp%add_parameter(prefix // '0', [integer ::], dtype)
    call ddp%add_parameter(prefix // '1', [7], dtype)
    call ddp%add_parameter(prefix // '2', [3, 5], dtype)
    call ddp%add_parameter(prefix // '3', [2_int64, 3_int64, 5_int64], dtype)
    call ddp%add_parameter(prefix // '4', [2, 1, 3, 4], dtype)
    call ddp%add_parameter(prefix // '.frozen', [2], dtype, trainable=.false.)
  end subroutine

  subroutine set_shapes(prefix)
    character(*), intent(in) :: prefix

    call ddp%set_parameter(prefix // '0', 2.5d0)
    call ddp%set_parameter(prefix // '1', ramp(7))
    call ddp%set_parameter(prefix // '2', reshape(ramp(15), [3, 5]))
    call ddp%set_parameter(prefix // '3', real(reshape(ramp(30), [2, 3, 5]), real32))
    call ddp%set_parameter(prefix // '4', ramp(24))  ! a list of the elements
    call ddp%set_parameter(prefix // '.frozen', ramp(2))
  end subroutine

  !! Gradients of bf16 weights are f32.
  subroutine check_gradient_shapes()
    real(real32), pointer :: f0, f1(:), f2(:,:), f3(:,:,:), f4(:,:,:,:), list32(:)
    real(real64), pointer :: list(:)
    real(real32) :: beta
    integer(int64) :: offset

    call ddp%gradient('w0', w0)
    w0 = w0 + 4
    call ddp%gradient('w1', w1)
    w1 = w1 + ramp(7)
    call ddp%gradient('w2', w2)
    w2 = w2 + reshape(ramp(15), [3, 5])
    call ddp%gradient('w3', w3)
    w3 = reshape(ramp(30), [2, 3, 5])
    call ddp%gradient('w4', w4)
    w4 = reshape(ramp(24), [2, 1, 3, 4])
    call ddp%gradient('n0', n0, beta)
    call expect(beta == 0, __LINE__)
    n0 = 4
    call ddp%gradient('n1', n1)
    n1 = n1 + real(ramp(7), real32)
    call ddp%gradient('n2', n2)
    n2 = reshape(real(ramp(15), real32), [3, 5])
    call ddp%gradient('n3', n3)
    n3 = reshape(real(ramp(30), real32), [2, 3, 5])
    call ddp%gradient('n4', n4)
    n4 = reshape(real(ramp(24), real32), [2, 1, 3, 4])
    call ddp%gradient('h0', f0)
    f0 = 4
    call ddp%gradient('h1', f1)
    f1 = real(ramp(7), real32)
    call ddp%gradient('h2', f2)
    f2 = reshape(real(ramp(15), real32), [3, 5])
    call ddp%gradient('h3', f3)
    f3 = reshape(real(ramp(30), real32), [2, 3, 5])
    call ddp%gradient('h4', f4)
    f4 = reshape(real(ramp(24), real32), [2, 1, 3, 4])
    call ready('w')
    call ready('n')
    call ready('h')
    call ddp%finish_grad_sync()
    call expect(w0 == 4 .and. all(abs(w2 - reshape(ramp(15), [3, 5])) < 1d-12), __LINE__)  ! where it was written
    call ddp%main_gradient('w3', list, offset)
    call expect(size(list) == 30 .and. offset == 0 .and. all(abs(list - ramp(30)) < 1d-12), __LINE__)
    call ddp%main_gradient('h4', list32, offset)
    call expect(size(list32) == 24 .and. all(abs(list32 - ramp(24)) < 1e-5 * ramp(24)), __LINE__)
  end subroutine

  subroutine ready(prefix)
    character(*), intent(in) :: prefix
    integer :: i

    do i = 4, 0, -1
      call ddp%gradient_ready(prefix // achar(iachar('0') + i))
    end do
  end subroutine
end program
