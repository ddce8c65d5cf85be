! SPDX-License-Identifier: Apache-2.0
!! A network whose training steps have room for mistakes: `if (now()) call something(wrong, ierr)` and behind it what
!! that gives.
module mistakes
  use, intrinsic :: iso_fortran_env, only: int32, real64
  use checks
  use ostraka
  implicit none
  public
  private :: is_made

  type(ostraka_mesh_t) :: mesh
  type(ostraka_fsdp_context_t) :: context
  type(ostraka_fsdp_module_t) :: net, a, b, spare
  type(ostraka_optimizer_t) :: sgd
  real(real64) :: wanted_weight = 0
  integer(int32) :: ierr
  integer :: chosen = 0, passed = 0  ! the mistake that is made, and those passed in this step
  logical :: is_made = .false.

contains

  !! 'net' without parameters around 'a' ('w', also called 'v', and the frozen 'fixed'), 'b' ('w') and 'spare', which is
  !! never used. Every rank contributes 1, so a step of rate 1 lowers weights by the number of ranks.
  subroutine add_modules(recipe)
    integer(int32), intent(in) :: recipe

    call context%create(mesh, recipe=recipe, reduction=OSTRAKA_SUM)
    call context%add_module('net', net)
    call net%add_module('a', a)
    call net%add_module('b', b)
    call net%add_module('spare', spare)
    call spare%set_allow_unused(.true.)
    call a%add_parameter('fixed', [5], trainable=.false.)
    call a%add_parameter('w', [5])
    call a%tie_parameter('v', 'w')
    call b%add_parameter('w', [5])
    call b%build()
    call spare%add_parameter('w', [5])
    call spare%build()
  end subroutine

  subroutine complete()
    call a%build()
    call context%finalize()
    call sgd%create_sgd(context, learning_rate=1d0)
    wanted_weight = 0
  end subroutine

  subroutine destroy()
    call sgd%destroy()
    call context%destroy()
  end subroutine

  subroutine forward(layer)
    type(ostraka_fsdp_module_t), intent(in) :: layer

    call layer%pre_forward()
    call layer%post_forward()
  end subroutine

  subroutine write_one(layer)
    type(ostraka_fsdp_module_t), intent(in) :: layer
    real(real64), pointer :: g(:)
    real(real64) :: beta

    call layer%gradient('w', g, beta)
    if (beta == 0) g = 0
    g = g + 1
  end subroutine

  subroutine backward(layer)
    type(ostraka_fsdp_module_t), intent(in) :: layer

    call layer%pre_backward()
    call write_one(layer)
    call layer%post_backward()
  end subroutine

  subroutine expect_weights(layer)
    type(ostraka_fsdp_module_t), intent(in) :: layer
    real(real64), pointer :: w(:)

    call layer%unshard()
    call layer%parameter('w', w)
    call expect(all(w == wanted_weight), __LINE__, 'weights are wrong')
    call layer%reshard()
  end subroutine

  !! Whether the mistake that follows is made in this step.
  logical function now()
    now = passed == chosen
    is_made = now
    passed = passed + 1
  end function

  !! What it gives, if it was made.
  subroutine gives(status, fragment)
    integer(int32), intent(in) :: status
    character(*), intent(in) :: fragment

    if (is_made) call expect_status(ierr, status, __LINE__, fragment)
    is_made = .false.
  end subroutine

  subroutine refused(fragment)
    character(*), intent(in) :: fragment

    call gives(OSTRAKA_INVALID_STATE, fragment)
  end subroutine
end module
