! SPDX-License-Identifier: Apache-2.0
!! What a plan foresees is what a context says that was created with the same arguments and has made a step, for the
!! shapes of the steam network.
program plan_context_test
  use, intrinsic :: iso_fortran_env, only: real32, real64
  use checks
  use ostraka
  implicit none
  integer, parameter :: num_layers = 4, width(0:num_layers) = [2, 64, 64, 64, 3]
  integer(int32), parameter :: recipes(*) = [OSTRAKA_NO_SHARD, OSTRAKA_ZERO_1, OSTRAKA_ZERO_2, OSTRAKA_ZERO_3, &
    OSTRAKA_HSDP, OSTRAKA_HFSDP]
  integer :: i

  call start()
  do i = 1, size(recipes)
    call check_recipe(recipes(i), OSTRAKA_F64)
    call check_recipe(recipes(i), OSTRAKA_BF16)
  end do
  call finish()

contains

  subroutine check_recipe(recipe, dtype)
    integer(int32), intent(in) :: recipe, dtype
    type(ostraka_mesh_t) :: mesh
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer(num_layers)
    type(ostraka_optimizer_t) :: adamw
    type(ostraka_plan_t) :: plan
    type(ostraka_memory_report_t) :: foreseen, found
    integer(int32) :: sizes(2), unit, l
    character(7) :: name

    sizes = [1, num_ranks]
    if (num_ranks == 4) sizes = [2, 2]
    call plan%create(sizes, recipe=recipe, gradient_slots=3, reduction=OSTRAKA_SUM, rank=my_rank)
    call mesh%create(MPI_COMM_WORLD%mpi_val, sizes)
    call context%create(mesh, recipe=recipe, gradient_slots=3, reduction=OSTRAKA_SUM)
    do l = 1, num_layers
      write(name, '("layer ", i0)') l
      call plan%add_unit(name, unit)
      call plan%add_parameter(unit, 'weight', width(l - 1:l), dtype=dtype)
      call plan%add_parameter(unit, 'bias', [width(l)], dtype=dtype)
      call context%add_module(name, layer(l))
      call layer(l)%add_parameter('weight', width(l - 1:l), dtype=dtype)
      call layer(l)%add_parameter('bias', [width(l)], dtype=dtype)
      call layer(l)%build()
    end do
    call plan%compute()
    call context%finalize()
    call adamw%create_adamw(context)
    call take_step(context, layer, dtype)
    call adamw%step()
    call plan%memory(foreseen)
    call context%memory(found)
    call expect_equal(foreseen, found, __LINE__)
    call plan%node_memory(foreseen)
    call context%node_memory(found)
    call expect_equal(foreseen, found, __LINE__)
    call adamw%destroy()
    call context%destroy()
    call mesh%destroy()
    call plan%destroy()
  end subroutine

  subroutine take_step(context, layer, dtype)
    type(ostraka_fsdp_context_t), intent(in) :: context
    type(ostraka_fsdp_module_t), intent(in) :: layer(:)
    integer(int32), intent(in) :: dtype
    real(real64), pointer, contiguous :: gw(:, :), gb(:)
    real(real32), pointer, contiguous :: hw(:, :), hb(:)
    real(real64) :: beta
    real(real32) :: half_beta
    integer :: l

    do l = 1, num_layers
      call layer(l)%pre_forward()
      call layer(l)%post_forward()
    end do
    do l = num_layers, 1, -1
      call layer(l)%pre_backward()
      if (dtype == OSTRAKA_F64) then
        call layer(l)%gradient('weight', gw, beta)
        call layer(l)%gradient('bias', gb, beta)
        gw = 0
        gb = 0
      else
        call layer(l)%gradient('weight', hw, half_beta)
        call layer(l)%gradient('bias', hb, half_beta)
        hw = 0
        hb = 0
      end if
      call layer(l)%post_backward()
    end do
    call context%finish_backward()
  end subroutine

  subroutine expect_equal(foreseen, found, line)
    type(ostraka_memory_report_t), intent(in) :: foreseen, found
    integer, intent(in) :: line

    call expect(foreseen%parameters == found%parameters, line, 'parameters')
    call expect(foreseen%gradients == found%gradients, line, 'gradients')
    call expect(foreseen%optimizer_state == found%optimizer_state, line, 'optimizer state')
    call expect(foreseen%transient_peak == found%transient_peak, line, 'transient peak')
    call expect(foreseen%num_elements == found%num_elements, line, 'number of elements')
  end subroutine
end program
