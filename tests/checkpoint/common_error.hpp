// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/world.hpp"
#include <ostraka/base/error.hpp>

#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace ostraka::checkpoint::test {

using namespace ostraka::test;

/// The text of the error of `action`, INPUT_OUTPUT and the same on all ranks; empty when nothing was thrown.
/// Collective.
inline std::string common_error(const std::function<void()>& action) {
  std::array<char, 2048> text{};
  try {
    action();
  } catch (const Error& error) {
    EXPECT_STREQ(name(error.status()), "INPUT_OUTPUT") << error.what();
    std::strncpy(text.data(), error.what(), text.size() - 1);
  }
  std::vector<char> all(text.size() * static_cast<std::size_t>(ranks));
  MPI_Allgather(text.data(), text.size(), MPI_CHAR, all.data(), text.size(), MPI_CHAR, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; ++r) // and rank 0 has removed what it has to
    EXPECT_STREQ(all.data() + static_cast<std::size_t>(r) * text.size(), text.data()) << "on rank " << r;
  return text.data();
}

} // namespace ostraka::checkpoint::test
