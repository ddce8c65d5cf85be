// SPDX-License-Identifier: Apache-2.0
// Files and contents that do not fit: one error that lists everything, the same on all ranks, before anything changes.
#include "checkpoint_test.hpp"
#include <ostraka/checkpoint/chunks.hpp>
#include <ostraka/checkpoint/contents.hpp>
#include <ostraka/checkpoint/impl/format.hpp>
#include <ostraka/checkpoint/impl/sums.hpp>

#include <sys/stat.h>

#include <fstream>

namespace ostraka::checkpoint::test {
namespace {

class LoadErrors : public testing::Test {
protected:
  NamedState make(std::vector<Shape> shapes, std::vector<std::string> names, int salt, DType dtype = DType::f64) {
    return make_state(DBuffer::empty(mesh_, {layout::shard()}, std::move(shapes), dtype), std::move(names), salt);
  }
  void expect_load(Status status, Content& content, std::initializer_list<std::string> parts,
                   LoadOptions options = {}) {
    expect_error(
        status, [&] { load(path_, content, options); }, parts);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  // Rank 0 changes the file.
  template <class Change>
  void change(Change&& change) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
      change();
    MPI_Barrier(MPI_COMM_WORLD);
  }

  SharedFolder folder_;
  Meshes meshes_;
  MeshPtr mesh_ = meshes_.first(ranks);
  std::string path_ = folder_.file("a.h5");
};

TEST_F(LoadErrors, OneErrorListsAll) {
  save(path_, content_of(make({{4, 3}, {5}, {2, 2}, {3}}, {"m.a", "m.b", "m.c", "m.d"}, 1)));
  Content content = content_of(make({{4, 3}, {6}, {4}, {3}}, {"m.a", "m.b", "m.c", "m.new"}, 2));
  expect_load(Status::INVALID_ARGUMENT, content,
              {path_, "not in the file: 'main_weight/m.new'", "'state/exp_avg/m.new'",
               "in the file, but not asked for: 'main_weight/m.d'", "'state/exp_avg_sq/m.d'",
               "'main_weight/m.b': expected the shape (6), found (5)",
               "'main_weight/m.c': expected the shape (4), found (2, 2)"});
  expect_state(content.states[0], 2, "nothing has changed");
  // Shapes are an error in any case.
  expect_load(Status::SHAPE_MISMATCH, content, {"'main_weight/m.b'"}, {.strict = false});
  expect_state(content.states[0], 2, "nothing has changed");
}

TEST_F(LoadErrors, NotStrict) {
  save(path_, content_of(make({{4, 3}, {5}}, {"m.a", "m.b"}, 1)));
  Content content = content_of(make({{4, 3}, {6}}, {"m.a", "m.new"}, 2));
  const LoadReport report = load(path_, content, {.strict = false});
  EXPECT_EQ(report.missing,
            (std::vector<std::string>{"main_weight/m.new", "state/exp_avg/m.new", "state/exp_avg_sq/m.new"}));
  EXPECT_EQ(report.unexpected,
            (std::vector<std::string>{"main_weight/m.b", "state/exp_avg/m.b", "state/exp_avg_sq/m.b"}));
  const auto a = content.states[0].main_weight.tensor_range(0), other = content.states[0].main_weight.tensor_range(1);
  const auto of_a = elements_at(a.data, a.count, DType::f64),
             of_other = elements_at(other.data, other.count, DType::f64);
  for (std::int64_t k = 0; k < a.count; ++k)
    EXPECT_EQ(of_a[static_cast<std::size_t>(k)], value_of(0, a.offset + k, 1));
  for (std::int64_t k = 0; k < other.count; ++k)
    EXPECT_EQ(of_other[static_cast<std::size_t>(k)], value_of(1, other.offset + k, 2));
}

TEST_F(LoadErrors, Patterns) {
  save(path_, content_of(make({{4, 3}, {5}, {6}}, {"one.w", "one.b", "two.w"}, 1)));
  Content content = content_of(make({{4, 3}, {5}, {6}, {2}}, {"one.w", "one.b", "two.w", "three.w"}, 2));
  load(path_, content, {.patterns = {"one.*"}});
  for (int t = 0; t < 4; ++t) {
    const auto own = content.states[0].main_weight.tensor_range(t);
    const auto found = elements_at(own.data, own.count, DType::f64);
    for (std::int64_t k = 0; k < own.count; ++k)
      ASSERT_EQ(found[static_cast<std::size_t>(k)], value_of(t, own.offset + k, t < 2 ? 1 : 2)) << t;
  }
  expect_load(Status::INVALID_ARGUMENT, content, {"three.w", "not in the file"}, {.patterns = {"thre?.w"}});
  expect_load(Status::INVALID_ARGUMENT, content, {"'four.*'", "no tensor"}, {.patterns = {"one.*", "four.*"}});
}

TEST_F(LoadErrors, StateIsLeftOut) {
  save(path_, content_of(make({{4, 3}}, {"m.a"}, 1)));
  Content content = content_of(make({{4, 3}}, {"m.a"}, 7));
  load(path_, content, {.state = false});
  expect_filled(content.states[0].main_weight, 1, "weights");
  expect_filled(content.states[0].state.at("exp_avg"), 8, "state");
  Content weights;
  weights.states.push_back(make({{4, 3}}, {"m.a"}, 7));
  weights.states[0].state.clear();
  expect_load(Status::INVALID_ARGUMENT, weights, {"not asked for: 'state/exp_avg/m.a'"});
  load(path_, weights, {.state = false});
  expect_filled(weights.states[0].main_weight, 1, "weights alone");
}

TEST_F(LoadErrors, Types) {
  const auto field = [&](DType dtype) {
    Content content;
    content.fields.push_back({{"f"}, DBuffer::empty(mesh_, {layout::shard()}, {{4, 3}}, dtype)});
    return content;
  };
  save(path_, field(DType::i64));
  Content content = field(DType::f64);
  expect_load(Status::TYPE_MISMATCH, content, {"'field/f'", "expected the type f64, found i64"});
}

TEST_F(LoadErrors, DamagedTensor) {
  save(path_, content_of(make({{40, 3}, {500}}, {"m.a", "m.b"}, 1)));
  const Contents contents = read_contents(path_);
  for (const Tensor& tensor : contents.tensors)
    for (const std::int64_t byte : {std::int64_t{0}, tensor.bytes() / 2, tensor.bytes() - 1}) {
      const auto flip = [&] {
        std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(tensor.offset + byte);
        const int value = file.get();
        file.seekp(tensor.offset + byte);
        file.put(static_cast<char>(value ^ 4));
      };
      change(flip);
      Content content = content_of(make({{40, 3}, {500}}, {"m.a", "m.b"}, 2));
      expect_load(Status::INPUT_OUTPUT, content, {path_, "damaged", "'" + tensor.path() + "'", "expected"});
      load(path_, content, {.verify = false});
      change(flip);
      load(path_, content); // the content is usable
      expect_state(content.states[0], 1, "repaired");
    }
}

TEST_F(LoadErrors, DamagedUserValue) {
  Content content = content_of(make({{4, 3}}, {"m.a"}, 1));
  content.user.set_text("note", "0123456789");
  save(path_, content);
  for (const Tensor& tensor : read_contents(path_).tensors)
    if (tensor.group == user_group)
      change(
          [&] { std::fstream(path_, std::ios::in | std::ios::out | std::ios::binary).seekp(tensor.offset).put('x'); });
  expect_load(Status::INPUT_OUTPUT, content, {"user/note", "damaged"});
  load(path_, content, {.verify = false});
  EXPECT_EQ(content.user.text("note"), "x123456789");
}

TEST_F(LoadErrors, FilesThatAreNone) {
  Content content = content_of(make({{4, 3}}, {"m.a"}, 2));
  expect_load(Status::INPUT_OUTPUT, content, {path_, "No such file", "rank 0"});
  change([&] { EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0); }); // without a writer
  expect_load(Status::INPUT_OUTPUT, content, {path_, "expected a file"});
  change([&] { std::filesystem::remove(path_); });
  change([&] { std::ofstream(path_) << "something"; });
  expect_load(Status::INPUT_OUTPUT, content, {path_, "no HDF5"});
  change([&] { std::filesystem::resize_file(path_, 0); });
  expect_load(Status::INPUT_OUTPUT, content, {path_, "no HDF5"});
  save(path_, content);
  for (const double part : {0.999, 0.7, 0.3, 0.01}) {
    change([&] {
      std::filesystem::resize_file(
          path_, static_cast<std::uintmax_t>(static_cast<double>(std::filesystem::file_size(path_)) * part));
    });
    expect_load(Status::INPUT_OUTPUT, content, {path_});
  }
  expect_state(content.states[0], 2, "nothing has changed");
}

TEST_F(LoadErrors, LaterVersion) {
  Content content = content_of(make({{4, 3}}, {"m.a"}, 2));
  save(path_, content);
  change([&] {
    const hid_t file = H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t attribute = H5Aopen(file, "format_version", H5P_DEFAULT);
    const std::int64_t version = 2;
    H5Awrite(attribute, H5T_NATIVE_INT64, &version);
    H5Aclose(attribute);
    H5Fclose(file);
  });
  expect_load(Status::INVALID_ARGUMENT, content, {path_, "version 2"});
}

// Whatever byte of the file is wrong, the result is right or an error.
TEST_F(LoadErrors, AnyDamagedByte) {
  if (ranks > 1)
    GTEST_SKIP() << "on one rank";
  Content saved = content_of(make({{4, 3}, {5}}, {"m.a", "m.b"}, 1));
  saved.steps = 3;
  save(path_, saved, {.sync = false});
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path_));
  int refused = 0;
  for (std::int64_t at = 0; at < size; ++at) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const int value = file.get();
    if (value == 0 && at % 1024 != 0) // mostly room that nobody uses
      continue;
    file.seekp(at).put(static_cast<char>(value ^ 0x55)).flush();
    Content content = content_of(make({{4, 3}, {5}}, {"m.a", "m.b"}, 2));
    try {
      load(path_, content);
      expect_state(content.states[0], 1, "byte " + std::to_string(at));
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path_), std::string::npos) << at << ": " << error.what();
      ++refused;
    }
    file.seekp(at).put(static_cast<char>(value));
  }
  EXPECT_GT(refused, 500);
}

TEST_F(LoadErrors, RanksThatDisagree) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const bool is_last = rank == ranks - 1;
  Content content = content_of(make({{4, 3}}, {"m.a"}, 1));
  const auto expect_disagreement = [&](const Content& one, std::initializer_list<std::string> parts) {
    expect_error(
        Status::RANKS_DISAGREE, [&] { save(path_, one); }, parts);
    MPI_Barrier(MPI_COMM_WORLD);
  };
  content.user.set_f64("time", is_last ? 1 : 2);
  expect_disagreement(content, {"user/time"});
  content = content_of(make({{4, 3}, {2}}, {"m.a", is_last ? "m.b" : "m.c"}, 1));
  expect_disagreement(content, {is_last ? "main_weight/m.b" : "main_weight/m.c"});
  content = content_of(make({{4, 3}}, {"m.a"}, 1));
  if (is_last)
    content.states[0].state.erase("exp_avg");
  expect_disagreement(content, {"number of tensors"});
  content = content_of(make({{4, 3}}, {"m.a"}, 1));
  content.steps = rank;
  expect_disagreement(content, {"steps"});
  content.steps.reset();
  expect_error(Status::RANKS_DISAGREE, [&] { save(path_ + (is_last ? "x" : ""), content); }, {"path"});
  EXPECT_TRUE(folder_.names().empty());
  save(path_, content);
  expect_error(Status::RANKS_DISAGREE, [&] { load(path_, content, {.strict = is_last}); }, {"options"});
}

TEST_F(LoadErrors, WhatCannotBeSaved) {
  const NamedState good = make({{4, 3}}, {"m.a"}, 1);
  const auto expect_refused = [&](const Content& content, Status status, std::initializer_list<std::string> parts) {
    expect_error(
        status, [&] { save(path_, content); }, parts);
    MPI_Barrier(MPI_COMM_WORLD);
  };
  expect_refused({}, Status::INVALID_ARGUMENT, {"at least one"});
  Content content = content_of(good);
  content.states.push_back(make({{2}}, {"m.a"}, 1));
  expect_refused(content, Status::INVALID_ARGUMENT, {"'main_weight/m.a'", "two tensors"});
  content = content_of(good);
  content.states[0].tensor_names = {"m.a", "m.b"};
  expect_refused(content, Status::SHAPE_MISMATCH, {"m.a", "1", "2"});
  content = content_of(good);
  content.states[0].main_weight.storage()->release();
  expect_refused(content, Status::INVALID_STATE, {"m.a", "released"});
  content.states[0].main_weight.reallocate_storage();
  content.states[0].is_updated = [] { return true; };
  expect_refused(content, Status::INVALID_STATE, {"m.a", "step"});
  content = content_of(good);
  content.states[0].state["exp_avg"] = DBuffer::empty(mesh_, {layout::shard()}, {{4, 4}}, DType::f64);
  expect_refused(content, Status::SHAPE_MISMATCH, {"state/exp_avg/m.a"});
  content = content_of(good);
  content.fields.push_back({{"p"}, DBuffer::empty(mesh_, {layout::partial()}, {{4, 4}}, DType::f64)});
  expect_refused(content, Status::INVALID_ARGUMENT, {"Partial"});
  EXPECT_TRUE(folder_.names().empty());
  // The same state twice, as of a context and of an optimizer, is one.
  content = content_of(good);
  content.states.push_back(good);
  content.states[0].state.clear();
  save(path_, content);
  Content loaded = content_of(make({{4, 3}}, {"m.a"}, 0));
  load(path_, loaded);
  expect_state(loaded.states[0], 1, "once");
}

// Layouts that differ among the ranks: the first and the last one take a tensor for theirs.
TEST_F(LoadErrors, ElementsThatTwoRanksHave) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto make_with_owner = [&](int owner) {
    const auto layout =
        std::make_shared<layout::GlobalLayout>(layout::build_tensor_atomic({{5}}, ranks, std::vector<int>{owner}));
    return content_of(make_state(DBuffer(mesh_, {layout::shard()}, layout, DType::f64), {"m.a"}, 1));
  };
  const std::initializer_list<std::string> parts{"'main_weight/m.a'", "expected 5", "found 10"};
  Content content = make_with_owner(rank == 0 ? 0 : ranks - 1);
  expect_error(
      Status::INTERNAL, [&] { save(path_, content); }, parts);
  save(path_, make_with_owner(0));
  expect_load(Status::INTERNAL, content, parts);
  expect_load(Status::INTERNAL, content, parts, {.verify = false});
  expect_state(content.states[0], 1, "as before");
}

// Case 32: a part that no rank has, in a save and a load: layouts in which the first rank takes it for the last one's,
// and the others for the first one's.
TEST_F(LoadErrors, Case32) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto make_with_owners = [&](bool is_whole, int salt) {
    std::vector<int> owners{ranks - 1, is_whole || rank != 0 ? 0 : ranks - 1};
    const auto layout =
        std::make_shared<layout::GlobalLayout>(layout::build_tensor_atomic({{3}, {5, 2}}, ranks, std::move(owners)));
    return content_of(make_state(DBuffer(mesh_, {layout::shard()}, layout, DType::f64), {"m.a", "m.b"}, salt));
  };
  const std::initializer_list<std::string> parts{"'main_weight/m.b'", "expected 10", "found 0"};
  Content content = make_with_owners(false, 1);
  expect_error(
      Status::INTERNAL, [&] { save(path_, content); }, parts);
  EXPECT_TRUE(folder_.names().empty());
  save(path_, make_with_owners(true, 2));
  expect_load(Status::INTERNAL, content, parts);
  expect_load(Status::INTERNAL, content, parts, {.verify = false});
  expect_state(content.states[0], 1, "as before");
  Content whole = make_with_owners(true, 0);
  load(path_, whole);
  expect_state(whole.states[0], 2, "whole");
}

// Case 32, in the file: one rank's part was never written.
TEST_F(LoadErrors, Case32InTheFile) {
  NamedState state = make({{4 * ranks, 64}}, {"m.a"}, 1);
  save(path_, content_of(state));
  const auto part = chunk_of(std::vector<NamedState>{state}, "m.a").written;
  if (rank == ranks - 1) {
    const Contents contents = read_contents(path_);
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(contents.tensors[0].offset + 8 * part.begin);
    file << std::string(static_cast<std::size_t>(8 * part.size()), '\0');
  }
  MPI_Barrier(MPI_COMM_WORLD);
  Content content = content_of(make({{4 * ranks, 64}}, {"m.a"}, 0));
  expect_load(Status::INPUT_OUTPUT, content, {"'main_weight/m.a'", "damaged", "expected", "found"});
}

// The parts alone: one that no rank has, or two have.
TEST_F(LoadErrors, Coverage) {
  Tensor tensor;
  tensor.group = "main_weight";
  tensor.name = "m.a";
  tensor.shape = {ranks, 5};
  const auto combine = [&](std::vector<impl::PartSum> own) {
    return impl::combine_sums(std::vector<Tensor>{tensor}, impl::gather_sums(*mesh_->communicators().all, own),
                              "load 'x'");
  };
  std::vector<impl::PartSum> own{{0, 5 * rank, 2, 1}, {0, 5 * rank + 2, 3, 2}};
  EXPECT_EQ(combine(own).size(), 1u);
  const bool is_last = rank == ranks - 1;
  const std::string expected = std::to_string(5 * ranks);
  expect_error(Status::INTERNAL, [&] { combine(is_last ? std::vector<impl::PartSum>{own[0]} : own); },
               {"'main_weight/m.a'", "expected " + expected, "found " + std::to_string(5 * ranks - 3)});
  own[0].begin += is_last ? 1 : 0; // as many elements, not the right ones
  expect_error(Status::INTERNAL, [&] { combine(own); }, {"'main_weight/m.a'"});
}

} // namespace
} // namespace ostraka::checkpoint::test
