! SPDX-License-Identifier: Apache-2.0
!! Internal: the functions of layout.h.
module ostraka_c_layout
  use, intrinsic :: iso_c_binding, only: c_int32_t, c_int64_t, c_ptr
  use ostraka_types, only: c_shape_t, ostraka_atom_t, ostraka_placement_t
  implicit none
  public
  private :: c_int32_t, c_int64_t, c_ptr, c_shape_t, ostraka_atom_t, ostraka_placement_t

  interface
    integer(c_int32_t) function c_layout_build( &
      policy, num_tensors, shapes, num_atoms, atoms, segments, tensor_alignment, segment_multiple, layout) &
      bind(c, name='ostraka_layout_build')
      import :: c_int32_t, c_int64_t, c_ptr, c_shape_t, ostraka_atom_t
      integer(c_int32_t), value :: policy
      integer(c_int32_t), value :: num_tensors
      type(c_shape_t), intent(in) :: shapes(*)
      integer(c_int32_t), value :: num_atoms
      type(ostraka_atom_t), intent(in) :: atoms(*)
      integer(c_int32_t), value :: segments
      integer(c_int64_t), value :: tensor_alignment
      integer(c_int64_t), value :: segment_multiple
      type(c_ptr), intent(inout) :: layout
    end function
    integer(c_int32_t) function c_layout_tensor_atomic( &
      num_tensors, shapes, owners, segments, layout) &
      bind(c, name='ostraka_layout_tensor_atomic')
      import :: c_int32_t, c_ptr, c_shape_t
      integer(c_int32_t), value :: num_tensors
      type(c_shape_t), intent(in) :: shapes(*)
      integer(c_int32_t), intent(in) :: owners(*)
      integer(c_int32_t), value :: segments
      type(c_ptr), intent(inout) :: layout
    end function
    integer(c_int32_t) function c_layout_plan_owners( &
      num_layouts, layouts, steps, owners) &
      bind(c, name='ostraka_layout_plan_owners')
      import :: c_int32_t, c_int64_t, c_ptr
      integer(c_int32_t), value :: num_layouts
      type(c_ptr), intent(in) :: layouts(*)
      integer(c_int64_t), value :: steps
      integer(c_int32_t), intent(inout) :: owners(*)
    end function
    integer(c_int32_t) function c_layout_destroy(layout) bind(c, name='ostraka_layout_destroy')
      import :: c_int32_t, c_ptr
      type(c_ptr), intent(inout) :: layout
    end function
    integer(c_int32_t) function c_layout_policy(layout, policy) bind(c, name='ostraka_layout_policy')
      import :: c_int32_t, c_ptr
      type(c_ptr), value :: layout
      integer(c_int32_t), intent(inout) :: policy
    end function
    integer(c_int32_t) function c_layout_num_tensors(layout, num_tensors) bind(c, name='ostraka_layout_num_tensors')
      import :: c_int32_t, c_ptr
      type(c_ptr), value :: layout
      integer(c_int32_t), intent(inout) :: num_tensors
    end function
    integer(c_int32_t) function c_layout_size(layout, size) bind(c, name='ostraka_layout_size')
      import :: c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: layout
      integer(c_int64_t), intent(inout) :: size
    end function
    integer(c_int32_t) function c_layout_payload(layout, payload) bind(c, name='ostraka_layout_payload')
      import :: c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: layout
      integer(c_int64_t), intent(inout) :: payload
    end function
    integer(c_int32_t) function c_layout_segment_size(layout, segment_size) bind(c, name='ostraka_layout_segment_size')
      import :: c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: layout
      integer(c_int64_t), intent(inout) :: segment_size
    end function
    integer(c_int32_t) function c_layout_num_segments(layout, num_segments) bind(c, name='ostraka_layout_num_segments')
      import :: c_int32_t, c_ptr
      type(c_ptr), value :: layout
      integer(c_int32_t), intent(inout) :: num_segments
    end function
    integer(c_int32_t) function c_layout_tensor_shape( &
      layout, index, ndim, extents) &
      bind(c, name='ostraka_layout_tensor_shape')
      import :: c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: layout
      integer(c_int32_t), value :: index
      integer(c_int32_t), intent(inout) :: ndim
      integer(c_int64_t), intent(inout) :: extents(*)
    end function
    integer(c_int32_t) function c_layout_tensor_range( &
      layout, index, begin, finish) &
      bind(c, name='ostraka_layout_tensor_range')
      import :: c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: layout
      integer(c_int32_t), value :: index
      integer(c_int64_t), intent(inout) :: begin
      integer(c_int64_t), intent(inout) :: finish
    end function
    integer(c_int32_t) function c_layout_segment_range( &
      layout, segment, begin, finish) &
      bind(c, name='ostraka_layout_segment_range')
      import :: c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: layout
      integer(c_int32_t), value :: segment
      integer(c_int64_t), intent(inout) :: begin
      integer(c_int64_t), intent(inout) :: finish
    end function
    integer(c_int32_t) function c_layout_owners(layout, index, first, last) bind(c, name='ostraka_layout_owners')
      import :: c_int32_t, c_ptr
      type(c_ptr), value :: layout
      integer(c_int32_t), value :: index
      integer(c_int32_t), intent(inout) :: first
      integer(c_int32_t), intent(inout) :: last
    end function
    integer(c_int32_t) function c_layout_local_range( &
      layout, dims, placements, sizes, coordinates, begin, finish) &
      bind(c, name='ostraka_layout_local_range')
      import :: c_int32_t, c_int64_t, c_ptr, ostraka_placement_t
      type(c_ptr), value :: layout
      integer(c_int32_t), value :: dims
      type(ostraka_placement_t), intent(in) :: placements(*)
      integer(c_int32_t), intent(in) :: sizes(*)
      integer(c_int32_t), intent(in) :: coordinates(*)
      integer(c_int64_t), intent(inout) :: begin
      integer(c_int64_t), intent(inout) :: finish
    end function
    integer(c_int32_t) function c_layout_row_chunk( &
      layout, index, begin, finish, first_row, num_rows) &
      bind(c, name='ostraka_layout_row_chunk')
      import :: c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: layout
      integer(c_int32_t), value :: index
      integer(c_int64_t), value :: begin
      integer(c_int64_t), value :: finish
      integer(c_int64_t), intent(inout) :: first_row
      integer(c_int64_t), intent(inout) :: num_rows
    end function
    integer(c_int32_t) function c_layout_boxes( &
      layout, index, begin, finish, max_boxes, offsets, sizes, num_boxes) &
      bind(c, name='ostraka_layout_boxes')
      import :: c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: layout
      integer(c_int32_t), value :: index
      integer(c_int64_t), value :: begin
      integer(c_int64_t), value :: finish
      integer(c_int32_t), value :: max_boxes
      integer(c_int64_t), intent(inout) :: offsets(*)
      integer(c_int64_t), intent(inout) :: sizes(*)
      integer(c_int32_t), intent(inout) :: num_boxes
    end function
    integer(c_int32_t) function c_layout_validate(layout, num_atoms, atoms) bind(c, name='ostraka_layout_validate')
      import :: c_int32_t, c_ptr, ostraka_atom_t
      type(c_ptr), value :: layout
      integer(c_int32_t), value :: num_atoms
      type(ostraka_atom_t), intent(in) :: atoms(*)
    end function
    integer(c_int32_t) function c_layout_hash(layout, hash) bind(c, name='ostraka_layout_hash')
      import :: c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: layout
      integer(c_int64_t), intent(inout) :: hash
    end function
    integer(c_int32_t) function c_layout_report(layout, text) bind(c, name='ostraka_layout_report')
      import :: c_int32_t, c_ptr
      type(c_ptr), value :: layout
      type(c_ptr), intent(inout) :: text
    end function
    integer(c_int32_t) function c_layout_report_json(layout, text) bind(c, name='ostraka_layout_report_json')
      import :: c_int32_t, c_ptr
      type(c_ptr), value :: layout
      type(c_ptr), intent(inout) :: text
    end function
  end interface
end module
