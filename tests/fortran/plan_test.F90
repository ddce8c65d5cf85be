! SPDX-License-Identifier: Apache-2.0
!! Plans, alone: without mpiexec, MPI_Init and ostraka_initialize. Numbers are worked out by hand.
program plan_test
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use checks
  use ostraka
  implicit none
  integer(int32), parameter :: ranks = 4, modules = 3, elements = 1024  ! f64; a part is a multiple of 64 bytes
  integer(int64), parameter :: whole = 8 * elements
  integer(int64), parameter :: fast = 2_int64**62

  call check_numbers()
  call check_shapes()
  call check_times()
  call check_choices()
  call check_units()
  call check_errors()
  call finish_alone()

contains

  subroutine make_plan(plan, recipe)
    type(ostraka_plan_t), intent(out) :: plan
    integer(int32), intent(in) :: recipe
    integer(int32) :: unit

    call plan%create([ranks], recipe=recipe, backend=OSTRAKA_BACKEND_MPI)
    call plan%add_unit('layer', unit, count=modules)
    call expect(unit == 1, __LINE__)
    call plan%add_parameter(unit, 'weight', [4, elements / 4])
  end subroutine

  subroutine check_numbers()
    type(ostraka_plan_t) :: plan
    type(ostraka_plan_bytes_t) :: bytes
    type(ostraka_plan_summary_t) :: summary
    type(ostraka_plan_traffic_t) :: traffic
    type(ostraka_memory_report_t) :: memory
    character(:), allocatable :: name

    call make_plan(plan, OSTRAKA_ZERO_3)
    call plan%compute()
    call plan%bytes(bytes)
    call expect(bytes%model_weights == modules * whole / ranks, __LINE__)
    call expect(bytes%main_weights == 0, __LINE__)
    call expect(bytes%main_gradients == modules * whole / ranks, __LINE__)
    call expect(bytes%moments == 2 * modules * whole / ranks, __LINE__)
    call expect(bytes%slots_peak == 2 * whole .and. bytes%gathered_peak == 2 * whole, __LINE__)
    call expect(bytes%total == modules * whole .and. bytes%shared_memory == 0, __LINE__)
    call expect(bytes%peak == bytes%total + bytes%transient_peak, __LINE__)
    call plan%node_bytes(bytes)
    call expect(bytes%total == ranks * modules * whole, __LINE__)
    call plan%memory(memory)
    call expect(memory%parameters == modules * whole / ranks, __LINE__)
    call plan%node_memory(memory)
    call expect(memory%optimizer_state == 2 * modules * whole, __LINE__)
    call plan%summary(summary)
    call expect(summary%recipe == OSTRAKA_ZERO_3 .and. summary%num_elements == modules * elements, __LINE__)
    call expect(abs(summary%bytes_per_parameter - 32.0_real64 / ranks) < 1e-12_real64, __LINE__)
    call expect(summary%node_ranks == ranks .and. summary%gradient_slots == 2, __LINE__)
    call plan%traffic(1, traffic)
    call expect(traffic%size == ranks .and. traffic%allgathers == 2 * modules, __LINE__)
    call expect(traffic%reduce_scatters == modules .and. traffic%allreduces == 0, __LINE__)
    call expect(traffic%sent == 3 * modules * whole * (ranks - 1) / ranks, __LINE__)
    call expect(traffic%received == traffic%sent, __LINE__)
    call plan%carrier(1, name)
    call expect(name == 'mpi', __LINE__)
    call plan%destroy()
    call plan%destroy()  ! a null handle
  end subroutine

  !! Extents are those of the array; long ones need 64 bits.
  subroutine check_shapes()
    type(ostraka_plan_t) :: plan
    type(ostraka_plan_summary_t) :: summary
    integer(int32) :: unit
    integer, parameter :: none(0) = 0

    call plan%create([2], backend=OSTRAKA_BACKEND_MPI)
    call plan%add_unit('u', unit)
    call plan%add_parameter(unit, 'tensor', [2, 3, 5], dtype=OSTRAKA_F32)
    call plan%add_parameter(unit, 'long', [3000000000_int64], dtype=OSTRAKA_F32)
    call plan%add_parameter(unit, 'scalar', none, dtype=OSTRAKA_F32)
    call plan%compute()
    call plan%summary(summary)
    call expect(summary%num_elements == 3000000031_int64, __LINE__)
    call plan%destroy()
  end subroutine

  !! A network that takes no time hides; a slow one does not.
  subroutine check_times()
    type(ostraka_plan_t) :: plan
    type(ostraka_plan_summary_t) :: summary
    integer(int32) :: unit
    real(real64), parameter :: seconds = 2 * modules * 2

    call plan%create([ranks], backend=OSTRAKA_BACKEND_MPI, optimizer=OSTRAKA_UPDATE_NONE, micro_batches=2, &
      network_latency_s=0.0_real64, network_bandwidth=real(fast, real64), memory_bandwidth=real(fast, real64))
    call plan%add_unit('layer', unit, count=modules)
    call plan%add_parameter(unit, 'weight', [elements])
    call plan%set_times(unit, 0.5_real64, 1.5_real64)
    call plan%compute()
    call plan%summary(summary)
    call expect(abs(summary%arithmetic_s - seconds) < 1e-9_real64, __LINE__)
    call expect(abs(summary%step_s - seconds) < 1e-9_real64, __LINE__)
    call plan%set_link(1, 0.0_real64, 1e3_real64)
    call plan%compute()
    call plan%summary(summary)
    call expect(summary%exposed_s > 10, __LINE__)
    call expect(abs(summary%step_s - summary%arithmetic_s - summary%exposed_s) < 1e-9_real64, __LINE__)
    call plan%destroy()
  end subroutine

  subroutine check_choices()
    type(ostraka_plan_t) :: plan
    type(ostraka_plan_t), allocatable :: plans(:)
    type(ostraka_plan_bytes_t) :: least, bytes
    integer(int32) :: which, count, ierr
    logical :: fits

    call make_plan(plan, OSTRAKA_ZERO_2)
    call plan%compare([OSTRAKA_NO_SHARD, OSTRAKA_ZERO_3, OSTRAKA_HSDP], plans)
    call expect(size(plans) == 3, __LINE__)
    call plans(2)%bytes(least)
    call expect(least%total == modules * whole, __LINE__)
    call plans(3)%bytes(bytes, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'two axes')
    call plans(2)%fits(fits)
    call expect(fits, __LINE__)
    call plans(2)%fits(fits, rank_bytes=least%peak)
    call expect(fits, __LINE__)
    call plans(2)%fits(fits, rank_bytes=least%peak - 1)
    call expect(.not. fits, __LINE__)
    call plans(2)%fits(fits, node_bytes=least%peak)
    call expect(.not. fits, __LINE__)
    call ostraka_cheapest_plan(plans, which, rank_bytes=least%peak)
    call expect(which == 2, __LINE__)
    call ostraka_cheapest_plan(plans, which, rank_bytes=0_int64)
    call expect(which == 0, __LINE__)
    call plans(2)%largest(1, count, rank_bytes=least%peak + whole)  ! one module takes `whole` at rest
    call expect(count == modules + 1, __LINE__)
    call plans(2)%largest(1, count, rank_bytes=10_int64)
    call expect(count == 0, __LINE__)
    do which = 1, 3
      call plans(which)%destroy()
    end do
    call plan%destroy()
  end subroutine

  !! Units inside each other, settings of units, and placements by hand: ZeRO-2.
  subroutine check_units()
    type(ostraka_plan_t) :: plan
    type(ostraka_plan_bytes_t) :: bytes
    type(ostraka_plan_summary_t) :: summary
    type(ostraka_placement_t) :: replicate(1), shard(1)
    integer(int32) :: outer, inner

    replicate = ostraka_replicate()
    shard = ostraka_shard()
    call plan%create([ranks], names=['ranks'], parameter_placements=replicate, gradient_placements=shard, &
      optimizer_placements=shard, backend=OSTRAKA_BACKEND_MPI)
    call plan%add_unit('block', outer)
    call plan%add_unit('inner', inner, count=2, parent=outer)
    call expect(outer == 1 .and. inner == 2, __LINE__)
    call plan%add_parameter(outer, 'w', [elements])
    call plan%add_parameter(inner, 'w', [elements], dtype=OSTRAKA_F32)
    call plan%add_parameter(inner, 'fixed', [elements], dtype=OSTRAKA_F32, trainable=.false.)
    call plan%set_precision(inner, main_dtype=OSTRAKA_F64)
    call plan%set_prefetch(inner, 0)
    call plan%set_gradient_divisor(inner, 2.0_real64)
    call plan%set_nodes([0, 1, 1, 1])
    call plan%compute()
    call plan%bytes(bytes)
    call expect(bytes%model_weights == (8 + 2 * 2 * 4) * elements, __LINE__)
    call expect(bytes%main_gradients == (8 + 2 * 8) * elements / ranks, __LINE__)
    call expect(bytes%moments == 2 * bytes%main_gradients, __LINE__)
    call plan%summary(summary)
    call expect(summary%node_ranks == 1 .or. summary%node_ranks == 3, __LINE__)
    call plan%destroy()
  end subroutine

  subroutine check_errors()
    type(ostraka_plan_t) :: plan, none
    type(ostraka_plan_summary_t) :: summary
    type(ostraka_plan_traffic_t) :: traffic
    type(ostraka_placement_t) :: two(2)
    integer(int32) :: unit, ierr
    integer, parameter :: no_axes(0) = 0

    call plan%create(no_axes, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'axes >= 1, found 0')
    call plan%create([2, 2], names=['a'], ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, '1 names for 2 axes')
    call plan%create([2], parameter_placements=two, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, '2 placements for 1 mesh axes')
    call make_plan(plan, OSTRAKA_ZERO_3)
    call plan%summary(summary, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'ostraka_plan_compute first')
    call plan%add_unit('u', unit, parent=0, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'parent >= 1, found 0')
    call plan%add_parameter(2, 'w', [3], ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'unit')
    call plan%set_times(0, 1.0_real64, 1.0_real64, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'unit')
    call plan%set_link(2, 1.0_real64, 1.0_real64, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'axis')
    call plan%compute()
    call plan%traffic(2, traffic, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'axis')
    call plan%summary(summary, ierr)
    call expect(ierr == OSTRAKA_OK, __LINE__)
    call plan%add_parameter(1, 'w', [-4], ierr=ierr)
    call plan%compute(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, '-4')
    call plan%destroy()
    call none%compute(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'plan handle is null')
  end subroutine
end program
