! SPDX-License-Identifier: Apache-2.0
!! Internal: the configuration of a context from the optional arguments that contexts and plans take.
module ostraka_fsdp_config
  use, intrinsic :: iso_c_binding, only: c_loc, c_ptr, c_sizeof
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use ostraka_c_fsdp, only: c_fsdp_config_init_versioned
  use ostraka_mesh, only: check_placements
  use ostraka_support, only: as_int
  use ostraka_types, only: c_fsdp_config_t, OSTRAKA_FSDP_CONFIG_VERSION, OSTRAKA_OK, ostraka_placement_t
  implicit none
  private
  public :: make_fsdp_config

contains

  !! Defaults, but for what is present. `config` points to the placements, which are one per axis of `dims`. Does nothing
  !! unless `status` says that all is well; `text` is not empty when an error was found here.
  subroutine make_fsdp_config(config, dims, status, text, recipe, reduction, gradient_slots, broadcast, main_dtype, &
    compute_dtype, reduction_dtype, parameter_placements, gradient_placements, optimizer_placements, prefetch, &
    unified_stream, gradient_slot_bytes)
    type(c_fsdp_config_t), intent(out) :: config
    integer(int32), intent(in) :: dims
    integer(int32), intent(inout) :: status
    character(:), allocatable, intent(out) :: text
    integer(int32), intent(in), optional :: recipe, reduction, gradient_slots
    logical, intent(in), optional :: broadcast
    integer(int32), intent(in), optional :: main_dtype, compute_dtype, reduction_dtype
    integer(int64), intent(in), optional :: prefetch, gradient_slot_bytes
    logical, intent(in), optional :: unified_stream
    type(ostraka_placement_t), intent(in), optional, target, contiguous :: parameter_placements(:), &
      gradient_placements(:), optimizer_placements(:)

    text = ''
    if (status /= OSTRAKA_OK) return
    status = c_fsdp_config_init_versioned(config, int(c_sizeof(config), int64), OSTRAKA_FSDP_CONFIG_VERSION)
    if (status /= OSTRAKA_OK) return
    if (present(recipe)) config%recipe = recipe
    if (present(reduction)) config%reduction = reduction
    if (present(gradient_slots)) config%gradient_slots = gradient_slots
    config%broadcast = as_int(broadcast, config%broadcast)
    if (present(main_dtype)) config%main_dtype = main_dtype
    if (present(compute_dtype)) config%compute_dtype = compute_dtype
    if (present(reduction_dtype)) config%reduction_dtype = reduction_dtype
    if (present(prefetch)) config%prefetch = prefetch
    if (present(gradient_slot_bytes)) config%gradient_slot_bytes = gradient_slot_bytes
    config%unified_stream = as_int(unified_stream, config%unified_stream)
    if (present(parameter_placements)) call take(parameter_placements, config%parameter_placements)
    if (present(gradient_placements)) call take(gradient_placements, config%gradient_placements)
    if (present(optimizer_placements)) call take(optimizer_placements, config%optimizer_placements)

  contains

    subroutine take(placements, address)
      type(ostraka_placement_t), intent(in), target, contiguous :: placements(:)
      type(c_ptr), intent(inout) :: address

      if (status /= OSTRAKA_OK) return
      call check_placements(placements, dims, status, text)
      address = c_loc(placements)
    end subroutine
  end subroutine
end module
