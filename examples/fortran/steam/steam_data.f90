! SPDX-License-Identifier: Apache-2.0
! Reads the state points of water and steam and the loss curve to compare with, and standardises the points.
module steam_data
  use, intrinsic :: ieee_arithmetic, only: ieee_is_finite
  use, intrinsic :: iso_fortran_env, only: iostat_end, real64
  implicit none
  private
  public :: read_steam, median

  integer, parameter, public :: num_training = 7168, num_validation = 1024, num_epochs = 100
  integer, parameter, public :: num_inputs = 2, num_outputs = 3

  type, public :: steam_t
    real(real64) :: inputs(num_inputs, num_training + num_validation)    ! log10 pressure, temperature
    real(real64) :: outputs(num_outputs, num_training + num_validation)  ! log10 density, enthalpy, log10 viscosity
    real(real64) :: density_deviation          ! undoes the standardisation of log10 density
    real(real64) :: reference(2, num_epochs)   ! train and validation loss of each epoch
  end type

  character(*), parameter :: point_header = 'pressure_MPa,temperature_K,density_kg_m3,enthalpy_kJ_kg,viscosity_uPa_s'
  character(*), parameter :: curve_header = 'epoch,train_mse,validation_mse'

contains

  ! Reads both files of `folder`; `message` is empty, or says what is wrong and where.
  subroutine read_steam(folder, steam, message)
    character(*), intent(in) :: folder
    type(steam_t), intent(out) :: steam
    character(:), allocatable, intent(out) :: message
    real(real64), allocatable :: points(:, :), curve(:, :)
    real(real64) :: deviation
    integer :: i

    allocate(points(5, num_training + num_validation), curve(3, num_epochs))
    call read_csv(folder // '/steam_if97.csv', point_header, [1, 2, 3, 5], points, message)
    if (len(message) > 0) return
    call read_csv(folder // '/steam_reference.csv', curve_header, [1, 2, 3], curve, message)
    if (len(message) > 0) return

    points([1, 3, 5], :) = log10(points([1, 3, 5], :))
    do i = 1, num_inputs
      call standardise(points(i, :), steam%inputs(i, :), deviation)
    end do
    do i = 1, num_outputs
      call standardise(points(num_inputs + i, :), steam%outputs(i, :), deviation)
      if (i == 1) steam%density_deviation = deviation
    end do
    steam%reference = curve(2:, :)
  end subroutine

  ! Only the training rows say what zero and one are: the validation rows must not leak into training.
  pure subroutine standardise(values, result, deviation)
    real(real64), intent(in) :: values(:)
    real(real64), intent(out) :: result(:), deviation
    real(real64) :: mean

    mean = sum(values(:num_training)) / num_training
    deviation = sqrt(sum((values(:num_training) - mean)**2) / num_training)
    result = (values - mean) / deviation
  end subroutine

  ! Reads comma separated numbers below an optional comment and a header; values(column, row) tells how many. The
  ! columns `positive` must be above zero.
  subroutine read_csv(path, header, positive, values, message)
    character(*), intent(in) :: path, header
    integer, intent(in) :: positive(:)
    real(real64), intent(out) :: values(:, :)
    character(:), allocatable, intent(out) :: message
    character(512) :: line, reason
    integer :: unit, row, number, status

    open(newunit=unit, file=path, status='old', action='read', iostat=status, iomsg=reason)
    if (status /= 0) then
      message = path // ': ' // trim(reason)
      return
    end if
    message = ''
    number = 0
    call next_line()
    if (status == 0 .and. line(1:1) == '#') call next_line()
    if (status == iostat_end) line = 'the end of the file'
    if (len(message) == 0 .and. line /= header) then
      call complain('expected the header "' // header // '", found: ' // trim(line))
    end if
    do row = 1, size(values, 2)
      if (len(message) == 0) call next_line()
      if (len(message) == 0 .and. status == iostat_end) then
        call complain('expected ' // text(size(values, 2)) // ' rows, found ' // text(row - 1))
      end if
      if (len(message) > 0) exit
      call parse_row(values(:, row))
    end do
    if (len(message) == 0) call next_line()
    if (len(message) == 0 .and. status == 0) then
      call complain('expected ' // text(size(values, 2)) // ' rows, found one more: ' // trim(line))
    end if
    close(unit)

  contains

    subroutine next_line()
      number = number + 1
      read(unit, '(a)', iostat=status, iomsg=reason) line
      if (status == 0) then
        if (index(line, achar(13)) > 0) line(index(line, achar(13)):) = ' '  ! a file from Windows is welcome
      else if (status /= iostat_end) then
        call complain('expected a line of text, found an error: ' // trim(reason))
      end if
    end subroutine

    subroutine parse_row(row_values)
      real(real64), intent(out) :: row_values(:)
      integer :: begin, last, column, found

      row_values = 0
      found = 1 + count([(line(begin:begin) == ',', begin = 1, len(line))])
      if (len_trim(line) == 0) found = 0
      if (found /= size(row_values)) then
        call complain('expected ' // text(size(row_values)) // ' columns, found ' // text(found))
        return
      end if
      begin = 1
      do column = 1, found
        last = begin + scan(line(begin:) // ',', ',') - 2
        call parse_number(trim(adjustl(line(begin:last))), column, row_values(column))
        if (len(message) > 0) return
        begin = last + 2
      end do
    end subroutine

    subroutine parse_number(field, column, value)
      character(*), intent(in) :: field
      integer, intent(in) :: column
      real(real64), intent(out) :: value
      integer :: failed

      value = 0
      failed = verify(field, '+-.0123456789eE')  ! list-directed reading alone takes "2*3" and "/" for numbers
      if (failed == 0) read(field, *, iostat=failed) value
      if (failed == 0 .and. .not. ieee_is_finite(value)) failed = 1
      if (failed /= 0) then
        call complain('column ' // text(column) // ': expected a number, found "' // field // '"')
      else if (any(positive == column) .and. .not. value > 0) then
        call complain('column ' // text(column) // ': expected a number above zero, found "' // field // '"')
      end if
    end subroutine

    subroutine complain(what)
      character(*), intent(in) :: what

      message = path // ', line ' // text(number) // ': ' // what
    end subroutine

  end subroutine

  ! The mean of the two middle values when their number is even.
  pure real(real64) function median(values)
    real(real64), intent(in) :: values(:)
    real(real64) :: sorted(size(values)), held
    integer :: i, j

    sorted = values
    do i = 2, size(sorted)
      held = sorted(i)
      do j = i - 1, 1, -1
        if (sorted(j) <= held) exit
        sorted(j + 1) = sorted(j)
      end do
      sorted(j + 1) = held
    end do
    median = (sorted((size(sorted) + 1) / 2) + sorted(size(sorted) / 2 + 1)) / 2
  end function

  pure function text(number)
    integer, intent(in) :: number
    character(:), allocatable :: text
    character(12) :: digits

    write(digits, '(i0)') number
    text = trim(digits)
  end function

end module
