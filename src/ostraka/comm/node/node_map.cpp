// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/node/node_map.hpp>

#include <algorithm>
#include <map>

namespace ostraka::comm {

NodeMap::NodeMap(const std::vector<int>& node_of) {
  std::map<int, int> numbers;
  std::vector<int> sizes;
  for (const int id : node_of) {
    const int node = numbers.try_emplace(id, static_cast<int>(numbers.size())).first->second;
    sizes.resize(numbers.size());
    node_.push_back(node);
    local_.push_back(sizes[static_cast<std::size_t>(node)]++);
  }
  first_.push_back(0);
  for (const int size : sizes)
    first_.push_back(first_.back() + static_cast<std::size_t>(size));
  sorted_.resize(node_.size());
  for (std::size_t rank = 0; rank < node_.size(); ++rank)
    sorted_[first_[static_cast<std::size_t>(node_[rank])] + static_cast<std::size_t>(local_[rank])] =
        static_cast<int>(rank);
  smallest_ = sizes.empty() ? 0 : *std::min_element(sizes.begin(), sizes.end());
}

} // namespace ostraka::comm
