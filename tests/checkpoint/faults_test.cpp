// SPDX-License-Identifier: Apache-2.0
// Every call of the system fails once, on every rank: all ranks get one error that names the call, the file that was
// there stays, nothing else does, and the next save works.
#include "checkpoint_test.hpp"
#include "common_error.hpp"
#include "faulty.hpp"

namespace ostraka::checkpoint::test {
namespace {

void save_and_wait(const std::string& path, const Content& content) { AsyncSave::start(path, content)->wait(); }
void save_now(const std::string& path, const Content& content) { save(path, content); }

class Faults : public testing::TestWithParam<void (*)(const std::string&, const Content&)> {
protected:
  int salt_in(const std::string& path) {
    Content loaded = content_of(make_plain_state(mesh_, 0));
    load(path, loaded);
    const int salt = static_cast<int>(loaded.user.i64("salt"));
    expect_state(loaded.states[0], salt, path);
    return salt;
  }
  Content make(int salt) {
    Content content = content_of(make_plain_state(mesh_, salt));
    content.user.set_i64("salt", salt);
    return content;
  }

  SharedFolder folder_;
  Meshes meshes_;
  MeshPtr mesh_ = meshes_.first(ranks);
  std::string path_ = folder_.file("a.h5");
};

TEST_P(Faults, OfEveryCall) {
  save(path_, make(4));
  int failures = 0;
  for (const char* call : {"open", "pwritev", "ftruncate", "fsync", "close", "rename"})
    for (int victim = 0; victim < ranks; ++victim)
      for (int number = 1;; ++number) {
        SCOPED_TRACE(std::string(call) + " " + std::to_string(number) + " of rank " + std::to_string(victim));
        std::string text;
        int has_failed = 0;
        {
          Faulty faulty;
          if (rank == victim)
            faulty.fail(call, number, ENOSPC);
          text = common_error([&] { GetParam()(path_, make(7)); });
          has_failed = rank == victim && faulty.has_failed() ? 1 : 0;
        }
        MPI_Allreduce(MPI_IN_PLACE, &has_failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (has_failed != 0 && std::string(call) == "close" && victim == 0 && number == 3)
          has_failed = 0; // closing the folder, which is on the disk already
        EXPECT_EQ(text.empty(), has_failed == 0) << text;
        EXPECT_EQ(folder_.names(), std::vector<std::string>{"a.h5"});
        const int found = salt_in(path_);
        if (has_failed == 0) {
          EXPECT_EQ(found, 7);
          save(path_, make(4));
          break;
        }
        ++failures;
        EXPECT_NE(text.find("No space left"), std::string::npos) << text;
        EXPECT_NE(text.find("rank " + std::to_string(victim)), std::string::npos) << text;
        EXPECT_NE(text.find(path_), std::string::npos) << text;
        // Only the folder itself comes to the disk behind the rename.
        const bool is_behind = found == 7;
        EXPECT_TRUE(found == 4 || is_behind);
        EXPECT_EQ(is_behind, text.find("may not be on the disk") != std::string::npos) << text;
        if (is_behind)
          save(path_, make(4));
        MPI_Barrier(MPI_COMM_WORLD);
      }
  EXPECT_GE(failures,
            3 * ranks + 6); // open, write, sync of each; rank 0 also writes the frame, renames, syncs the folder
}

INSTANTIATE_TEST_SUITE_P(Saves, Faults, testing::Values(save_now, save_and_wait),
                         [](const auto& info) { return info.index == 0 ? "Now" : "Async"; });

TEST(ShortCalls, AreContinued) {
  const SharedFolder folder;
  Meshes meshes;
  const MeshPtr mesh = meshes.first(ranks);
  const std::string path = folder.file("short.h5");
  Faulty faulty;
  faulty.fall_short();
  save(path, content_of(make_plain_state(mesh, 5)));
  Content loaded = content_of(make_plain_state(mesh, 0));
  load(path, loaded);
  expect_state(loaded.states[0], 5, "short");
  EXPECT_GT(faulty.calls, 20);
}

TEST(LoadFaults, OnOneRank) {
  const SharedFolder folder;
  Meshes meshes;
  const MeshPtr mesh = meshes.first(ranks);
  const std::string path = folder.file("a.h5");
  save(path, content_of(make_plain_state(mesh, 5)));
  for (const char* call : {"open", "preadv"})
    for (int victim = 0; victim < ranks; ++victim) {
      Faulty faulty;
      Content loaded = content_of(make_plain_state(mesh, 0));
      if (rank == victim)
        faulty.fail(call, 1, EIO);
      const std::string text = common_error([&] { load(path, loaded); });
      EXPECT_NE(text.find("Input/output error"), std::string::npos) << text;
      EXPECT_NE(text.find("rank " + std::to_string(victim)), std::string::npos) << text;
      load(path, loaded);
      expect_state(loaded.states[0], 5, "again");
      MPI_Barrier(MPI_COMM_WORLD);
    }
}

// Every rank brings what it wrote to the disk, and rank 0 the folder, before and behind the rename; or nobody does.
TEST_P(Faults, SyncIsDone) {
  Faulty faulty;
  GetParam()(path_, make(4));
  const Content content = make(4);
  EXPECT_EQ(faulty.count("fsync"), rank == 0 ? 2 : 1);
  save(path_, content, {.sync = false});
  AsyncSave::start(path_, content, {.sync = false})->wait();
  EXPECT_EQ(faulty.count("fsync"), rank == 0 ? 2 : 1);
}

// What killed saves left goes with the next one; other files stay.
TEST(StaleFiles, AreRemoved) {
  const SharedFolder folder;
  Meshes meshes;
  const std::vector<std::string> others{"a.h5.partial-0123456789abcdefg", "a.h5.partial-0123456789ABCDEF",
                                        "b.h5.partial-0123456789abcdef", "a.h5.partial-"};
  const auto touch = [&](const std::string& name) { std::fclose(std::fopen(folder.file(name).c_str(), "w")); };
  if (rank == 0) {
    for (const std::string& name : others)
      touch(name);
    touch("a.h5.partial-0123456789abcdef");
  }
  save(folder.file("a.h5"), content_of(make_plain_state(meshes.first(ranks), 5)));
  std::vector<std::string> expected = others;
  expected.push_back("a.h5");
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(folder.names(), expected);
}

TEST(Places, ThatCannotBe) {
  const SharedFolder folder;
  Meshes meshes;
  const Content content = content_of(make_plain_state(meshes.first(ranks), 5));
  save(folder.file("a.h5"), content);
  const auto text = [&](const std::string& path) { return common_error([&] { save(path, content); }); };
  EXPECT_NE(text(folder.file("none/b.h5")).find("No such file"), std::string::npos);
  EXPECT_NE(text(folder.file("a.h5/b.h5")).find("Not a directory"), std::string::npos);
  EXPECT_NE(text(folder.file("")).find("is a folder"), std::string::npos);
  EXPECT_NE(text("/proc/a.h5").find("/proc/a.h5"), std::string::npos);
  EXPECT_NE(text("/dev/full/a.h5").find("Not a directory"), std::string::npos);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.h5"});
}

TEST(Places, RelativePaths) {
  const SharedFolder folder;
  Meshes meshes;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.file(""));
  const Content content = content_of(make_plain_state(meshes.first(ranks), 5));
  save("a.h5", content);
  Content loaded = content_of(make_plain_state(meshes.first(ranks), 0));
  load("./a.h5", loaded);
  expect_state(loaded.states[0], 5, "relative");
  std::filesystem::current_path(before);
}

// In a file system of its own, see checkpoint_files.py.
TEST(FullDisk, KeepsTheOldFile) {
  if (std::getenv("OSTRAKA_TEST_FULL_DISK") == nullptr)
    GTEST_SKIP() << "needs a small file system";
  const SharedFolder folder;
  Meshes meshes;
  const MeshPtr mesh = meshes.first(ranks);
  const std::string path = folder.file("a.h5");
  save(path, content_of(make_plain_state(mesh, 5)));
  const auto layout = std::make_shared<layout::GlobalLayout>(layout::build_flat({{9 << 20}}, ranks));
  Content large;
  large.fields.push_back({{"large"}, DBuffer(mesh, {layout::shard()}, layout, DType::f64)}); // 72 MiB for 64
  for (const auto& save_somehow : {save_now, save_and_wait}) {
    const std::string text = common_error([&] { save_somehow(path, large); });
    EXPECT_NE(text.find("No space left"), std::string::npos) << text;
    EXPECT_NE(text.find("'large'"), std::string::npos) << text;
    EXPECT_EQ(folder.names(), std::vector<std::string>{"a.h5"});
    Content loaded = content_of(make_plain_state(mesh, 0));
    load(path, loaded);
    expect_state(loaded.states[0], 5, "old");
    MPI_Barrier(MPI_COMM_WORLD);
  }
  save(path, content_of(make_plain_state(mesh, 6))); // and there is room again
}

TEST(ReadOnlyDisk, IsAnError) {
  const char* place = std::getenv("OSTRAKA_TEST_READ_ONLY");
  if (place == nullptr)
    GTEST_SKIP() << "needs a read-only file system";
  Meshes meshes;
  const Content content = content_of(make_plain_state(meshes.first(ranks), 5));
  const std::string text = common_error([&] { save(std::string(place) + "/a.h5", content); });
  EXPECT_NE(text.find("Read-only file system"), std::string::npos) << text;
}

} // namespace
} // namespace ostraka::checkpoint::test
