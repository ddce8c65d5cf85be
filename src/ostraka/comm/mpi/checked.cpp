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

  // An exchange moves other counts on every rank.
  bool agrees(const Record& other) const {
    const bool counts_agree = count == other.count || std::string_view(operation.data()) == "exchange";
    return operation == other.operation && name == other.name && counts_agree && detail == other.detail &&
           dtype == other.dtype && op == other.op;
  }

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

// Two ranks whose texts are equal differ in something else.
std::string difference(const Record& first, const Record& other) {
  if (first.op != other.op)
    return " (reductions " + std::string(layout::name(static_cast<layout::ReduceOp>(first.op))) + " and " +
           layout::name(static_cast<layout::ReduceOp>(other.op)) + ")";
  return first.text() == other.text() ? " (in pieces, from a root or between layouts that differ)" : "";
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
      int flag = 0;
      check(MPI_Test(&request_, &flag, MPI_STATUS_IGNORE));
      if (flag == 0)
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
    expect(other == records_.end(), Status::RANKS_DISAGREE, "operation ", description.sequence,
           " of a communicator differs between its ranks: rank 0 called ", records_[0].text(), ", rank ",
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
