// SPDX-License-Identifier: Apache-2.0
#include <ostraka/fsdp/resources.hpp>

namespace ostraka::fsdp {

bool Resources::gathers_outwards_in() const {
  bool is_inside = false;
  for (int axis = 0; axis < mesh->dims(); ++axis) {
    if (is_inside && mesh->axis_size(axis) == 1)
      return false;
    is_inside = is_inside || mesh->axis_size(axis) > 1;
  }
  return true;
}

int Resources::reductions(int step) const {
  int count = 0;
  for (std::size_t axis = 0; axis < placements.gradient.size(); ++axis) {
    const bool is_reduced_first = !placements.gradient[axis].is_partial();
    const bool is_reduced_last = !is_reduced_first && placements.optimizer[axis] != placements.gradient[axis];
    count += (step == 0 ? is_reduced_first : is_reduced_last) ? 1 : 0;
  }
  return count;
}

} // namespace ostraka::fsdp
