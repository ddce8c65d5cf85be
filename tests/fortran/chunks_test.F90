! SPDX-License-Identifier: Apache-2.0
!! What ranks hold of parameters, in Fortran order: together all of it.
program chunks_test
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use checks
  use ostraka
  implicit none

  type(ostraka_mesh_t) :: mesh

  call start()
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call check_context()
  call check_ddp(.false.)
  call check_ddp(.true.)
  call check_row_box()
  call mesh%destroy()
  call finish()

contains

  !! Marks the elements of the boxes of a matrix; returns how many ranks hold each.
  subroutine mark(chunks, name, rows, columns, holders)
    type(ostraka_chunks_t), intent(in) :: chunks
    character(*), intent(in) :: name
    integer, intent(in) :: rows, columns
    integer, intent(out) :: holders(rows, columns)
    integer(int64), allocatable :: lower(:,:), upper(:,:)
    integer(int64) :: offset, count
    integer :: flat(rows * columns), b

    holders = 0
    call chunks%boxes(name, lower, upper)
    do b = 1, size(lower, 2)
      associate (part => holders(lower(1, b):upper(1, b), lower(2, b):upper(2, b)))
        part = part + 1
      end associate
    end do
    call chunks%range(name, offset, count)
    flat = 0
    flat(offset + 1:offset + count) = 1  ! array element order is the order of memory
    call expect(all(reshape(holders, [rows * columns]) == flat), __LINE__, 'boxes are not the range of ' // name)
    call mpi_allreduce(MPI_IN_PLACE, holders, rows * columns, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  end subroutine

  !! Every element has one writer.
  subroutine expect_one_writer(chunks, name, total)
    type(ostraka_chunks_t), intent(in) :: chunks
    character(*), intent(in) :: name
    integer, intent(in) :: total
    integer(int64) :: offset, count
    integer :: writers(total)

    call chunks%written(name, offset, count)
    writers = 0
    writers(offset + 1:offset + count) = 1
    call mpi_allreduce(MPI_IN_PLACE, writers, total, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call expect(all(writers == 1), __LINE__, 'an element of ' // name // ' has not one writer')
  end subroutine

  !! Whole columns of `length` elements, or an error where one is cut.
  subroutine expect_rows(chunks, name, length)
    type(ostraka_chunks_t), intent(in) :: chunks
    character(*), intent(in) :: name
    integer, intent(in) :: length
    integer(int64) :: offset, count, first_row, num_rows
    integer(int32) :: ierr

    call chunks%range(name, offset, count)
    call chunks%rows(name, first_row, num_rows, ierr)
    if (modulo(offset, int(length, int64)) == 0 .and. modulo(count, int(length, int64)) == 0) then
      call expect(ierr == OSTRAKA_OK .and. count == length * num_rows, __LINE__)
      call expect(count == 0 .or. offset == length * (first_row - 1), __LINE__)
    else
      call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'boxes')
    end if
  end subroutine

  subroutine check_context()
    type(ostraka_fsdp_context_t) :: context, none
    type(ostraka_fsdp_module_t) :: layer
    type(ostraka_chunks_t) :: chunks
    character(:), allocatable :: name
    integer(int64), allocatable :: extents(:), lower(:,:), upper(:,:)
    integer(int64) :: first_row, num_rows, offset, count
    integer(int32) :: names, ierr
    integer :: holders(3, 5)

    call context%create(mesh)
    call context%add_module('layer', layer)
    call layer%add_parameter('weight', [3, 5])
    call layer%add_parameter('bias', [4])
    call layer%add_parameter('fixed', [2, 2], trainable=.false.)
    call layer%build()
    call chunks%create(context, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'finalize')
    call context%finalize()
    call chunks%create(context)
    call chunks%num_names(names)
    call chunks%name(3, name)
    call expect(names == 3 .and. name == 'layer.weight', __LINE__)
    call chunks%shape('layer.weight', extents)
    call expect(size(extents) == 2 .and. all(extents == [3, 5]), __LINE__)
    call mark(chunks, 'layer.weight', 3, 5, holders)
    call expect(all(holders == 1), __LINE__)
    call expect_one_writer(chunks, 'layer.weight', 15)
    call expect_one_writer(chunks, 'layer.bias', 4)
    call expect_one_writer(chunks, 'layer.fixed', 4)
    call expect_rows(chunks, 'layer.weight', 3)

    call chunks%range('layer.x', offset, count, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, "'layer.x'")
    call chunks%written('layer.x', offset, count, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    call chunks%rows('layer.x', first_row, num_rows, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    call chunks%boxes('layer.x', lower, upper, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    call chunks%shape('layer.x', extents, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__)
    call chunks%name(4, name, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'found 3')
    call chunks%destroy()
    call chunks%num_names(names, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'chunks handle is null')
    call chunks%create(none, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'context handle is null')
    call context%destroy()
  end subroutine

  !! A sharded optimizer's parts are cut anywhere, through rows, too.
  subroutine check_ddp(is_sharded)
    logical, intent(in) :: is_sharded
    type(ostraka_ddp_t) :: ddp
    type(ostraka_chunks_t) :: chunks
    integer(int64), allocatable :: extents(:)
    integer :: holders(7, 11)

    call ddp%create(mesh, sharded_optimizer=is_sharded)
    call ddp%add_parameter('net.weight', [7, 11])
    call ddp%add_parameter('net.first', [2, 3], trainable=.false.)
    call ddp%add_parameter('net.second', [4], trainable=.false.)
    call ddp%finalize()
    call chunks%create(ddp)
    call mark(chunks, 'net.weight', 7, 11, holders)
    call expect(all(holders == merge(1, num_ranks, is_sharded)), __LINE__)
    call expect_one_writer(chunks, 'net.weight', 77)
    call expect_rows(chunks, 'net.weight', 7)
    call chunks%shape('net.first', extents)
    call expect(size(extents) == 2 .and. all(extents == [2, 3]), __LINE__)
    call chunks%shape('net.second', extents)
    call expect(size(extents) == 1 .and. all(extents == [4]), __LINE__)
    call expect_one_writer(chunks, 'net.first', 6)
    call expect_one_writer(chunks, 'net.second', 4)
    call chunks%destroy()
    call ddp%destroy()
  end subroutine

  subroutine check_row_box()
    integer(int64), allocatable :: lower(:), upper(:)
    integer(int32) :: ierr

    call ostraka_row_box(ostraka_shape([2, 3, 4]), 2_int64, 2_int64, lower, upper)
    call expect(all(lower == [1, 1, 2]) .and. all(upper == [2, 3, 3]), __LINE__)
    call ostraka_row_box(ostraka_shape([2, 3, 4]), 4_int64, 2_int64, lower, upper, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'a part of its 4')
    call expect(size(lower) == 0 .and. size(upper) == 0, __LINE__)
  end subroutine
end program
