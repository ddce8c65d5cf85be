// SPDX-License-Identifier: Apache-2.0
// What a save takes above the shards, of the first save of a process: a later one finds memory that the heap kept.
#include "checkpoint_test.hpp"

#include <fstream>

namespace ostraka::checkpoint::test {
namespace {

constexpr std::int64_t mib = 1 << 20;

std::int64_t status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;)
    if (std::int64_t kib = 0; word == key && file >> kib)
      return kib * 1024;
  return 0;
}

TEST(Memory, OfTheFirstSave) {
  const SharedFolder folder;
  Meshes meshes;
  const MeshPtr mesh = meshes.first(ranks);
  Content content;
  content.fields.push_back({{"large"}, DBuffer::empty(mesh, {layout::shard()}, {{ranks, 16 * mib}}, DType::f64)});
  const DBuffer& field = content.fields[0].values;
  ASSERT_EQ(field.bytes(), 128 * mib);
  std::memset(field.data(), 1, static_cast<std::size_t>(field.bytes()));
  std::ofstream clear("/proc/self/clear_refs");
  clear << "5" << std::flush; // the peak starts anew
  const std::int64_t before = status_bytes("VmRSS:"), peak_before = status_bytes("VmHWM:");
  save(folder.file("a.h5"), content, {.sync = false});
  if (!clear || peak_before > before + mib)
    GTEST_SKIP() << "/proc/self/clear_refs does not work here";
  EXPECT_GT(before, 128 * mib);
  EXPECT_LE(status_bytes("VmHWM:") - before, 64 * mib);
}

// The memory of a copy stays for the next one, which then touches no new pages, until it is given back.
TEST(Memory, OfTheCopyStays) {
  const SharedFolder folder;
  Meshes meshes;
  Content content;
  const MeshPtr mesh = meshes.first(ranks);
  content.fields.push_back({{"large"}, DBuffer::empty(mesh, {layout::shard()}, {{ranks, 8 * mib}}, DType::f64)});
  const DBuffer& field = content.fields[0].values;
  std::memset(field.data(), 1, static_cast<std::size_t>(field.bytes()));
  const auto save_and_wait = [&] {
    const auto in_flight = AsyncSave::start(folder.file("a.h5"), content, {.sync = false});
    in_flight->wait();
    EXPECT_EQ(in_flight->staging_bytes(), 64 * mib);
  };
  const std::int64_t before = status_bytes("VmRSS:");
  save_and_wait();
  const std::int64_t behind = status_bytes("VmRSS:");
  EXPECT_GE(behind - before, 60 * mib);
  save_and_wait();
  EXPECT_LE(status_bytes("VmRSS:") - behind, 8 * mib) << "one copy, not two";
  AsyncSave::release_memory();
  EXPECT_LE(status_bytes("VmRSS:") - before, 12 * mib);
  save_and_wait();
  AsyncSave::release_memory();
}

} // namespace
} // namespace ostraka::checkpoint::test
