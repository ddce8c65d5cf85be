! SPDX-License-Identifier: Apache-2.0
!! Internal: the functions of checkpoint.h, extras.h and chunks.h.
!! `c_<rest>` stands for `ostraka_<rest>`; comments are in the headers.
!! Handles and addresses are type(c_ptr): by value where C takes the pointer, by reference where C takes its address.
module ostraka_c_checkpoint
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int32_t, c_int64_t, c_ptr
  use ostraka_types, only: c_load_options_t, c_save_options_t, c_shape_t
  implicit none
  public

  interface
    integer(c_int32_t) function c_save_options_init_versioned(options, struct_size, version) &
      bind(c, name='ostraka_save_options_init_versioned')
      import
      type(c_save_options_t), intent(out) :: options
      integer(c_int64_t), value :: struct_size
      integer(c_int32_t), value :: version
    end function
    integer(c_int32_t) function c_load_options_init_versioned(options, struct_size, version) &
      bind(c, name='ostraka_load_options_init_versioned')
      import
      type(c_load_options_t), intent(out) :: options
      integer(c_int64_t), value :: struct_size
      integer(c_int32_t), value :: version
    end function
    integer(c_int32_t) function c_save(path, context, optimizer, extras, options) bind(c, name='ostraka_save')
      import
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: context, optimizer, extras
      type(c_save_options_t), intent(in) :: options
    end function
    integer(c_int32_t) function c_save_ddp(path, ddp, optimizer, extras, options) bind(c, name='ostraka_save_ddp')
      import
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: ddp, optimizer, extras
      type(c_save_options_t), intent(in) :: options
    end function
    integer(c_int32_t) function c_load(path, context, optimizer, extras, options) bind(c, name='ostraka_load')
      import
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: context, optimizer, extras
      type(c_load_options_t), intent(in) :: options
    end function
    integer(c_int32_t) function c_load_ddp(path, ddp, optimizer, extras, options) bind(c, name='ostraka_load_ddp')
      import
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: ddp, optimizer, extras
      type(c_load_options_t), intent(in) :: options
    end function
    integer(c_int32_t) function c_load_left_out(missing, unexpected) bind(c, name='ostraka_load_left_out')
      import
      type(c_ptr), intent(out) :: missing, unexpected
    end function
    integer(c_int32_t) function c_async_save_start(path, context, optimizer, extras, options, save) &
      bind(c, name='ostraka_async_save_start')
      import
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: context, optimizer, extras
      type(c_save_options_t), intent(in) :: options
      type(c_ptr), intent(inout) :: save
    end function
    integer(c_int32_t) function c_async_save_start_ddp(path, ddp, optimizer, extras, options, save) &
      bind(c, name='ostraka_async_save_start_ddp')
      import
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: ddp, optimizer, extras
      type(c_save_options_t), intent(in) :: options
      type(c_ptr), intent(inout) :: save
    end function
    integer(c_int32_t) function c_async_save_test(save, is_done) bind(c, name='ostraka_async_save_test')
      import
      type(c_ptr), value :: save
      integer(c_int32_t), intent(inout) :: is_done
    end function
    integer(c_int32_t) function c_async_save_wait(save) bind(c, name='ostraka_async_save_wait')
      import
      type(c_ptr), value :: save
    end function
    integer(c_int32_t) function c_async_save_staging_bytes(save, bytes) bind(c, name='ostraka_async_save_staging_bytes')
      import
      type(c_ptr), value :: save
      integer(c_int64_t), intent(inout) :: bytes
    end function
    integer(c_int32_t) function c_async_save_release_memory() bind(c, name='ostraka_async_save_release_memory')
      import
    end function
    integer(c_int32_t) function c_async_save_destroy(save) bind(c, name='ostraka_async_save_destroy')
      import
      type(c_ptr), intent(inout) :: save
    end function
    integer(c_int32_t) function c_extras_create(extras) bind(c, name='ostraka_extras_create')
      import
      type(c_ptr), intent(inout) :: extras
    end function
    integer(c_int32_t) function c_extras_destroy(extras) bind(c, name='ostraka_extras_destroy')
      import
      type(c_ptr), intent(inout) :: extras
    end function
    integer(c_int32_t) function c_extras_set_f64(extras, name, value) bind(c, name='ostraka_extras_set_f64')
      import
      type(c_ptr), value :: extras
      character(kind=c_char), intent(in) :: name(*)
      real(c_double), value :: value
    end function
    integer(c_int32_t) function c_extras_set_i64(extras, name, value) bind(c, name='ostraka_extras_set_i64')
      import
      type(c_ptr), value :: extras
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: value
    end function
    integer(c_int32_t) function c_extras_set_text(extras, name, text) bind(c, name='ostraka_extras_set_text')
      import
      type(c_ptr), value :: extras
      character(kind=c_char), intent(in) :: name(*), text(*)
    end function
    integer(c_int32_t) function c_extras_set_array(extras, name, dtype, shape, data) &
      bind(c, name='ostraka_extras_set_array')
      import
      type(c_ptr), value :: extras, data
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: dtype
      type(c_shape_t), value :: shape
    end function
    integer(c_int32_t) function c_extras_f64(extras, name, value) bind(c, name='ostraka_extras_f64')
      import
      type(c_ptr), value :: extras
      character(kind=c_char), intent(in) :: name(*)
      real(c_double), intent(inout) :: value
    end function
    integer(c_int32_t) function c_extras_i64(extras, name, value) bind(c, name='ostraka_extras_i64')
      import
      type(c_ptr), value :: extras
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), intent(inout) :: value
    end function
    integer(c_int32_t) function c_extras_text(extras, name, text) bind(c, name='ostraka_extras_text')
      import
      type(c_ptr), value :: extras
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), intent(inout) :: text
    end function
    integer(c_int32_t) function c_extras_array(extras, name, dtype, data, count) bind(c, name='ostraka_extras_array')
      import
      type(c_ptr), value :: extras
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: dtype
      type(c_ptr), intent(inout) :: data
      integer(c_int64_t), intent(inout) :: count
    end function
    integer(c_int32_t) function c_extras_type(extras, name, dtype, is_text, ndim, extents) &
      bind(c, name='ostraka_extras_type')
      import
      type(c_ptr), value :: extras
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), intent(inout) :: dtype, is_text, ndim
      integer(c_int64_t), intent(inout) :: extents(*)
    end function
    integer(c_int32_t) function c_extras_has(extras, name, has) bind(c, name='ostraka_extras_has')
      import
      type(c_ptr), value :: extras
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), intent(inout) :: has
    end function
    integer(c_int32_t) function c_extras_num_values(extras, num_values) bind(c, name='ostraka_extras_num_values')
      import
      type(c_ptr), value :: extras
      integer(c_int32_t), intent(inout) :: num_values
    end function
    integer(c_int32_t) function c_extras_name(extras, index, name) bind(c, name='ostraka_extras_name')
      import
      type(c_ptr), value :: extras
      integer(c_int32_t), value :: index
      type(c_ptr), intent(inout) :: name
    end function
    integer(c_int32_t) function c_extras_add_buffer(extras, buffer, num_names, names) &
      bind(c, name='ostraka_extras_add_buffer')
      import
      type(c_ptr), value :: extras, buffer
      integer(c_int32_t), value :: num_names
      type(c_ptr), intent(in) :: names(*)
    end function
    integer(c_int32_t) function c_chunks_create(context, chunks) bind(c, name='ostraka_chunks_create')
      import
      type(c_ptr), value :: context
      type(c_ptr), intent(inout) :: chunks
    end function
    integer(c_int32_t) function c_chunks_create_ddp(ddp, chunks) bind(c, name='ostraka_chunks_create_ddp')
      import
      type(c_ptr), value :: ddp
      type(c_ptr), intent(inout) :: chunks
    end function
    integer(c_int32_t) function c_chunks_destroy(chunks) bind(c, name='ostraka_chunks_destroy')
      import
      type(c_ptr), intent(inout) :: chunks
    end function
    integer(c_int32_t) function c_chunks_num_names(chunks, num_names) bind(c, name='ostraka_chunks_num_names')
      import
      type(c_ptr), value :: chunks
      integer(c_int32_t), intent(inout) :: num_names
    end function
    integer(c_int32_t) function c_chunks_name(chunks, index, name) bind(c, name='ostraka_chunks_name')
      import
      type(c_ptr), value :: chunks
      integer(c_int32_t), value :: index
      type(c_ptr), intent(inout) :: name
    end function
    integer(c_int32_t) function c_chunks_shape(chunks, name, ndim, extents) bind(c, name='ostraka_chunks_shape')
      import
      type(c_ptr), value :: chunks
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), intent(inout) :: ndim
      integer(c_int64_t), intent(inout) :: extents(*)
    end function
    integer(c_int32_t) function c_chunks_range(chunks, name, offset, count) bind(c, name='ostraka_chunks_range')
      import
      type(c_ptr), value :: chunks
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), intent(inout) :: offset, count
    end function
    integer(c_int32_t) function c_chunks_written(chunks, name, offset, count) bind(c, name='ostraka_chunks_written')
      import
      type(c_ptr), value :: chunks
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), intent(inout) :: offset, count
    end function
    integer(c_int32_t) function c_chunks_rows(chunks, name, first_row, num_rows) bind(c, name='ostraka_chunks_rows')
      import
      type(c_ptr), value :: chunks
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), intent(inout) :: first_row, num_rows
    end function
    integer(c_int32_t) function c_chunks_boxes(chunks, name, max_boxes, offsets, sizes, num_boxes) &
      bind(c, name='ostraka_chunks_boxes')
      import
      type(c_ptr), value :: chunks
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: max_boxes
      integer(c_int64_t), intent(inout) :: offsets(*), sizes(*)
      integer(c_int32_t), intent(inout) :: num_boxes
    end function
    integer(c_int32_t) function c_row_box(shape, first_row, num_rows, offsets, sizes) bind(c, name='ostraka_row_box')
      import
      type(c_shape_t), value :: shape
      integer(c_int64_t), value :: first_row, num_rows
      integer(c_int64_t), intent(inout) :: offsets(*), sizes(*)
    end function
  end interface
end module
