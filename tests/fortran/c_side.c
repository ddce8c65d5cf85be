/* SPDX-License-Identifier: Apache-2.0 */
/* What C says about constants and structs, for comparison with the Fortran module. */
#include <ostraka/ostraka.h>

#include <stddef.h>
#include <string.h>

int32_t c_side_constant(const char* name);
int64_t c_side_size(int32_t which);

int32_t c_side_constant(const char* name) {
#define CONSTANT(x)                                                                                                    \
  { #x, x }
  static const struct {
    const char* name;
    int32_t value;
  } all[] = {
      CONSTANT(OSTRAKA_OK),
      CONSTANT(OSTRAKA_INVALID_ARGUMENT),
      CONSTANT(OSTRAKA_INVALID_STATE),
      CONSTANT(OSTRAKA_INVALID_HANDLE),
      CONSTANT(OSTRAKA_SHAPE_MISMATCH),
      CONSTANT(OSTRAKA_TYPE_MISMATCH),
      CONSTANT(OSTRAKA_NOT_SUPPORTED),
      CONSTANT(OSTRAKA_OUT_OF_MEMORY),
      CONSTANT(OSTRAKA_INPUT_OUTPUT),
      CONSTANT(OSTRAKA_COMMUNICATION),
      CONSTANT(OSTRAKA_RANKS_DISAGREE),
      CONSTANT(OSTRAKA_TIME_OUT),
      CONSTANT(OSTRAKA_USER_FAILURE),
      CONSTANT(OSTRAKA_FAILED),
      CONSTANT(OSTRAKA_INTERNAL),
      CONSTANT(OSTRAKA_F64),
      CONSTANT(OSTRAKA_F32),
      CONSTANT(OSTRAKA_BF16),
      CONSTANT(OSTRAKA_F16),
      CONSTANT(OSTRAKA_I64),
      CONSTANT(OSTRAKA_I32),
      CONSTANT(OSTRAKA_U8),
      CONSTANT(OSTRAKA_REPLICATE),
      CONSTANT(OSTRAKA_SHARD),
      CONSTANT(OSTRAKA_PARTIAL),
      CONSTANT(OSTRAKA_SUM),
      CONSTANT(OSTRAKA_MEAN),
      CONSTANT(OSTRAKA_MAX),
      CONSTANT(OSTRAKA_MIN),
      CONSTANT(OSTRAKA_PROD),
      CONSTANT(OSTRAKA_REFERENCE),
      CONSTANT(OSTRAKA_PLANNED),
      CONSTANT(OSTRAKA_RAGGED),
      CONSTANT(OSTRAKA_FLAT),
      CONSTANT(OSTRAKA_TENSOR_ATOMIC),
      CONSTANT(OSTRAKA_AUTOMATIC),
      CONSTANT(OSTRAKA_ATOM_ELEMENT),
      CONSTANT(OSTRAKA_ATOM_LAST_DIMS),
      CONSTANT(OSTRAKA_ATOM_ROW),
      CONSTANT(OSTRAKA_ATOM_BLOCK),
      CONSTANT(OSTRAKA_ATOM_TENSOR),
      CONSTANT(OSTRAKA_NO_SHARD),
      CONSTANT(OSTRAKA_ZERO_3),
      CONSTANT(OSTRAKA_NORM_L1),
      CONSTANT(OSTRAKA_NORM_L2),
      CONSTANT(OSTRAKA_NORM_MAX),
      CONSTANT(OSTRAKA_MEMORY_OTHER),
      CONSTANT(OSTRAKA_MEMORY_PARAMETERS),
      CONSTANT(OSTRAKA_MEMORY_GRADIENTS),
      CONSTANT(OSTRAKA_MEMORY_OPTIMIZER_STATE),
      CONSTANT(OSTRAKA_MEMORY_TRANSIENT),
      CONSTANT(OSTRAKA_DEVICE_HOST),
      CONSTANT(OSTRAKA_DEVICE_CUDA),
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
    if (strcmp(all[i].name, name) == 0)
      return all[i].value;
  return -1;
}

int64_t c_side_size(int32_t which) {
  const size_t sizes[] = {sizeof(ostraka_placement_t),   sizeof(ostraka_shape_t),
                          sizeof(ostraka_fsdp_config_t), sizeof(ostraka_adamw_config_t),
                          sizeof(ostraka_sgd_config_t),  sizeof(ostraka_memory_report_t),
                          sizeof(ostraka_atom_t),        sizeof(ostraka_group_options_t)};
  return (int64_t)sizes[which];
}
