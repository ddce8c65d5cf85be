! SPDX-License-Identifier: Apache-2.0
!! GPUs from Fortran: which one, meshes of them, addresses, the caller's own stream. On the double of CUDA; elsewhere what
!! builds without CUDA refuse.
program device_test
  use, intrinsic :: iso_c_binding, only: c_associated, c_int, c_intptr_t, c_loc, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int32, int64, real64
  use checks
  use ostraka
  use ostraka_mpi_f08
  implicit none

#ifdef OSTRAKA_TEST_HAS_CUDA
  interface
    integer(c_int) function cuda_stream_create(stream, flags) bind(c, name='cudaStreamCreateWithFlags')
      import
      type(c_ptr), intent(out) :: stream
      integer(c_int), value :: flags
    end function
    integer(c_int) function cuda_stream_destroy(stream) bind(c, name='cudaStreamDestroy')
      import
      type(c_ptr), value :: stream
    end function
  end interface
#endif

  call start()
  call check_hosts()
  call check_symmetric_memory(OSTRAKA_DEVICE_HOST)
#ifdef OSTRAKA_TEST_HAS_CUDA
  call check_choice()
  call check_buffers()
  call check_symmetric_memory(OSTRAKA_DEVICE_CUDA)
  call check_streams()
  call check_ddp(.false.)
  call check_ddp(.true.)
#else
  call check_refusals()
#endif
  call finish()

contains

  subroutine check_hosts()
    type(ostraka_mesh_t) :: mesh
    integer(int64), target :: from(2), to(2)
    integer(int32) :: device, ierr
    logical :: yes

    call ostraka_has_device(OSTRAKA_DEVICE_HOST, yes)
    call expect(yes, __LINE__)
    from = [5, 7]
    to = 0
    call ostraka_copy_now(OSTRAKA_DEVICE_HOST, c_loc(from), c_loc(to), 16_int64)
    call expect(all(to == from), __LINE__)
    call ostraka_is_device_memory(c_loc(from), yes)
    call expect(.not. yes, __LINE__)
    call mesh%create(MPI_COMM_WORLD%mpi_val, device=OSTRAKA_DEVICE_HOST)
    call mesh%device(device)
    call expect(device == OSTRAKA_DEVICE_HOST, __LINE__)
    call mesh%destroy()
    call ostraka_mesh_create(mesh, MPI_COMM_WORLD, device=9, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'found 9')
    call ostraka_has_device(9, yes, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'found 9')
    call mesh%device(device, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
  end subroutine

  !! The test's environment says which NCCL the double is: one that has windows.
  subroutine check_symmetric_memory(device)
    integer(int32), intent(in) :: device
    type(ostraka_mesh_t) :: mesh
    type(ostraka_layout_t) :: layout
    type(ostraka_buffer_t) :: own, whole, wrong
    type(c_ptr) :: address
    real(real64) :: values(12)
    real(real64), target :: found(12)
    integer(int64) :: count
    integer(int32) :: ierr
    integer :: k
    logical :: yes

    values = [(real(k, real64), k = 1, 12)]
    call mesh%create(MPI_COMM_WORLD%mpi_val, device=device)
    call layout%create(OSTRAKA_PLANNED, [ostraka_shape([12])], segments=num_ranks)
    call own%create_symmetric(mesh, [ostraka_shard()], layout, OSTRAKA_F64)
    call own%is_symmetric_memory(yes)
    call expect(yes .eqv. device == OSTRAKA_DEVICE_CUDA, __LINE__)
    call own%rendezvous(1)
    call own%copy_from(1, values)
    call own%allgather(1, whole)
    call whole%tensor_range(1, address, count)
    call expect(count == 12, __LINE__)
    call ostraka_copy_now(device, address, c_loc(found), 96_int64)
    call expect(all(found == values), __LINE__)
    call own%rendezvous(2, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'axis')
    call wrong%create_symmetric(mesh, [ostraka_shard(), ostraka_shard()], layout, OSTRAKA_F64, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, '2 placements for 1 mesh axes')
    call wrong%is_symmetric_memory(yes, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call own%destroy()
    call whole%destroy()
    call layout%destroy()
    call mesh%destroy()
  end subroutine

#ifdef OSTRAKA_TEST_HAS_CUDA
  subroutine check_choice()
    integer(int32) :: index, ierr

    call ostraka_select_cuda_device(99, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, '0 to 15')
    call ostraka_select_cuda_device(my_rank + 4)
    call ostraka_cuda_device(index)
    call expect(index == my_rank + 4, __LINE__)
  end subroutine

  !! Elements come from arrays and go back; addresses are the GPU's.
  subroutine check_buffers()
    type(ostraka_mesh_t) :: mesh
    type(ostraka_buffer_t) :: parts, whole
    type(c_ptr) :: address
    real(real64) :: values(3, 4)
    real(real64), target :: found(12)
    integer(int64) :: count, offset
    integer(int32) :: device
    integer :: k
    logical :: yes

    values = reshape([(real(3 * k, real64), k = 0, 11)], [3, 4])
    call ostraka_mesh_create(mesh, MPI_COMM_WORLD, device=OSTRAKA_DEVICE_CUDA)
    call mesh%device(device)
    call expect(device == OSTRAKA_DEVICE_CUDA, __LINE__)
    call parts%distribute(mesh, [ostraka_shard()], [ostraka_tensor(values)], OSTRAKA_F64)
    call parts%tensor_range(1, address, count, offset)
    call ostraka_is_device_memory(address, yes)
    call expect(yes .eqv. count > 0, __LINE__)
    found = -1
    call ostraka_copy_now(OSTRAKA_DEVICE_CUDA, address, c_loc(found), 8 * count)
    call expect(all(found(:count) == [(real(3 * (k + offset), real64), k = 0, int(count) - 1)]), __LINE__)
    call parts%allgather(1, whole)
    call whole%local(address, count, offset)
    call expect(count >= 12 .and. offset == 0, __LINE__)
    call ostraka_copy_now(OSTRAKA_DEVICE_CUDA, address, c_loc(found), 96_int64)
    call expect(all(found == reshape(values, [12])), __LINE__)
    call parts%destroy()
    call whole%destroy()
    call mesh%destroy()
  end subroutine

  !! A stream as an address and as a number.
  subroutine check_streams()
    type(ostraka_mesh_t) :: mesh
    type(ostraka_buffer_t) :: own, total
    type(c_ptr) :: stream, address
    real(real64) :: values(12)
    real(real64), target :: found(12)
    integer(int64) :: count
    integer(c_intptr_t) :: number
    integer :: k

    call expect(cuda_stream_create(stream, 1_c_int) == 0, __LINE__)
    call ostraka_set_compute_stream(stream)
    values = [(real(k, real64), k = 1, 12)]
    call mesh%create(MPI_COMM_WORLD%mpi_val, device=OSTRAKA_DEVICE_CUDA)
    call own%distribute(mesh, [ostraka_partial()], [ostraka_tensor(values)], OSTRAKA_F64)
    number = transfer(stream, number)
    call ostraka_set_compute_stream(0_c_intptr_t)
    call ostraka_set_compute_stream(number)
    call ostraka_native_compute_stream(address)
    call expect(c_associated(address, stream), __LINE__)
    number = 0
    call ostraka_native_compute_stream(number)
    call expect(c_associated(transfer(number, c_null_ptr), stream), __LINE__)
    call own%allreduce(1, total)
    call total%tensor_range(1, address, count)
    call expect(count == 12, __LINE__)
    call ostraka_copy_now(OSTRAKA_DEVICE_CUDA, address, c_loc(found), 96_int64)
    call expect(all(found == num_ranks * values), __LINE__)
    call ostraka_set_compute_stream(c_null_ptr)
    call ostraka_native_compute_stream(address)
    call expect(c_associated(address) .and. .not. c_associated(address, stream), __LINE__)
    call own%destroy()
    call total%destroy()
    call mesh%destroy()
    call expect(cuda_stream_destroy(stream) == 0, __LINE__)
  end subroutine

  !! Whole weights and their gradients, by addresses.
  subroutine check_ddp(sharded)
    logical, intent(in) :: sharded
    type(ostraka_mesh_t) :: mesh
    type(ostraka_ddp_t) :: ddp
    type(ostraka_optimizer_t) :: steps
    type(c_ptr) :: address
    real(real64), pointer :: array(:)
    real(real64) :: values(12), beta
    real(real64), target :: found(12), contribution(12)
    integer(int64) :: count, offset
    integer :: k, step
    logical :: yes

    values = [(real(2 * k, real64), k = 1, 12)]
    contribution = my_rank
    call mesh%create(MPI_COMM_WORLD%mpi_val, device=OSTRAKA_DEVICE_CUDA)
    call ddp%create(mesh, scaling=OSTRAKA_SCALING_SUM, bucket_size=12_int64, sharded_optimizer=sharded, &
      overlap_param_gather=sharded)
    call ddp%add_parameter('a.w', [12])
    call ddp%add_parameter('b.w', [12])
    call ddp%finalize()
    call ddp%set_parameter('a.w', values)
    call ddp%set_parameter('b.w', values)
    call steps%create_sgd(ddp, learning_rate=0.5d0)
    do step = 1, 3
      call ddp%zero_grad_buffer()
      call ddp%pre_forward('a')
      call ddp%gradient('b.w', OSTRAKA_F64, address, count, beta)
      call expect(count == 12 .and. beta == 0, __LINE__)
      call ostraka_copy_now(OSTRAKA_DEVICE_CUDA, c_loc(contribution), address, 96_int64)
      call ddp%gradient_ready('b.w')
      call ddp%gradient('a.w', array)
      call ostraka_copy_now(OSTRAKA_DEVICE_CUDA, c_loc(array), c_loc(found), 96_int64)
      call expect(all(found == 0), __LINE__) ! since nobody asked for beta
      call ddp%gradient_ready('a.w')
      call ddp%finish_grad_sync()
      call steps%step()
    end do
    call ddp%main_gradient('b.w', OSTRAKA_F64, address, count, offset)
    call ostraka_copy_now(OSTRAKA_DEVICE_CUDA, address, c_loc(found), 8 * count)
    call expect(all(found(:count) == num_ranks * (num_ranks - 1) / 2), __LINE__)
    call ddp%parameter('b.w', OSTRAKA_F64, address, count)
    call ostraka_is_device_memory(address, yes)
    call expect(yes .and. count == 12, __LINE__)
    call ostraka_copy_now(OSTRAKA_DEVICE_CUDA, address, c_loc(found), 96_int64)
    call expect(all(found == values - 1.5d0 * (num_ranks * (num_ranks - 1) / 2)), __LINE__)
    call ddp%parameter('a.w', array)
    call ostraka_copy_now(OSTRAKA_DEVICE_CUDA, c_loc(array), c_loc(found), 96_int64)
    call expect(all(found == values), __LINE__)
    call steps%destroy()
    call ddp%destroy()
    call mesh%destroy()
  end subroutine
#else
  !! Every way to a GPU says which build has it, and nothing changes.
  subroutine check_refusals()
    type(ostraka_mesh_t) :: mesh
    integer(int64), target :: value
    type(c_ptr) :: stream
    integer(c_intptr_t) :: number
    integer(int32) :: index, ierr
    logical :: yes

    call ostraka_has_device(OSTRAKA_DEVICE_CUDA, yes)
    call expect(.not. yes, __LINE__)
    call ostraka_cuda_device(index, ierr)
    call expect_status(ierr, OSTRAKA_NOT_SUPPORTED, __LINE__, 'preset cuda')
    call ostraka_select_cuda_device(0, ierr)
    call expect_status(ierr, OSTRAKA_NOT_SUPPORTED, __LINE__, 'preset cuda')
    call ostraka_set_compute_stream(c_null_ptr, ierr)
    call expect_status(ierr, OSTRAKA_NOT_SUPPORTED, __LINE__, 'preset cuda')
    call ostraka_set_compute_stream(0_c_intptr_t, ierr)
    call expect_status(ierr, OSTRAKA_NOT_SUPPORTED, __LINE__, 'preset cuda')
    call ostraka_native_compute_stream(stream, ierr)
    call expect_status(ierr, OSTRAKA_NOT_SUPPORTED, __LINE__, 'preset cuda')
    call ostraka_native_compute_stream(number, ierr)
    call expect_status(ierr, OSTRAKA_NOT_SUPPORTED, __LINE__, 'preset cuda')
    call expect(.not. c_associated(stream) .and. number == 0, __LINE__)
    value = 1
    call ostraka_copy_now(OSTRAKA_DEVICE_CUDA, c_loc(value), c_loc(value), 8_int64, ierr)
    call expect_status(ierr, OSTRAKA_NOT_SUPPORTED, __LINE__, 'preset cuda')
    call mesh%create(MPI_COMM_WORLD%mpi_val, device=OSTRAKA_DEVICE_CUDA, ierr=ierr)
    call expect_status(ierr, OSTRAKA_NOT_SUPPORTED, __LINE__, 'preset cuda')
  end subroutine
#endif
end program
