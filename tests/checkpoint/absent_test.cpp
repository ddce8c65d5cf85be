// SPDX-License-Identifier: Apache-2.0
// A build without HDF5 says which option it lacks.
#include "support/expect_error.hpp"
#include <ostraka/checkpoint/contents.hpp>

namespace ostraka::checkpoint {
namespace {

TEST(Absent, NamesTheOption) {
  test::expect_error(Status::NOT_SUPPORTED, [] { read_contents("a.h5"); }, {"'a.h5'", "OSTRAKA_ENABLE_HDF5"});
}

} // namespace
} // namespace ostraka::checkpoint
