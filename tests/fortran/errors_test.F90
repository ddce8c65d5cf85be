! SPDX-License-Identifier: Apache-2.0
!! Every misuse is a status with a text that says what was expected, and leaves the objects usable.
program errors_test
  use, intrinsic :: iso_fortran_env, only: int16, int64, real32, real64
  use checks
  use ostraka
  implicit none

  type(ostraka_mesh_t) :: mesh
  integer(int32) :: ierr

  call start()
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call check_mesh()
  call check_placements()
  call check_arrays()
  call check_pointers()
  call check_null_handles()
  call check_set_up()
  call check_phases()
  call mesh%destroy()
  call finish()

contains

  subroutine check_mesh()
    type(ostraka_mesh_t) :: bad
    integer(int32) :: number, one(1)

    one = num_ranks
    call bad%create(MPI_COMM_WORLD%mpi_val, sizes=[num_ranks + 1], ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    call bad%create(MPI_COMM_WORLD%mpi_val, sizes=one(2:), ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'at least one axis')
    call bad%create(MPI_COMM_WORLD%mpi_val, names=['a', 'b'], ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, '2 names for 1 axes')
    call bad%create(MPI_COMM_WORLD%mpi_val, sizes=[num_ranks, 1], names=['a', 'a'], ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    call bad%create(MPI_COMM_NULL%mpi_val, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'MPI_COMM_NULL')
    call mesh%axis_size(0, number, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    call mesh%coordinate(2, number, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    call mesh%axis('nowhere', number, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'nowhere')
    call mesh%size(number, ierr)
    call expect(ierr == OSTRAKA_OK .and. number == num_ranks, __LINE__)
  end subroutine

  subroutine check_placements()
    type(ostraka_mesh_t) :: plane
    type(ostraka_buffer_t) :: buffer, result
    type(ostraka_shape_t) :: shapes(1)

    shapes = [ostraka_shape([2, 3])]
    call plane%create(MPI_COMM_WORLD%mpi_val, [num_ranks, 1])
    call buffer%empty(plane, [ostraka_shard(), ostraka_replicate()], shapes, OSTRAKA_F64, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'suffix')
    call buffer%empty(plane, [ostraka_shard()], shapes, OSTRAKA_F64, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, '1 placements for 2 mesh axes')
    call buffer%empty(mesh, [ostraka_placement_t(77, 0)], shapes, OSTRAKA_F64, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, '77')
    call buffer%empty(mesh, [ostraka_partial(9)], shapes, OSTRAKA_F64, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, '9')
    call buffer%empty(mesh, [ostraka_shard()], shapes, 99, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, '99')
    call buffer%empty(mesh, [ostraka_shard()], [ostraka_shape([2, -3])], OSTRAKA_F64, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    call buffer%empty(mesh, [ostraka_replicate()], shapes, OSTRAKA_F64, ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call buffer%allgather(1, result, ierr=ierr)  ! it is not sharded
    call expect(ierr /= OSTRAKA_OK, __LINE__)
    call buffer%allreduce(3, result, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    call buffer%view([ostraka_shard(), ostraka_shard()], result, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, '2 placements for 1 mesh axes')
    call buffer%redistribute([ostraka_placement_t ::], result, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    call buffer%destroy()
    call plane%destroy()
  end subroutine

  !! Arrays of the wrong shape, kind or stride.
  subroutine check_arrays()
    type(ostraka_buffer_t) :: buffer, other
    real(real64), target :: w(4, 6), good(2, 3), list(6)
    real(real64), pointer :: values(:)

    w = 1
    good = 2
    list = 3
    call buffer%empty(mesh, [ostraka_replicate()], [ostraka_shape([2, 3])], OSTRAKA_F64)
    call buffer%copy_from(1, reshape(list, [3, 2]), ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, 'shape (2, 3), the array rank 2, shape (3, 2)')
    call buffer%copy_from(1, list(:5), ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, 'the array rank 1, shape (5)')
    call buffer%copy_from(1, real(good, real32), ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'real(real32)')
    call buffer%copy_from(1, w(1:4:2, 1:3), ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'not contiguous')
    call buffer%copy_from(2, good, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    call buffer%copy_from(0, good, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    call other%distribute(mesh, [ostraka_replicate()], [ostraka_tensor(w(1:4:2, :))], OSTRAKA_F64, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'tensor 1: the array is not contiguous')
    call other%distribute(mesh, [ostraka_replicate()], [ostraka_tensor(w)], OSTRAKA_F32, ierr=ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__)
    call buffer%copy_from(1, good, ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call buffer%local(values)
    call expect(all(values(:6) == 2), __LINE__)
    call buffer%destroy()
  end subroutine

  !! Pointers of the wrong rank or kind; after an error they are null.
  subroutine check_pointers()
    type(ostraka_buffer_t) :: buffer
    real(real64), pointer :: list(:), matrix(:,:), cube(:,:,:)
    real(real32), pointer :: singles(:), single_matrix(:,:)
    integer(int16), pointer :: halves(:)

    call buffer%empty(mesh, [ostraka_replicate()], [ostraka_shape([2, 3])], OSTRAKA_F64)
    call buffer%tensor_view(1, list, ierr=ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, 'the pointer rank 1')
    call expect(.not. associated(list), __LINE__)
    call buffer%tensor_view(1, cube, ierr=ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, 'rank 2, shape (2, 3), the pointer rank 3')
    call expect(.not. associated(cube), __LINE__)
    call buffer%tensor_view(1, single_matrix, ierr=ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'real(real64), the array or pointer is real(real32)')
    call expect(.not. associated(single_matrix), __LINE__)
    call buffer%local(singles, ierr=ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__)
    call expect(.not. associated(singles), __LINE__)
    call buffer%tensor_range(1, halves, ierr=ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__)
    call buffer%tensor_range(5, list, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    call expect(.not. associated(list), __LINE__)
    call buffer%tensor_view(1, matrix, ierr=ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call buffer%destroy()
  end subroutine

  subroutine check_null_handles()
    type(ostraka_mesh_t) :: no_mesh, gone
    type(ostraka_layout_t) :: no_layout
    type(ostraka_buffer_t) :: buffer
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer
    type(ostraka_optimizer_t) :: optimizer
    real(real64), pointer :: values(:)
    integer(int64) :: count
    integer(int32) :: number

    call no_mesh%dims(number, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call no_layout%size(count, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call buffer%local(values, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call buffer%view([ostraka_shard()], buffer, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call buffer%empty(no_mesh, [ostraka_shard()], [ostraka_shape([2])], OSTRAKA_F64, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call buffer%create(mesh, [ostraka_shard()], no_layout, OSTRAKA_F64, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call context%create(no_mesh, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call context%add_module('layer', layer, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call layer%build(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call layer%parameter('weight', values, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call optimizer%create_sgd(context, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call optimizer%step(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call buffer%destroy(ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)

    call no_mesh%create(MPI_COMM_WORLD%mpi_val)
    gone = no_mesh
    call no_mesh%destroy()
    call gone%rank(number, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call gone%destroy(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
  end subroutine

  subroutine check_set_up()
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer, twin
    type(ostraka_optimizer_t) :: optimizer
    type(ostraka_mesh_t) :: plane

    call context%create(mesh, main_dtype=OSTRAKA_I32, ierr=ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__)
    call context%create(mesh, compute_dtype=OSTRAKA_I32, ierr=ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__)
    call context%create(mesh, recipe=17, ierr=ierr)
    call expect(ierr /= OSTRAKA_OK, __LINE__)
    call context%create(mesh, gradient_slots=0, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    call plane%create(MPI_COMM_WORLD%mpi_val, [num_ranks, 1])
    call context%create(mesh, recipe=OSTRAKA_HSDP, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'two axes')
    call context%create(plane, parameter_placements=[ostraka_shard()], ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, '1 placements for 2 mesh axes')
    call context%create(plane, parameter_placements=[ostraka_replicate(), ostraka_shard()], &
      gradient_placements=[ostraka_partial(OSTRAKA_MEAN), ostraka_shard()], &
      optimizer_placements=[ostraka_replicate(), ostraka_replicate()], ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'shards weights')
    call context%create(plane, parameter_placements=[ostraka_replicate(), ostraka_shard()], &
      gradient_placements=[ostraka_partial(OSTRAKA_MEAN), ostraka_shard()], &
      optimizer_placements=[ostraka_replicate(), ostraka_shard()], ierr=ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call context%add_module('layer', layer)
    call layer%set_precision(main_dtype=OSTRAKA_I32, ierr=ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'main type')
    call context%destroy()
    call plane%destroy()

    if (num_ranks > 1) then  ! what all ranks have to agree on
      call context%create(mesh, reduction=merge(OSTRAKA_SUM, OSTRAKA_MEAN, my_rank == 0), ierr=ierr)
      call expect_status(ierr, OSTRAKA_RANKS_DISAGREE, __LINE__)
      call context%create(mesh)
      call context%add_module('layer', layer)
      call layer%add_parameter('weight', [4 + my_rank])
      call layer%build(ierr)
      call expect_status(ierr, OSTRAKA_RANKS_DISAGREE, __LINE__, 'layer')
      call context%destroy()
    end if

    call context%create(mesh)
    call context%add_module('layer', layer)
    call context%add_module('layer', twin, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'exists')
    call context%add_module('', twin, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    call layer%add_parameter('weight', [3, 5])
    call layer%add_parameter('weight', [3, 5], ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'exists')
    call layer%add_parameter('bad', [3, -5], ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    call layer%add_parameter('bad', [3], dtype=OSTRAKA_I64, ierr=ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__)
    call context%finalize(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'not built')
    call optimizer%create_adamw(context, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__)
    call layer%build(ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call layer%add_parameter('late', [3], ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__)
    call layer%pre_forward(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'finalize')
    call context%finalize(ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call optimizer%create_sgd(context, learning_rate=-1d0, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    call context%destroy()
  end subroutine

  !! Hooks and pointers at the wrong time; then the same objects make a step.
  subroutine check_phases()
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer
    type(ostraka_optimizer_t) :: optimizer
    real(real64) :: w(3, 5), sections(6, 10), beta
    real(real32) :: beta32
    real(real64), pointer :: matrix(:,:), list(:), scalar
    real(real32), pointer :: singles(:,:)

    w = 1
    sections = 1
    call context%create(mesh)
    call context%add_module('layer', layer)
    call layer%add_parameter('weight', [3, 5])
    call layer%build()
    call layer%set_parameter('weight', transpose(w), ierr)
    call expect(ierr /= OSTRAKA_OK, __LINE__)
    call layer%set_parameter('weight', w(:, :4), ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, 'shape (3, 5), the array rank 2, shape (3, 4)')
    call layer%set_parameter('weight', sections(1:6:2, 1:5), ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'not contiguous')
    call layer%set_parameter('wait', w, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'wait')
    call layer%set_parameter('weight', w)
    call context%finalize()
    call optimizer%create_sgd(context, learning_rate=0.5d0)

    call optimizer%step(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'weight')
    call layer%post_forward(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'forward')
    call layer%pre_backward(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__)
    call layer%post_backward(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__)
    call layer%reshard(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__)
    call layer%parameter('weight', matrix, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__)
    call expect(.not. associated(matrix), __LINE__)
    call context%end_inference(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__)

    call layer%pre_forward()
    call layer%pre_forward(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__)
    call context%begin_inference(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__)
    call layer%set_parameter('weight', w, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__)
    call layer%gradient('weight', matrix, beta, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__)
    call layer%parameter('weight', singles, ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'the pointer is real(real32)')
    call expect(.not. associated(singles), __LINE__)
    call layer%parameter('weight', list, ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, 'shape (3, 5), the pointer rank 1')
    call layer%parameter('weight', scalar, ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__, 'the pointer rank 0')
    call expect(.not. associated(scalar), __LINE__)
    call layer%parameter('wait', matrix, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'wait')
    call layer%parameter('weight', matrix)
    call expect(all(matrix == 1), __LINE__)
    call layer%post_forward()

    call layer%pre_backward()
    call layer%gradient('weight', singles, beta32, ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__)
    call layer%gradient('weight', list, beta, ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__)
    call layer%gradient('weight', matrix, beta, ierr)
    call expect(ierr == OSTRAKA_OK .and. beta == 0, __LINE__)  ! the errors before did not count as contributions
    matrix = my_rank
    call context%zero_grad(ierr)  ! would lose what was just written
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__)
    call layer%post_backward()
    call context%finish_backward(ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call optimizer%step(ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call layer%unshard()
    call layer%parameter('weight', matrix)
    call expect(all(abs(matrix - (1 - 0.25d0 * (num_ranks - 1))) < 1d-14), __LINE__)
    call layer%reshard()
    call context%destroy()
    call optimizer%step(ierr)
    call expect(ierr /= OSTRAKA_OK, __LINE__)
    call optimizer%destroy(ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
  end subroutine
end program
