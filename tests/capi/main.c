/* SPDX-License-Identifier: Apache-2.0 */
#include "suites.h"

int main(int argc, char** argv) {
  check_start(&argc, &argv);
  CHECK_OK(ostraka_initialize());
  abi_suite();
  message_suite();
  layout_suite();
  layout_policy_suite();
  layout_part_suite();
  layout_error_suite();
  mesh_suite();
  buffer_suite();
  buffer_error_suite();
  reduction_suite();
  transfer_suite();
  complex_suite();
  flat_buffer_suite();
  handle_suite();
  config_suite();
  fsdp_suite();
  fsdp_phase_suite();
  fsdp_error_suite();
  schedule_suite();
  optim_suite();
  ddp_suite();
  ddp_gradient_suite();
  ddp_error_suite();
  failure_suite();
  training_suite();
  CHECK_OK(ostraka_finalize());
  return check_finish();
}
