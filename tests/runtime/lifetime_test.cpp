// SPDX-License-Identifier: Apache-2.0
// The test program holds a Session, so that the count never reaches zero here.
#include "support/expect_error.hpp"
#include <ostraka/runtime/lifetime.hpp>

namespace ostraka::runtime::test {
namespace {

TEST(Lifetime, Counts) {
  EXPECT_TRUE(is_initialized());
  EXPECT_NO_THROW(require_initialized("mesh"));
  {
    const Session inner;
    initialize();
    finalize();
  }
  EXPECT_TRUE(is_initialized());
}

} // namespace
} // namespace ostraka::runtime::test
