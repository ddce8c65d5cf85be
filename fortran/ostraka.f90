! SPDX-License-Identifier: Apache-2.0
!! Ostraka: sharded distributed buffers, fully sharded and distributed data parallelism for MPI codes. The whole Fortran
!! interface, but for type(MPI_Comm): see ostraka_mpi_f08. Arrays have their natural Fortran shape and are cut along their last
!! index; tensors and axes count from 1, ranks and offsets from 0. Handles are copied by assignment and ended by
!! %destroy(), which is not called for you. An error without `ierr` stops the program with a message.
module ostraka
  use ostraka_arrays, only: ostraka_shape, ostraka_shape_t, ostraka_tensor, ostraka_tensor_t
  use ostraka_buffer, only: ostraka_buffer_t
  use ostraka_checkpoint, only: ostraka_async_save_t, ostraka_load, ostraka_save
  use ostraka_chunks, only: ostraka_chunks_t, ostraka_row_box
  use ostraka_ddp, only: ostraka_ddp_t
  use ostraka_device, only: ostraka_copy_now, ostraka_cuda_device, ostraka_has_device, ostraka_is_device_memory, &
    ostraka_native_compute_stream, ostraka_select_cuda_device, ostraka_set_compute_stream
  use ostraka_extras, only: ostraka_extras_t
  use ostraka_flat_buffer, only: ostraka_flat_buffer_t
  use ostraka_fsdp, only: ostraka_fill, ostraka_fsdp_context_t, ostraka_fsdp_module_t
  use ostraka_layout, only: ostraka_layout_t, ostraka_plan_owners
  use ostraka_mesh, only: ostraka_mesh_create, ostraka_mesh_t, ostraka_partial, ostraka_replicate, ostraka_shard
  use ostraka_optim, only: ostraka_optimizer_t
  use ostraka_plan, only: ostraka_cheapest_plan, ostraka_plan_t
  use ostraka_runtime, only: ostraka_bf16_to_real32, ostraka_finalize, ostraka_initialize, ostraka_is_initialized, &
    ostraka_real32_to_bf16, ostraka_version_string
  use ostraka_support, only: ostraka_error_clear, ostraka_last_error, ostraka_status_meaning, ostraka_status_name
  use ostraka_types, only: OSTRAKA_AHEAD_BACKWARD, OSTRAKA_AHEAD_FORWARD, OSTRAKA_AHEAD_NONE, &
    OSTRAKA_ATOM_BLOCK, OSTRAKA_ATOM_ELEMENT, OSTRAKA_ATOM_LAST_DIMS, OSTRAKA_ATOM_ROW, &
    ostraka_atom_t, OSTRAKA_ATOM_TENSOR, OSTRAKA_AUTOMATIC, OSTRAKA_BF16, OSTRAKA_COMMUNICATION, OSTRAKA_DEVICE_CUDA, &
    OSTRAKA_DEVICE_HOST, OSTRAKA_F16, &
    OSTRAKA_F32, OSTRAKA_F64, OSTRAKA_FAILED, OSTRAKA_FLAT, OSTRAKA_I32, OSTRAKA_I64, OSTRAKA_INPUT_OUTPUT, &
    OSTRAKA_INTERNAL, OSTRAKA_INVALID_ARGUMENT, OSTRAKA_INVALID_HANDLE, OSTRAKA_INVALID_STATE, OSTRAKA_KIND_PARTIAL, &
    OSTRAKA_KIND_REPLICATE, OSTRAKA_KIND_SHARD, OSTRAKA_MAX, OSTRAKA_MEAN, OSTRAKA_MEMORY_GRADIENTS, &
    OSTRAKA_MEMORY_OPTIMIZER_STATE, OSTRAKA_MEMORY_OTHER, OSTRAKA_MEMORY_PARAMETERS, ostraka_memory_report_t, &
    OSTRAKA_MEMORY_TRANSIENT, OSTRAKA_MIN, OSTRAKA_NO_SHARD, OSTRAKA_NORM_L1, OSTRAKA_NORM_L2, OSTRAKA_NORM_MAX, &
    OSTRAKA_NOT_SUPPORTED, OSTRAKA_OK, OSTRAKA_OUT_OF_MEMORY, ostraka_placement_t, OSTRAKA_PLANNED, OSTRAKA_PROD, &
    OSTRAKA_RAGGED, OSTRAKA_RANKS_DISAGREE, OSTRAKA_REFERENCE, OSTRAKA_SHAPE_MISMATCH, OSTRAKA_SUM, &
    OSTRAKA_TENSOR_ATOMIC, OSTRAKA_TIME_OUT, OSTRAKA_TYPE_MISMATCH, OSTRAKA_U8, OSTRAKA_USER_FAILURE, OSTRAKA_ZERO_3, &
    OSTRAKA_ARRANGEMENT_LAYER_WISE, OSTRAKA_ARRANGEMENT_PACKED, OSTRAKA_SCALING_MEAN, OSTRAKA_SCALING_PRE_SCALE, &
    OSTRAKA_SCALING_SUM, OSTRAKA_USES_AUTO, &
    OSTRAKA_BACKEND_MPI, OSTRAKA_BACKEND_NCCL, OSTRAKA_BACKEND_NODE, ostraka_plan_bytes_t, ostraka_plan_summary_t, &
    ostraka_plan_traffic_t, OSTRAKA_UPDATE_ADAMW, OSTRAKA_UPDATE_NONE, OSTRAKA_UPDATE_SGD, OSTRAKA_UPDATE_SGD_MOMENTUM, &
    OSTRAKA_HFSDP, OSTRAKA_HSDP, OSTRAKA_ZERO_1, OSTRAKA_ZERO_1_ZERO_2, OSTRAKA_ZERO_2
  implicit none
  public
end module
