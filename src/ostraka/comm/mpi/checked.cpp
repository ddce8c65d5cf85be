// SPDX-License-Identifier: Apache-2.0
// OSTRAKA_CHECK=1: before an operation starts, the ranks compare what each of them is about to do. Only operations that
// agree are started, so neither a mixed-up order nor a different size can hang or move wrong data.
#include <ostraka/base/error.hpp>
#include <ostraka/comm/mpi/impl/mpi_collective.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace ostraka::comm::impl {

namespace {

/// A description as it travels. Names longer than its array agree when their begins do.
struct Record {
  explicit Record(const Description& from) : count(from.count), detail(from.detail) {
    dtype = static_cast<std::int32_t>(from.dtype);
    op = static_cast<std::int32_t>(from.op);
    std::strncpy(operation.data(), from.operation, operation.size() - 1);
    if (from.name != nullptr)
      std::strncpy(name.data(), from.name->c_str(), name.size() - 1);
  }
  Record() = default;

  bool is(std::string_view what) const { return what == operation.data(); }

  // An exchange moves other counts on every rank.
  bool has_same_text(const Record& other) const {
    return operation == other.operation && name == other.name && dtype == other.dtype &&
           (count == other.count || is("exchange"));
  }

  bool agrees(const Record& other) const { return has_same_text(other) && op == other.op && detail == other.detail; }

  std::string text() const {
    Description description;
    description.operation = operation.data();
    description.count = count;
    description.dtype = static_cast<DType>(dtype);
    if (name[0] != '\0')
      description.name = std::make_shared<const std::string>(name.data());
    return description.text();
  }

  std::int64_t count = 0;
  std::int64_t detail = 0;
  std::int32_t dtype = 0;
  std::int32_t op = 0;
  std::array<char, 16> operation{};
  std::array<char, 88> name{};
};

// What the texts of two records that do not agree leave out.
std::string difference(const Record& first, const Record& other) {
  if (!first.has_same_text(other))
    return "";
  if (first.op != other.op)
    return " (reductions " + std::string(layout::name(static_cast<layout::ReduceOp>(first.op))) + " and " +
           layout::name(static_cast<layout::ReduceOp>(other.op)) + ")";
  if (first.is("broadcast"))
    return " (from rank " + std::to_string(first.detail) + " and from rank " + std::to_string(other.detail) + ")";
  return first.is("exchange") ? " (between layouts that differ)" : " (in pieces that differ)";
}

class Checked final : public MpiCollective {
public:
  Checked(GroupPtr group, std::unique_ptr<Collective> operation)
      : MpiCollective(std::move(group)), operation_(std::move(operation)) {}

  void start() override {
    operation_->description = description;
    own_ = Record(description);
    records_.resize(static_cast<std::size_t>(group_->size));
    check(MPI_Iallgather(&own_, sizeof(Record), MPI_BYTE, records_.data(), sizeof(Record), MPI_BYTE, group_->comm,
                         &request_));
  }

  bool test() override {
    if (!operation_->is_started) {
      if (!is_complete(request_))
        return false;
      compare();
      operation_->start();
      operation_->is_started = true;
    }
    return operation_->test();
  }

  bool will_start_again() const override { return !operation_->is_started || operation_->will_start_again(); }

private:
  void compare() const {
    const auto other = std::find_if(records_.begin(), records_.end(),
                                    [&](const Record& record) { return !record.agrees(records_[0]); });
    expect(other == records_.end(), Status::RANKS_DISAGREE, "operation ", description.sequence, " of communicator ",
           group_->name, " differs between its ranks: rank 0 called ", records_[0].text(), ", rank ",
           other - records_.begin(), " called ", other == records_.end() ? "" : other->text(),
           other == records_.end() ? "" : difference(records_[0], *other),
           "; all ranks make the same calls in the same order");
  }

  std::unique_ptr<Collective> operation_;
  Record own_;
  std::vector<Record> records_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

} // namespace

std::unique_ptr<Collective> make_checked(GroupPtr group, std::unique_ptr<Collective> operation) {
  return std::make_unique<Checked>(std::move(group), std::move(operation));
}

} // namespace ostraka::comm::impl
