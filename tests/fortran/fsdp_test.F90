! SPDX-License-Identifier: Apache-2.0
!! Parameters and gradients: shapes, kinds, values.
program fsdp_test
  use, intrinsic :: iso_fortran_env, only: int64, real32, real64
  use checks
  use model, only: compare, ramp
  use ostraka
  implicit none

  type(ostraka_mesh_t) :: mesh

  call start()
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call check_shapes_and_kinds()
  call check_two_uses()
  call check_unshard()
  call check_empty()
  call mesh%destroy()
  call finish()

contains

  subroutine check_shapes_and_kinds()
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: wide, narrow
    type(ostraka_memory_report_t) :: report
    integer(int64), allocatable :: extents(:)
    real(real64), pointer :: w0, w1(:), w2(:,:), w3(:,:,:), w4(:,:,:,:), list(:)
    real(real32), pointer :: n0, n1(:), n2(:,:), n3(:,:,:), n4(:,:,:,:), h2(:,:), list32(:)
    real(real64) :: beta
    real(real32) :: beta32, rounded(24)
    integer(int64) :: offset
    integer(int32) :: ierr
    real(real64) :: mean
    integer :: total

    call context%create(mesh)
    call context%add_module('wide', wide)
    call wide%add_parameter('w0', [integer ::])
    call wide%add_parameter('w1', [7])
    call wide%add_parameter('w2', [3, 5])
    call wide%add_parameter('w3', [2_int64, 3_int64, 5_int64])
    call wide%add_parameter('w4', [2, 1, 3, 4])
    call wide%add_parameter('frozen', [2, 2], trainable=.false.)
    call wide%build()
    call context%add_module('narrow', narrow)
    call narrow%add_parameter('n0', [integer ::], dtype=OSTRAKA_F32)
    call narrow%add_parameter('n1', [7], dtype=OSTRAKA_F32)
    call narrow%add_parameter('n2', [3, 5], dtype=OSTRAKA_F32)
    call narrow%add_parameter('n3', [2, 3, 5], dtype=OSTRAKA_F32)
    call narrow%add_parameter('n4', [2, 1, 3, 4], dtype=OSTRAKA_F32)
    call narrow%add_parameter('h2', [4, 6], dtype=OSTRAKA_BF16)
    call narrow%build()

    call wide%set_parameter('w0', 2.5d0)
    call wide%set_parameter('w1', ramp(7))
    call wide%set_parameter('w2', reshape(ramp(15), [3, 5]))
    call wide%set_parameter('w3', reshape(ramp(30), [2, 3, 5]))
    call wide%set_parameter('w4', ramp(24))  ! a list of the elements
    call wide%set_parameter('frozen', real(reshape(ramp(4), [2, 2]), real32))  ! of another kind: converted
    call narrow%set_parameter('n0', 2.5)
    call narrow%set_parameter('n1', real(ramp(7), real32))
    call narrow%set_parameter('n2', (transpose(reshape(real(ramp(15), real32), [5, 3]))))
    call narrow%set_parameter('n3', reshape(ramp(30), [2, 3, 5]))
    call narrow%set_parameter('n4', reshape(real(ramp(24), real32), [2, 1, 3, 4]))
    call narrow%set_parameter('h2', reshape(real(ramp(24), real32), [4, 6]))
    call context%finalize(ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call wide%parameter_shape('w3', extents)
    call expect(size(extents) == 3, __LINE__)
    call expect(all(extents == [2, 3, 5]), __LINE__)
    call wide%parameter_shape('w0', extents)
    call expect(size(extents) == 0, __LINE__)

    call wide%pre_forward()
    call wide%parameter('w0', w0)
    call wide%parameter('w1', w1)
    call wide%parameter('w2', w2)
    call wide%parameter('w3', w3)
    call wide%parameter('w4', w4)
    call expect(w0 == 2.5d0 .and. all(w1 == ramp(7)), __LINE__)
    call expect(all(shape(w2) == [3, 5]) .and. all(shape(w3) == [2, 3, 5]), __LINE__)
    call expect(all(shape(w4) == [2, 1, 3, 4]), __LINE__)
    call expect(all(w2 == reshape(ramp(15), [3, 5])) .and. all(w3 == reshape(ramp(30), [2, 3, 5])), __LINE__)
    call expect(all(w4 == reshape(ramp(24), [2, 1, 3, 4])), __LINE__)
    call wide%parameter('frozen', w2)
    call expect(all(shape(w2) == [2, 2]), __LINE__)
    call expect(all(w2 == reshape(ramp(4), [2, 2])), __LINE__)
    call wide%post_forward()
    call narrow%pre_forward()
    call narrow%parameter('n0', n0)
    call narrow%parameter('n1', n1)
    call narrow%parameter('n2', n2)
    call narrow%parameter('n3', n3)
    call narrow%parameter('n4', n4)
    call narrow%parameter('h2', h2)
    call expect(n0 == 2.5 .and. all(n1 == ramp(7)), __LINE__)
    call expect(all(shape(n2) == [3, 5]) .and. all(shape(n3) == [2, 3, 5]), __LINE__)
    call expect(all(shape(n4) == [2, 1, 3, 4]), __LINE__)
    call expect(all(n2 == transpose(reshape(ramp(15), [5, 3]))), __LINE__)
    call expect(all(n3 == reshape(ramp(30), [2, 3, 5])) .and. all(n4 == reshape(ramp(24), [2, 1, 3, 4])), __LINE__)
    call expect(all(shape(h2) == [4, 6]), __LINE__)
    rounded = ostraka_bf16_to_real32(ostraka_real32_to_bf16(real(ramp(24), real32)))
    call expect(all(h2 == reshape(rounded, [4, 6])), __LINE__)
    call narrow%post_forward()

    call narrow%pre_backward()
    call narrow%gradient('n0', n0, beta32)
    call expect(beta32 == 0, __LINE__)
    n0 = 3
    call narrow%gradient('n1', n1, beta32)
    n1 = my_rank
    call narrow%gradient('n2', n2, beta32)
    call expect(all(shape(n2) == [3, 5]), __LINE__)
    n2 = 1
    call narrow%gradient('n3', n3, beta32)
    call expect(all(shape(n3) == [2, 3, 5]), __LINE__)
    n3 = 1
    call narrow%gradient('n4', n4, beta32)
    call expect(all(shape(n4) == [2, 1, 3, 4]), __LINE__)
    n4 = 1
    call narrow%gradient('h2', h2, beta32)
    call expect(all(shape(h2) == [4, 6]) .and. beta32 == 0, __LINE__)
    h2 = reshape(real(ramp(24), real32), [4, 6])
    call narrow%gradient('h2', h2, beta32)  ! a second contribution
    call expect(beta32 == 1, __LINE__)
    h2 = beta32 * h2 + 1
    call narrow%parameter('n1', n1)  ! weights are there in the backward pass
    call expect(all(n1 == ramp(7)), __LINE__)
    call narrow%post_backward()
    call wide%pre_backward()
    call wide%gradient('w0', w0, beta)
    w0 = my_rank
    call wide%gradient('w1', w1, beta)
    call expect(beta == 0, __LINE__)
    w1 = ramp(7)
    call wide%gradient('w1', w1, beta)
    call expect(beta == 1, __LINE__)
    w1 = beta * w1 + my_rank
    call wide%gradient('w2', w2, beta)
    w2 = 1
    call wide%gradient('w3', w3, beta)
    w3 = (my_rank + 1) * reshape(ramp(30), [2, 3, 5])
    call wide%gradient('w4', w4, beta)
    call expect(all(shape(w4) == [2, 1, 3, 4]), __LINE__)
    w4 = 1
    call wide%gradient('frozen', w2, beta, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'frozen')
    call expect(.not. associated(w2), __LINE__)
    call wide%post_backward()
    call context%finish_backward()

    mean = (num_ranks - 1) / 2d0
    call wide%main_gradient('w1', list, offset)
    call compare(list, offset, ramp(7) + mean, __LINE__)
    call wide%main_gradient('w3', list, offset)
    call compare(list, offset, (mean + 1) * ramp(30), __LINE__)
    call wide%main_gradient('w0', list, offset)
    call compare(list, offset, [mean], __LINE__)
    call narrow%main_gradient('n1', list32, offset)
    call compare(real(list32, real64), offset, spread(mean, 1, 7), __LINE__)
    call narrow%main_gradient('h2', list32, offset)
    call compare(real(list32, real64), offset, ramp(24) + 1, __LINE__)
    call narrow%main_gradient('n1', list, offset, ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__)
    call expect(.not. associated(list), __LINE__)

    total = 1 + 7 + 15 + 30 + 24
    call context%memory(report)
    call expect(report%num_elements == 2 * total + 4 + 24, __LINE__)
    call expect(report%parameters > 0 .and. report%gradients > 0 .and. report%optimizer_state == 0, __LINE__)
    call expect(report%transient_peak >= 8 * total .and. report%transient_peak >= report%transient, __LINE__)
    call check_node_memory(context)
    call context%zero_grad()
    call wide%main_gradient('w1', list, offset, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__)
    call context%destroy()
    call wide%pre_forward(ierr)  ! died with its context
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
  end subroutine

  !! All ranks of the test stand on one node.
  subroutine check_node_memory(context)
    type(ostraka_fsdp_context_t), intent(in) :: context
    type(ostraka_memory_report_t) :: own, node
    integer(int64) :: sums(3)
    integer(int32) :: ierr

    call context%memory(own)
    call context%node_memory(node, ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call mpi_allreduce([own%parameters, own%gradients, own%reserved_bytes], sums, 3, MPI_INTEGER8, MPI_SUM, &
      MPI_COMM_WORLD)
    call expect(all([node%parameters, node%gradients, node%reserved_bytes] == sums), __LINE__)
    call expect(node%reserved_bytes >= node%parameters + node%gradients, __LINE__)
    call expect(node%num_elements == own%num_elements, __LINE__)
  end subroutine

  !! A module that runs twice in a pass: its gradient is reduced once, after the second backward pass.
  subroutine check_two_uses()
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer
    real(real64), pointer :: g(:,:), list(:)
    real(real64) :: beta
    integer(int64) :: offset
    integer :: use

    call context%create(mesh, reduction=OSTRAKA_SUM)
    call context%add_module('layer', layer)
    call layer%add_parameter('weight', [4, 3])
    call layer%build()
    call context%finalize()
    do use = 1, 2
      call layer%pre_forward()
      call layer%post_forward()
    end do
    do use = 1, 2
      call layer%pre_backward()
      call layer%gradient('weight', g, beta)
      call expect(beta == use - 1, __LINE__)
      if (use == 1) g = 0
      g = g + use * reshape(ramp(12), [4, 3])
      call layer%post_backward()
    end do
    call context%finish_backward()
    call layer%main_gradient('weight', list, offset)
    call compare(list, offset, 3 * num_ranks * ramp(12), __LINE__)
    call context%destroy()
  end subroutine

  subroutine check_unshard()
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer
    real(real64), pointer :: w(:,:)
    integer(int32) :: ierr

    call context%create(mesh)
    call context%add_module('layer', layer)
    call layer%add_parameter('weight', [4, 3])
    call layer%build()
    call layer%set_parameter('weight', reshape(ramp(12), [4, 3]))
    call context%finalize()
    call layer%unshard()
    call layer%parameter('weight', w)
    call expect(all(w == reshape(ramp(12), [4, 3])), __LINE__)
    call layer%reshard()
    call layer%parameter('weight', w, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__)
    call expect(.not. associated(w), __LINE__)
    call context%destroy()
  end subroutine

  !! Parameters without elements have zero-sized pointers of their shape.
  subroutine check_empty()
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer
    real(real64), pointer :: w(:,:), list(:)
    integer(int64) :: offset
    real(real64) :: beta

    call context%create(mesh)
    call context%add_module('layer', layer)
    call layer%add_parameter('no columns', [3, 0])
    call layer%add_parameter('no rows', [0, 3])
    call layer%build()
    call context%finalize()
    call layer%pre_forward()
    call layer%parameter('no columns', w)
    call expect(all(shape(w) == [3, 0]), __LINE__)
    call layer%parameter('no rows', w)
    call expect(all(shape(w) == [0, 3]), __LINE__)
    call layer%post_forward()
    call layer%pre_backward()
    call layer%gradient('no rows', w, beta)
    call expect(all(shape(w) == [0, 3]), __LINE__)
    call layer%gradient('no columns', w, beta)
    call layer%post_backward()
    call context%finish_backward()
    call layer%main_gradient('no rows', list, offset)
    call expect(size(list) == 0, __LINE__)
    call context%destroy()
  end subroutine
end program
