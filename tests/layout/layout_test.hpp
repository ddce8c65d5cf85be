// SPDX-License-Identifier: Apache-2.0
// Helpers of the layout tests. Header only, so that each test file also builds alone.
#pragma once

#include <ostraka/base/error.hpp>
#include <ostraka/layout/global_layout.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace ostraka::layout::test {

/// Expects that `action` throws INVALID_ARGUMENT with all `parts` in its text.
template <class Action>
void expect_invalid(Action action, std::initializer_list<std::string> parts) {
  try {
    action();
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::INVALID_ARGUMENT) << error.what();
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << "'" << part << "' in: " << error.what();
  }
}

inline std::vector<std::int64_t> offsets_of(const GlobalLayout& layout) {
  std::vector<std::int64_t> offsets;
  for (int i = 0; i < layout.num_tensors(); ++i)
    offsets.push_back(layout.tensor_range(i).begin);
  return offsets;
}

/// The range of rank `rank` on a mesh of one sharded axis of `ranks`.
inline Range rank_range(const GlobalLayout& layout, int ranks, int rank) {
  const std::vector<Placement> placements{shard()};
  const std::vector<int> sizes{ranks};
  const std::vector<int> coordinates{rank};
  return layout.local_range(placements, {sizes, coordinates});
}

/// Whole rows of tensor `index` inside `local`; a test failure when a row is cut.
inline std::int64_t rows_inside(const GlobalLayout& layout, int index, const Range& local) {
  const std::int64_t count = intersect(layout.tensor_range(index), local).size();
  const std::int64_t row = row_numel(layout.shape(index));
  EXPECT_EQ(count % row, 0) << "tensor " << index;
  return count / row;
}

/// Rows of every tensor on `rank` of `layout.segments()` ranks.
inline std::vector<std::int64_t> rows_on_rank(const GlobalLayout& layout, int rank) {
  std::vector<std::int64_t> counts;
  for (int i = 0; i < layout.num_tensors(); ++i)
    counts.push_back(rows_inside(layout, i, rank_range(layout, layout.segments(), rank)));
  return counts;
}

} // namespace ostraka::layout::test
