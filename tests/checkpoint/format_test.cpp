// SPDX-License-Identifier: Apache-2.0
// The frame of a file: what is written is what is read, by the library and by plain HDF5 calls.
#include "support/expect_error.hpp"
#include <ostraka/base/version.hpp>
#include <ostraka/checkpoint/impl/format.hpp>

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace ostraka::checkpoint {
namespace {

using ostraka::test::expect_error;

class Format : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "ostraka-format.XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = folder_ / "a.h5";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Contents write(std::vector<Tensor> tensors, std::optional<std::int64_t> steps = 7) {
    Contents contents;
    contents.steps = steps;
    contents.layout_report = "planned: 3 elements";
    contents.tensors = std::move(tensors);
    impl::write_frame(path_, contents);
    return contents;
  }

  std::filesystem::path folder_;
  std::string path_;
};

Tensor tensor(const char* group, const char* name, DType dtype, layout::Shape shape, std::uint32_t crc = 1) {
  Tensor result;
  result.group = group;
  result.name = name;
  result.dtype = dtype;
  result.shape = std::move(shape);
  result.crc32c = crc;
  return result;
}

std::vector<Tensor> all_kinds() {
  std::vector<Tensor> tensors;
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8})
    tensors.push_back(tensor("main_weight", (std::string("z.") + name(dtype)).c_str(), dtype, {3, 2}, 0xfffffff0u));
  tensors.push_back(tensor("main_weight", "a/b.100%", DType::f64, {2}));
  tensors.back().other_names = {"tied.one", "tied/two"};
  tensors.push_back(tensor("state/exp_avg", "z.f64", DType::f64, {3, 2}));
  tensors.push_back(tensor("state/exp/avg", ".", DType::f32, {5}));
  tensors.push_back(tensor("field", "scalar", DType::f64, {}));
  tensors.push_back(tensor("field", "empty", DType::f64, {0, 4}));
  tensors.push_back(tensor("user", "text", DType::u8, {5}));
  tensors.back().is_text = true;
  tensors.push_back(tensor("user", "no text", DType::u8, {0}));
  tensors.back().is_text = true;
  return tensors;
}

TEST_F(Format, RoundTrip) {
  const Contents written = write(all_kinds());
  const Contents read = read_contents(path_);
  EXPECT_EQ(read.format_version, 1);
  EXPECT_EQ(read.library_version, OSTRAKA_VERSION_STRING);
  EXPECT_EQ(read.layout_report, "planned: 3 elements");
  EXPECT_EQ(read.steps, 7);
  ASSERT_EQ(read.tensors.size(), written.tensors.size());
  for (const Tensor& expected : written.tensors) { // groups come in their order
    const auto found = std::find_if(read.tensors.begin(), read.tensors.end(),
                                    [&](const Tensor& tensor) { return tensor.path() == expected.path(); });
    ASSERT_NE(found, read.tensors.end()) << expected.path();
    EXPECT_EQ(*found, expected) << expected.path();
  }
  EXPECT_EQ(read.tensors[0].name, "z.f64") << "the order of saving, not that of names";
  EXPECT_EQ(read.tensors[7].name, "a/b.100%");
}

TEST_F(Format, NoStepsAndNoTensors) {
  write({}, std::nullopt);
  EXPECT_FALSE(read_contents(path_).steps.has_value());
  EXPECT_TRUE(read_contents(path_).tensors.empty());
}

TEST_F(Format, LongReport) {
  Contents contents;
  contents.layout_report = std::string(200000, 'x');
  impl::write_frame(path_, contents);
  EXPECT_EQ(read_contents(path_).layout_report, contents.layout_report);
}

// Bytes written at the offsets are what HDF5 reads.
TEST_F(Format, OffsetsAreThoseOfTheData) {
  const Contents contents = write({tensor("main_weight", "w.a", DType::i32, {2, 2}),
                                   tensor("main_weight", "w.b", DType::i32, {3, 1 << 18})}); // aligned: > 1 MiB
  const std::int32_t values[] = {1, 2, 3, 4};
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(contents.tensors[0].offset).write(reinterpret_cast<const char*>(values), sizeof values);
  }
  EXPECT_EQ(contents.tensors[1].offset % 4096, 0);
  EXPECT_GE(std::filesystem::file_size(path_), contents.tensors[1].offset + contents.tensors[1].bytes());
  const hid_t file = H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, "/main_weight/w.a", H5P_DEFAULT);
  std::int32_t read[4] = {};
  EXPECT_GE(H5Dread(dataset, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, read), 0);
  EXPECT_TRUE(std::equal(values, values + 4, read));
  H5Dclose(dataset);
  H5Fclose(file);
}

TEST_F(Format, TiedNamesAreLinks) {
  write(all_kinds());
  const hid_t file = H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  for (const char* path :
       {"/main_weight/a%2Fb.100%25", "/main_weight/tied.one", "/main_weight/tied%2Ftwo", "/state/exp%2Favg/%2E"}) {
    const hid_t dataset = H5Dopen2(file, path, H5P_DEFAULT);
    EXPECT_GE(dataset, 0) << path;
    H5Dclose(dataset);
  }
  H5Fclose(file);
}

TEST_F(Format, Names) {
  for (const char* name : {"a", "a.b", "/", "%", "%2F", "%25", "a/b%/c", ".", "..", "ü"}) {
    EXPECT_EQ(impl::unescape(impl::escape(name)), name);
    EXPECT_EQ(impl::escape(name).find('/'), std::string::npos);
  }
  EXPECT_EQ(impl::escape("a/b%"), "a%2Fb%25");
  EXPECT_NE(impl::escape("."), ".");
  EXPECT_EQ(impl::unescape("50%"), "50%");
  expect_error(Status::INVALID_ARGUMENT, [] { impl::escape(""); }, {"no name"});
  expect_error(Status::INVALID_ARGUMENT, [] { impl::escape(std::string("a\0b", 3)); }, {"zero byte"});
}

TEST_F(Format, TwoTensorsOfOneName) {
  expect_error(Status::INVALID_ARGUMENT,
               [&] {
                 write({tensor("user", "a/b", DType::u8, {1}), tensor("user", "a/b", DType::u8, {1})});
               },
               {path_, "two tensors", "user/a/b"});
}

TEST_F(Format, WhatIsNoCheckpoint) {
  const auto read = [&] { read_contents(path_); };
  expect_error(Status::INPUT_OUTPUT, read, {path_, "No such file"});
  std::ofstream(path_) << "no HDF5 at all";
  expect_error(Status::INPUT_OUTPUT, read, {path_, "no HDF5"});
  expect_error(Status::INPUT_OUTPUT, [&] { read_contents(folder_); }, {"something else"});

  const hid_t file = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(file);
  expect_error(Status::INVALID_ARGUMENT, read, {path_, "no checkpoint"});
}

TEST_F(Format, LaterVersion) {
  write({});
  const hid_t file = H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t attribute = H5Aopen(file, "format_version", H5P_DEFAULT);
  const std::int64_t version = 2;
  H5Awrite(attribute, H5T_NATIVE_INT64, &version);
  H5Aclose(attribute);
  H5Fclose(file);
  expect_error(Status::INVALID_ARGUMENT, [&] { read_contents(path_); }, {path_, "version 2", "up to 1"});
}

TEST_F(Format, Truncated) {
  write({tensor("main_weight", "w.b", DType::f64, {1 << 18})});
  const auto whole = std::filesystem::file_size(path_);
  for (const auto size : {whole - 1, whole / 2, decltype(whole){100}}) {
    std::filesystem::resize_file(path_, size);
    expect_error(Status::INPUT_OUTPUT, [&] { read_contents(path_); }, {path_});
  }
}

TEST_F(Format, FolderThatIsNotThere) {
  Contents contents;
  expect_error(Status::INPUT_OUTPUT, [&] { impl::write_frame(folder_ / "none" / "a.h5", contents); }, {"none"});
}

} // namespace
} // namespace ostraka::checkpoint
