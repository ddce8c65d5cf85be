! SPDX-License-Identifier: Apache-2.0
! Saves a run between two epochs and goes on from there, on any number of ranks.
module steam_checkpoint
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use ostraka
  use steam_random
  implicit none
  private
  public :: save_run, resume_run

contains

  ! The network and the optimizer by their handles; what this program has of its own by name. Collective.
  subroutine save_run(file, context, optimizer, random, order, loss)
    character(*), intent(in) :: file
    type(ostraka_fsdp_context_t), intent(in) :: context
    type(ostraka_optimizer_t), intent(in) :: optimizer
    type(random_t), intent(in) :: random
    integer, intent(in) :: order(:)
    real(real64), intent(in) :: loss(:, :)  ! of all epochs so far
    type(ostraka_extras_t) :: extras

    call extras%create()
    call extras%set('epoch', size(loss, 2))
    call extras%set('random state', random%state)
    call extras%set('order', order)
    call extras%set('loss', loss)
    call ostraka_save(file, context, optimizer, extras)
    call extras%destroy()
  end subroutine

  ! `epoch` is the last one that was saved; loss(:, :epoch) are its results and those before. Collective.
  subroutine resume_run(file, context, optimizer, random, order, loss, epoch)
    character(*), intent(in) :: file
    type(ostraka_fsdp_context_t), intent(in) :: context
    type(ostraka_optimizer_t), intent(in) :: optimizer
    type(random_t), intent(inout) :: random
    integer, intent(inout) :: order(:)
    real(real64), intent(inout) :: loss(:, :)
    integer, intent(out) :: epoch
    type(ostraka_extras_t) :: extras

    call extras%create()
    call ostraka_load(file, context, optimizer, extras)
    call extras%get('epoch', epoch)
    call extras%get('random state', random%state)
    call extras%get('order', order)
    call extras%get('loss', loss(:, :epoch))
    call extras%destroy()
  end subroutine

end module
