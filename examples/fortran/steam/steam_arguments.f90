! SPDX-License-Identifier: Apache-2.0
! What the program was asked for.
module steam_arguments
  use steam_data, only: num_epochs
  implicit none
  private
  public :: read_arguments

  type, public :: arguments_t
    character(:), allocatable :: folder, checkpoint
    integer :: epochs = num_epochs
    integer :: every = 0        ! so many epochs are from save to save; 0: none is saved
    logical :: resumes = .false.
  end type

contains

  ! `message` is empty, or says what is wrong.
  subroutine read_arguments(arguments, message)
    type(arguments_t), intent(out) :: arguments
    character(:), allocatable, intent(out) :: message
    character(4096) :: text
    integer :: i, found

    message = ''
    call get_environment_variable('STEAM_DATA', text)
    if (len_trim(text) == 0) text = 'data'
    arguments%folder = trim(text)
    arguments%checkpoint = 'steam.h5'
    i = 1
    found = 0
    do while (i <= command_argument_count() .and. len(message) == 0)
      call get_command_argument(i, text)
      select case (text)
      case ('--resume')
        arguments%resumes = .true.
      case ('--file', '--every')
        call read_option(trim(text), i + 1, arguments, message)
        i = i + 1
      case default
        found = found + 1
        if (found == 1 .and. len_trim(text) > 0) arguments%folder = trim(text)
        if (found == 2) call read_number('argument 2: expected a number of epochs', text, arguments%epochs, message)
        if (found > 2) message = 'expected DATA_DIR, EPOCHS and options, found "' // trim(text) // '"'
      end select
      i = i + 1
    end do
  end subroutine

  subroutine read_option(option, i, arguments, message)
    character(*), intent(in) :: option
    integer, intent(in) :: i
    type(arguments_t), intent(inout) :: arguments
    character(:), allocatable, intent(inout) :: message
    character(4096) :: text

    call get_command_argument(i, text)
    if (option == '--every') then
      call read_number('--every: expected a number of epochs', text, arguments%every, message)
    else if (len_trim(text) > 0) then
      arguments%checkpoint = trim(text)
    else
      message = '--file: expected the name of a file'
    end if
  end subroutine

  subroutine read_number(what, text, number, message)
    character(*), intent(in) :: what, text
    integer, intent(inout) :: number
    character(:), allocatable, intent(inout) :: message
    integer :: status

    status = verify(trim(text), '0123456789')
    if (len_trim(text) == 0) status = 1
    if (status == 0) read(text, *, iostat=status) number
    if (status /= 0 .or. number < 1 .or. number > num_epochs) &
      message = what // ' from 1 to 100, found "' // trim(text) // '"'
  end subroutine

end module
