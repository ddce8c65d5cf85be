// SPDX-License-Identifier: Apache-2.0
// Numbers and names of the C ABI, written out again so that a change shows.
#include "support/expect_error.hpp"
#include <ostraka/base/dtype.hpp>

#include <string>
#include <utility>
#include <vector>

namespace ostraka::test {
namespace {

TEST(Status, NumbersAndNames) {
  const std::vector<std::pair<int, std::string>> all{{0, "OK"},
                                                     {10, "INVALID_ARGUMENT"},
                                                     {11, "INVALID_STATE"},
                                                     {12, "INVALID_HANDLE"},
                                                     {13, "SHAPE_MISMATCH"},
                                                     {14, "TYPE_MISMATCH"},
                                                     {20, "NOT_SUPPORTED"},
                                                     {30, "OUT_OF_MEMORY"},
                                                     {40, "INPUT_OUTPUT"},
                                                     {50, "COMMUNICATION"},
                                                     {51, "RANKS_DISAGREE"},
                                                     {52, "TIME_OUT"},
                                                     {53, "USER_FAILURE"},
                                                     {60, "FAILED"},
                                                     {90, "INTERNAL"}};
  for (const auto& [number, text] : all) {
    EXPECT_EQ(name(static_cast<Status>(number)), text);
    EXPECT_FALSE(std::string(meaning(static_cast<Status>(number))).empty());
    EXPECT_NE(std::string(meaning(static_cast<Status>(number))), meaning(static_cast<Status>(1)));
  }
  for (const int number : {-1, 1, 9, 15, 91})
    EXPECT_STREQ(name(static_cast<Status>(number)), "UNKNOWN");
}

TEST(Status, ErrorCarriesStatusAndText) {
  expect_error(Status::TIME_OUT, [] { fail(Status::TIME_OUT, "gather: rank ", 3, " of ", 4L, std::string("!")); },
               {"gather: rank 3 of 4!"});
  EXPECT_NO_THROW(expect(true, Status::INTERNAL, "unused"));
  expect_error(Status::INTERNAL, [] { expect(false, Status::INTERNAL, "found ", 7); }, {"found 7"});
  const Error error(Status::FAILED, "text");
  const Error copy = error;
  EXPECT_EQ(copy.status(), Status::FAILED);
  EXPECT_STREQ(copy.what(), "text");
}

TEST(DTypes, NumbersNamesAndBytes) {
  struct Row {
    int number;
    std::string text;
    int bytes;
    bool floating;
  };
  for (const Row& row :
       {Row{0, "f64", 8, true}, Row{1, "f32", 4, true}, Row{2, "bf16", 2, true}, Row{3, "f16", 2, true},
        Row{4, "i64", 8, false}, Row{5, "i32", 4, false}, Row{6, "u8", 1, false}}) {
    const auto dtype = static_cast<DType>(row.number);
    EXPECT_EQ(name(dtype), row.text);
    EXPECT_EQ(size_of(dtype), row.bytes);
    EXPECT_EQ(is_floating(dtype), row.floating);
  }
  for (const int number : {-1, 7, 1000}) {
    expect_error(Status::INVALID_ARGUMENT, [&] { size_of(static_cast<DType>(number)); }, {std::to_string(number)});
    expect_error(Status::INVALID_ARGUMENT, [&] { name(static_cast<DType>(number)); }, {std::to_string(number)});
  }
}

} // namespace
} // namespace ostraka::test
