! SPDX-License-Identifier: Apache-2.0
!! Training with whole weights gives the same as plain Fortran on all points, on any number of ranks; what is done to
!! weights and gradients beside a step.
program ddp_test
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use checks
  use ddp_network
  use model, only: compare, ramp
  use ostraka
  implicit none

  type(ostraka_mesh_t) :: mesh

  call start()
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call train('by hand', 1, sharded=.false., overlap=.true.)
  call train('by hand', 3, sharded=.false., overlap=.false.)
  call train('sgd', 3, sharded=.false., overlap=.true.)
  call train('adamw', 1, sharded=.true., overlap=.true.)
  call train('sgd', 1, sharded=.true., overlap=.false.)
  call train('adamw', 3, sharded=.true., overlap=.true.)
  call check_weights()
  call check_gathers()
  call check_counts()
  call check_memory()
  call check_experts()
  call check_norms()
  call check_parts()
  call mesh%destroy()
  call finish()

contains

  !! The caller's own update of whole weights.
  subroutine descend(ddp)
    type(ostraka_ddp_t), intent(in) :: ddp
    real(real64), pointer :: w1(:,:), b1(:), w2(:,:), b2(:), g(:)
    integer(int64) :: offset

    call ddp%parameter('hidden.weight', w1)
    call ddp%main_gradient('hidden.weight', g, offset)
    w1 = w1 - 0.1d0 * reshape(g, shape(w1))
    call ddp%parameter('hidden.bias', b1)
    call ddp%main_gradient('hidden.bias', g, offset)
    b1 = b1 - 0.1d0 * g
    call ddp%parameter('output.weight', w2)
    call ddp%main_gradient('output.weight', g, offset)
    w2 = w2 - 0.1d0 * reshape(g, shape(w2))
    call ddp%parameter('output.bias', b2)
    call ddp%main_gradient('output.bias', g, offset)
    b2 = b2 - 0.1d0 * g
    call expect(offset == 0, __LINE__)
  end subroutine

  subroutine train(optimizer, batches, sharded, overlap)
    character(*), intent(in) :: optimizer
    integer, intent(in) :: batches
    logical, intent(in) :: sharded, overlap
    type(ostraka_ddp_t) :: ddp
    type(ostraka_optimizer_t) :: steps
    type(net_t) :: found, wanted
    integer :: step, batch
    logical :: syncing

    call ddp%create(mesh, scaling=OSTRAKA_SCALING_SUM, bucket_size=8_int64, sharded_optimizer=sharded, &
      overlap_grad_reduce=overlap, overlap_param_gather=sharded .and. overlap)
    call add_network(ddp)
    if (optimizer == 'sgd') call steps%create_sgd(ddp, learning_rate=0.05d0, momentum=0.9d0, weight_decay=1d-3)
    if (optimizer == 'adamw') call steps%create_adamw(ddp, learning_rate=0.02d0, beta1=0.8d0, beta2=0.95d0, &
      epsilon=1d-6, weight_decay=0.1d0)
    do step = 1, num_steps
      call ddp%begin_no_sync()
      do batch = 1, batches
        if (batch == batches) call ddp%end_no_sync()
        call ddp%is_syncing(syncing)
        call expect(syncing .eqv. batch == batches, __LINE__)
        call run_pass(ddp, step, batch, batches, overlap)
      end do
      if (mod(step, 2) == 0) call ddp%start_grad_sync()
      call ddp%finish_grad_sync()
      if (optimizer == 'by hand') then
        call descend(ddp)
      else
        call steps%step()
      end if
      call ddp%zero_grad_buffer()
    end do
    wanted = train_plainly(optimizer, batches)
    found = weights_of(ddp)
    call expect(maxval(abs(flat(found) - flat(wanted))) < 1d-13, __LINE__, optimizer // ' differs')
    call expect(maxval(abs(flat(wanted) - flat(first_weights()))) > 1d-2, __LINE__, 'nothing was learnt')
    call steps%destroy()
    call ddp%destroy()
  end subroutine

  !! --- beside a step

  !! Rank 0 has the weights; the others get them.
  subroutine check_weights()
    type(ostraka_ddp_t) :: ddp
    real(real64) :: other(hidden)

    call ddp%create(mesh)
    call add_network(ddp)
    other = my_rank
    if (my_rank > 0) call ddp%set_parameter('hidden.bias', other)
    call ddp%broadcast_params()
    call expect(all(flat(weights_of(ddp)) == flat(first_weights())), __LINE__)
    call ddp%destroy()
  end subroutine

  subroutine check_gathers()
    type(ostraka_ddp_t) :: ddp
    type(ostraka_optimizer_t) :: sgd
    real(real64) :: wanted(num_weights)
    real(real64), pointer :: b(:)
    logical :: hooks
    integer :: step
    integer(int32) :: ierr

    call ddp%create(mesh, num_buckets=2, sharded_optimizer=.true., overlap_param_gather=.true., &
      scaling=OSTRAKA_SCALING_SUM, pad_for_bandwidth=.false., arrangement=OSTRAKA_ARRANGEMENT_PACKED)
    call add_network(ddp)
    call sgd%create_sgd(ddp, learning_rate=0.1d0)
    do step = 1, num_steps
      call run_pass(ddp, step, 1, 1, .true.)
      call ddp%finish_grad_sync()
      call sgd%step()
      call ddp%zero_grad_buffer()
      if (step == 1) call ddp%ensure_ready('output.bias')
      if (step == 2) call ddp%start_param_sync()
      if (step == 3) then
        call ddp%disable_forward_pre_hook(param_sync=.false.)
        call ddp%has_forward_pre_hook(hooks)
        call expect(.not. hooks, __LINE__)
        call ddp%parameter('output.bias', b, ierr)
        if (num_ranks > 1) call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'call start_param_sync first')
        call ddp%start_param_sync(force_sync=.true.)
        call ddp%enable_forward_pre_hook()
      end if
    end do
    call ddp%disable_forward_pre_hook()
    wanted = flat(train_plainly('by hand', 1))
    call expect(maxval(abs(flat(weights_of(ddp)) - wanted)) < 1d-13, __LINE__)
    call ddp%start_param_sync(force_dispatch=.true.)
    call ddp%reset_param_sync_dispatch_state(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'being gathered')
    call ddp%free_overlap_buffers()
    call ddp%reset_param_sync_dispatch_state()
    call ddp%start_param_sync(force_sync=.true.)
    call expect(maxval(abs(flat(weights_of(ddp)) - wanted)) < 1d-13, __LINE__)
    call sgd%destroy()
    call ddp%destroy()
  end subroutine

  !! A parameter that is used twice, one whose uses are learnt, one without; whole gradients of a sharded optimizer.
  subroutine check_counts()
    type(ostraka_ddp_t) :: ddp
    real(real64), pointer :: g(:), gw(:,:), list(:)
    integer(int64) :: offset
    integer :: step, use

    call ddp%create(mesh, bucket_size=4_int64, sharded_optimizer=.true., disable_bucketing=.false.)
    call add_network(ddp)
    call ddp%set_uses('hidden.bias', 2)
    call ddp%set_uses('output.bias', OSTRAKA_USES_AUTO)
    call ddp%set_uses('output.weight', 0)
    do step = 1, 2
      call ddp%zero_grad_buffer()
      do use = 1, 2
        call ddp%gradient('output.bias', list)
        list = list + my_rank
        call ddp%gradient_ready('output.bias')
        call ddp%gradient('hidden.bias', g)
        g = g + my_rank + ramp(hidden)
        call ddp%gradient_ready('hidden.bias')
      end do
      call ddp%gradient('hidden.weight', gw)
      gw = 1
      call ddp%gradient_ready('hidden.weight')
      call ddp%finish_grad_sync(force_all_reduce=.true.)
      call expect(maxval(abs(g - 2 * ramp(hidden) - (num_ranks - 1))) < 1d-12, __LINE__)
      call ddp%scale_gradients(0.5d0)
      call ddp%main_gradient('hidden.bias', list, offset)
      call compare(list, offset, ramp(hidden) + (num_ranks - 1) / 2d0, __LINE__)
      call ddp%main_gradient('output.weight', list, offset)
      call expect(all(list == 0), __LINE__)
    end do
    call ddp%destroy()
  end subroutine

  subroutine check_memory()
    type(ostraka_ddp_t) :: ddp
    type(ostraka_memory_report_t) :: full, empty

    call ddp%create(mesh, main_dtype=OSTRAKA_F64, uses=1)
    call add_network(ddp)
    call ddp%memory(full)
    call expect(full%num_elements == num_weights .and. full%gradients >= 8 * num_weights, __LINE__)
    call ddp%offload_grad_buffers()
    call ddp%memory(empty)
    call expect(empty%gradients == 0 .and. empty%parameters == full%parameters, __LINE__)
    call ddp%restore_grad_buffers()
    call ddp%memory(empty)
    call expect(empty%gradients == full%gradients, __LINE__)
    call ddp%destroy()
  end subroutine

  !! Every rank has an expert of its own, or ranks of two kinds have.
  subroutine check_experts()
    type(ostraka_mesh_t) :: experts
    type(ostraka_ddp_t) :: ddp
    type(MPI_Comm) :: comm
    real(real64), pointer :: g(:), list(:)
    integer(int64) :: offset
    integer :: kinds, rank
    real(real64) :: total

    kinds = merge(2, 1, mod(num_ranks, 2) == 0)
    call mpi_comm_split(MPI_COMM_WORLD, mod(my_rank, kinds), my_rank, comm)
    call experts%create(comm%mpi_val)
    call ddp%create(mesh, experts)
    call ddp%add_parameter('expert.w', [2], expert=.true.)
    call ddp%add_parameter('w', [2])
    call ddp%finalize()
    call ddp%gradient('w', g)
    g = my_rank
    call ddp%gradient_ready('w')
    call ddp%gradient('expert.w', g)
    g = my_rank
    call ddp%gradient_ready('expert.w')
    call ddp%finish_grad_sync()
    total = sum([(rank, rank = mod(my_rank, kinds), num_ranks - 1, kinds)])
    call ddp%main_gradient('expert.w', list, offset)
    call expect(all(abs(list - total / num_ranks) < 1d-14), __LINE__)
    call ddp%main_gradient('w', list, offset)
    call expect(all(abs(list - (num_ranks - 1) / 2d0) < 1d-14), __LINE__)
    call ddp%destroy()
    call experts%destroy()
    call mpi_comm_free(comm)
  end subroutine

  subroutine check_norms()
    type(ostraka_ddp_t) :: ddp
    type(ostraka_optimizer_t) :: sgd
    real(real64), pointer :: g(:), w(:)
    real(real64) :: norm

    call ddp%create(mesh, sharded_optimizer=.true.)
    call ddp%add_parameter('w', [2])
    call ddp%finalize()
    call sgd%create_sgd(ddp, learning_rate=1d0)
    call sgd%set_group('w', learning_rate_factor=2d0)
    call ddp%gradient('w', g)
    g = g + [3d0, 4d0]
    call ddp%gradient_ready('w')
    call ddp%finish_grad_sync()
    call sgd%clip_gradients(1d0, norm)
    call expect(abs(norm - 5) < 1d-14, __LINE__)
    call sgd%step()
    call ddp%parameter('w', w)
    call expect(all(abs(w + [1.2d0, 1.6d0]) < 1d-5), __LINE__)
    call sgd%destroy()
    call ddp%destroy()
  end subroutine

  !! A weight that is cut over the ranks.
  subroutine check_parts()
    type(ostraka_ddp_t) :: ddp
    real(real64), pointer :: g(:), part(:)
    integer(int64) :: offset

    call ddp%create(mesh, sharded_optimizer=.true.)
    call ddp%add_parameter('w', [1000])
    call ddp%finalize()
    call ddp%gradient('w', g)
    g = g + ramp(1000)
    call ddp%gradient_ready('w')
    call ddp%finish_grad_sync()
    call ddp%main_gradient('w', part, offset)
    call compare(part, offset, ramp(1000), __LINE__)
    call expect(my_rank == 0 .or. offset > 0, __LINE__)
    call ddp%destroy()
  end subroutine
end program
